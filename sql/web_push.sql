/* web_push of watch and notify: what a Web Push shows. */

-- The members, in the order in which a rule stores them. The decoder has the same order (plan.c).
CREATE FUNCTION clairon_internal.web_push_members() RETURNS text[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '{title,body,url,icon,badge,lang,dir,app_badge,collapse}'::text[]
$$;

CREATE FUNCTION clairon_internal.reject_web_push(fault text, hint text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'invalid value for parameter "web_push": %', fault
        USING ERRCODE = 'invalid_parameter_value', HINT = hint;
END $$;

-- The limits of a member, as for web_push over HTTP (relay/wire/push_message.c).
CREATE FUNCTION clairon_internal.check_web_push_literal(member text, value text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF value = '' THEN
        PERFORM clairon_internal.reject_web_push(format('%s must not be empty', member), 'Leave it out.');
    END IF;
    IF member = 'dir' AND value NOT IN ('auto', 'ltr', 'rtl') THEN
        PERFORM clairon_internal.reject_web_push(format('dir is "%s"', value), 'Valid values are auto, ltr and rtl.');
    END IF;
    IF member = 'app_badge' AND (value !~ '^(0|[1-9][0-9]{0,9})$' OR value::bigint > 1000000000) THEN
        PERFORM clairon_internal.reject_web_push(format('app_badge is "%s"', value),
                                                 'Valid values are integers from 0 to 1000000000.');
    END IF;
END $$;

-- The members that are not null.
CREATE FUNCTION clairon_internal.parse_web_push(web_push text, audience text, type text)
    RETURNS TABLE (place int, member text, value text, kind text)
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    valid constant text[] := clairon_internal.web_push_members();
    names text[];
    given text;
BEGIN
    IF type = 'REALTIME' OR audience = 'ALL' THEN
        PERFORM clairon_internal.reject_web_push(
            CASE type WHEN 'REALTIME' THEN 'the type is REALTIME' ELSE 'the audience is ALL' END,
            'Web Push requires type NOTIFICATION or SYSTEM, and an audience other than ALL.');
    END IF;
    IF clairon_internal.utf8_length(web_push) > 8192 THEN
        PERFORM clairon_internal.reject_web_push(
            format('%s bytes', clairon_internal.utf8_length(web_push)), 'The maximum is 8192 bytes in UTF-8.');
    END IF;
    BEGIN
        IF json_typeof(web_push::json) = 'object' THEN
            names := ARRAY(SELECT key FROM json_each_text(web_push::json));
        END IF;
    EXCEPTION WHEN data_exception OR statement_too_complex THEN
        NULL;
    END;
    IF names IS NULL THEN
        PERFORM clairon_internal.reject_web_push('not a JSON object', 'An example is {"title": "=New grade"}.');
    END IF;
    FOREACH given IN ARRAY names LOOP
        IF given <> ALL (valid) THEN
            PERFORM clairon_internal.reject_web_push(format('unknown member "%s"', clairon_internal.shorten(given)),
                                                     format('Valid members are %s.', array_to_string(valid, ', ')));
        END IF;
        IF cardinality(array_positions(names, given)) > 1 THEN
            PERFORM clairon_internal.reject_web_push(format('member "%s" occurs twice', given), 'Remove one.');
        END IF;
    END LOOP;
    RETURN QUERY SELECT array_position(valid, key), key, json_each.value #>> '{}', json_typeof(json_each.value)
                 FROM json_each(web_push::json) WHERE json_typeof(json_each.value) <> 'null';
END $$;

-- Members of a rule are =literal or :column.
CREATE FUNCTION clairon_internal.web_push_template(relation regclass, web_push text, audience text, type text,
    OUT literals text[], OUT columns int2[])
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    field record;
BEGIN
    literals := array_fill(''::text, ARRAY[9]);
    columns := array_fill(0::int2, ARRAY[9]);
    FOR field IN SELECT * FROM clairon_internal.parse_web_push(web_push, audience, type) LOOP
        IF field.kind <> 'string' OR field.value !~ '^[=:]' THEN
            PERFORM clairon_internal.reject_web_push(
                format('%s is neither a literal nor a column', field.member),
                format('Use "%s": "=literal" or "%s": ":column".', field.member, field.member));
        ELSIF field.value LIKE '=%' THEN
            PERFORM clairon_internal.check_web_push_literal(field.member, substr(field.value, 2));
            literals[field.place] := substr(field.value, 2);
        ELSE
            columns[field.place] := clairon_internal.column_number('web_push', relation, substr(field.value, 2));
            IF field.member = 'app_badge' AND NOT EXISTS (
                SELECT FROM pg_attribute WHERE attrelid = relation AND attnum = columns[field.place]
                  AND atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)) THEN
                PERFORM clairon_internal.reject_web_push(
                    format('app_badge is column "%s"', substr(field.value, 2)),
                    'The column must be of type smallint, integer or bigint.');
            END IF;
        END IF;
    END LOOP;
    IF literals[1] = '' AND columns[1] = 0 THEN
        PERFORM clairon_internal.reject_web_push('title is missing', 'An example is {"title": "=New grade"}.');
    END IF;
    -- A rule must fit into a page.
    IF (SELECT sum(clairon_internal.utf8_length(literal)) FROM unnest(literals) AS t (literal)) > 2000 THEN
        PERFORM clairon_internal.reject_web_push('the literals are too long',
                                                 'The maximum of all literals is 2000 bytes in UTF-8.');
    END IF;
END $$;

-- The text of a notification's Web Push, without nulls; NULL: none.
CREATE FUNCTION clairon_internal.web_push_text(web_push text, audience text, type text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    field record;
    members text[] := '{}';
    has_title boolean := false;
BEGIN
    IF web_push IS NULL THEN
        RETURN NULL;
    END IF;
    FOR field IN SELECT * FROM clairon_internal.parse_web_push(web_push, audience, type) LOOP
        IF field.kind <> (CASE field.member WHEN 'app_badge' THEN 'number' ELSE 'string' END) THEN
            PERFORM clairon_internal.reject_web_push(
                format('%s is a JSON %s', field.member, field.kind),
                CASE field.member WHEN 'app_badge' THEN 'The value must be an integer.'
                                  ELSE 'The value must be a string.' END);
        END IF;
        PERFORM clairon_internal.check_web_push_literal(field.member, field.value);
        has_title := has_title OR field.member = 'title';
        members := members || format('"%s":%s', field.member, CASE field.member WHEN 'app_badge' THEN field.value
                                                              ELSE to_json(field.value)::text END);
    END LOOP;
    IF NOT has_title THEN
        PERFORM clairon_internal.reject_web_push('title is missing', 'An example is {"title": "New grade"}.');
    END IF;
    RETURN '{' || array_to_string(members, ',') || '}';
END $$;

-- The parameter web_push of a rule.
CREATE FUNCTION clairon_internal.show_web_push(relation regclass, literals text[], columns int2[]) RETURNS text
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT '{' || string_agg(format('"%s": %s', member, to_json(
                      CASE WHEN number = 0 THEN '=' || literal
                           ELSE coalesce(':' || attname, '(dropped column)') END)), ', ' ORDER BY place) || '}'
    FROM ROWS FROM (unnest(clairon_internal.web_push_members()), unnest(literals), unnest(columns))
         WITH ORDINALITY AS t (member, literal, number, place)
    LEFT JOIN pg_attribute ON attrelid = relation AND attnum = number AND NOT attisdropped
    WHERE literal <> '' OR number <> 0
$$;
