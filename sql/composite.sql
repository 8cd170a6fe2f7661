/* composite: audiences of several parts, STRUCTURE+ROLE, and their targets, s1+admin. */

-- The parts of a composite target: split at each + except \+; \\ is a backslash.
CREATE FUNCTION clairon_internal.split_parts(target text) RETURNS text[]
    LANGUAGE c IMMUTABLE STRICT AS 'MODULE_PATHNAME', 'clairon_split_parts';
CREATE FUNCTION clairon_internal.join_parts(parts text[]) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(replace(replace(part, E'\\', E'\\\\'), '+', E'\\+'), '+' ORDER BY place)
    FROM unnest(parts) WITH ORDINALITY AS t (part, place)
$$;

-- Converts targets to their form in the WAL and in notifications. Trims `blanks`.
CREATE FUNCTION clairon_internal.composite_targets(audience text, targets text[], blanks text)
    RETURNS text[] LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted constant int := cardinality(string_to_array(audience, '+'));
    wrong text;
BEGIN
    SELECT target INTO wrong
    FROM unnest(targets) AS t (target)
    CROSS JOIN LATERAL clairon_internal.split_parts(target) AS s (parts)
    WHERE cardinality(parts) <> wanted
       OR EXISTS (SELECT FROM unnest(parts) AS p (part)
                  WHERE btrim(part, blanks) = '' OR clairon_internal.utf8_length(btrim(part, blanks)) > 255)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'invalid value for parameter "targets": "%" for audience %', wrong, audience
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = format('The value must have %s parts of 1 to 255 bytes, joined by +. Use \+ for '
                                'a plus sign in a part.', wanted);
    END IF;
    RETURN clairon_internal.distinct_targets(ARRAY(
        SELECT clairon_internal.join_parts(ARRAY(SELECT btrim(part, blanks)
                                        FROM unnest(clairon_internal.split_parts(target))
                                             WITH ORDINALITY AS p (part, nth) ORDER BY nth))
        FROM unnest(targets) WITH ORDINALITY AS t (target, place) ORDER BY place));
END $$;

-- Parses 'structure_id+=admin': returns a column for each part of the audience, or 0 and a
-- constant.
CREATE FUNCTION clairon_internal.composite_columns(relation regclass, audience text, expression text,
                                          OUT columns int2[], OUT constants text[])
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    piece text;
BEGIN
    IF cardinality(clairon_internal.split_parts(expression)) <> cardinality(string_to_array(audience, '+')) THEN
        RAISE EXCEPTION 'invalid value for parameter "targets": "%" for audience %', expression, audience
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = format('The value must be %s columns joined by +, or a literal such as '
                                '''=s1+admin,s2+admin''. After the first +, =word is a constant.',
                                cardinality(string_to_array(audience, '+')));
    END IF;
    columns := '{}';
    FOREACH piece IN ARRAY clairon_internal.split_parts(expression) LOOP
        piece := btrim(piece, E' \t\n\r');
        IF piece LIKE '=%' THEN
            PERFORM clairon_internal.check_text('targets', btrim(substr(piece, 2), E' \t\n\r'), 255);
            columns := columns || 0::int2;
            constants := constants || btrim(substr(piece, 2), E' \t\n\r');
        ELSE
            columns := columns || clairon_internal.target_column(relation, piece);
        END IF;
    END LOOP;
END $$;

-- The parameter targets of a composite rule; NULL for other rules.
CREATE FUNCTION clairon_internal.show_columns(relation regclass, columns int2[], constants text[])
    RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(CASE WHEN number = 0 THEN '=' || clairon_internal.join_parts(ARRAY[constants[nth_constant]])
                           WHEN attname IS NULL THEN '(dropped column)'
                           ELSE clairon_internal.join_parts(ARRAY[attname::text]) END, '+' ORDER BY place)
    FROM (SELECT number, place, count(*) FILTER (WHERE number = 0) OVER (ORDER BY place) AS nth_constant
          FROM unnest(columns) WITH ORDINALITY AS t (number, place)) AS part
    LEFT JOIN pg_attribute ON attrelid = relation AND attnum = number AND number > 0
        AND NOT attisdropped
$$;
