/* watch and unwatch: which changes become notifications. */

CREATE FUNCTION clairon_internal.reject_null(parameter text, hint text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'parameter "%" must not be null', parameter
        USING ERRCODE = 'null_value_not_allowed', HINT = hint;
END $$;

-- The index of a word in the list of valid words, from 0. Raises an error that names the parameter
-- and the list.
CREATE FUNCTION clairon_internal.choice(parameter text, given text, valid text[]) RETURNS int2
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF given IS NULL THEN
        PERFORM clairon_internal.reject_null(
            parameter, format('Valid values are %s.', array_to_string(valid, ', ')));
    END IF;
    IF array_position(valid, given) IS NULL THEN
        RAISE EXCEPTION 'invalid value for parameter "%": "%"', parameter, given
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = format('Valid values are %s.', array_to_string(valid, ', '));
    END IF;
    RETURN array_position(valid, given) - 1;
END $$;

-- Limits count bytes of UTF-8, the encoding of the relay and its clients.
CREATE FUNCTION clairon_internal.utf8_length(given text) RETURNS int
    LANGUAGE c IMMUTABLE STRICT AS 'MODULE_PATHNAME', 'clairon_utf8_length';

-- The string in UTF-8. Unconvertible characters are replaced as in the decoder's output.
CREATE FUNCTION clairon.utf8(given text) RETURNS bytea
    LANGUAGE c IMMUTABLE STRICT AS 'MODULE_PATHNAME', 'clairon_utf8';

CREATE FUNCTION clairon_internal.check_text(parameter text, given text, max_bytes int) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF given = '' OR clairon_internal.utf8_length(given) > max_bytes THEN
        RAISE EXCEPTION 'invalid length of parameter "%": % bytes', parameter, clairon_internal.utf8_length(given)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = format('The value must have 1 to %s bytes in UTF-8.', max_bytes);
    END IF;
END $$;

CREATE FUNCTION clairon_internal.check_delivery(audience text, ttl interval, ack_required boolean,
                                       retry_limit int) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF audience IS NULL THEN
        PERFORM clairon_internal.reject_null('audience', 'Valid values are USER, ALL or the name of a group.');
    END IF;
    IF audience !~ '^[A-Za-z_][A-Za-z0-9_]{0,62}([+][A-Za-z_][A-Za-z0-9_]{0,62}){0,3}$'
       OR (upper(audience) IN ('USER', 'ALL') AND audience <> upper(audience))
       OR (audience LIKE '%+%' AND string_to_array(upper(audience), '+') && '{USER,ALL}') THEN
        RAISE EXCEPTION 'invalid value for parameter "audience": "%"', audience
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = CASE
                      WHEN upper(audience) IN ('USER', 'ALL') THEN format('Use %s.', upper(audience))
                      ELSE 'Valid values are USER, ALL, a word of up to 63 ASCII letters, digits and '
                           'underscores that does not start with a digit, or up to 4 such words '
                           'joined by +, except USER and ALL.' END;
    END IF;
    -- The fields are checked separately, since large values may cancel each other out. Comparing
    -- intervals assumes months of 30 days, but some are shorter.
    IF ttl <= interval '0' OR ttl > interval '100 years'
       OR abs(extract(year FROM ttl)) >= 1000 OR abs(extract(day FROM ttl)) > 366000
       OR abs(extract(hour FROM ttl)) > 8784000
       OR timestamp '2001-02-01' + ttl <= timestamp '2001-02-01' THEN
        RAISE EXCEPTION 'invalid value for parameter "ttl": %', ttl
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'The value must be NULL, or above 0 and at most 100 years.';
    END IF;
    IF ack_required IS NULL THEN
        PERFORM clairon_internal.reject_null('ack_required', 'Valid values are true and false.');
    END IF;
    IF retry_limit IS NULL THEN
        PERFORM clairon_internal.reject_null('retry_limit', 'Valid values are 0 to 32767.');
    END IF;
    IF retry_limit NOT BETWEEN 0 AND 32767 THEN
        RAISE EXCEPTION 'invalid value for parameter "retry_limit": %', retry_limit
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Valid values are 0 to 32767.';
    END IF;
END $$;

-- The timeout in milliseconds; NULL for the relay's setting.
CREATE FUNCTION clairon_internal.ack_timeout_ms(ack_timeout interval) RETURNS int8
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF extract(epoch FROM ack_timeout) NOT BETWEEN 0.001 AND 2592000 THEN
        RAISE EXCEPTION 'invalid value for parameter "ack_timeout": %', ack_timeout
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Valid values are NULL, or 1 millisecond to 30 days.';
    END IF;
    RETURN floor(extract(epoch FROM ack_timeout) * 1000);
END $$;

-- The times of escalations in milliseconds: 'escalate_after' is an interval, or an array of two.
CREATE FUNCTION clairon_internal.escalations_ms(escalate_after text) RETURNS int8[]
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    times interval[];
    is_valid boolean;
BEGIN
    IF escalate_after IS NULL THEN
        RETURN NULL;
    END IF;
    BEGIN
        times := CASE WHEN escalate_after LIKE '{%' THEN escalate_after::interval[]
                      ELSE ARRAY[escalate_after::interval] END;
        is_valid := array_ndims(times) = 1 AND cardinality(times) BETWEEN 1 AND 2
                    AND (SELECT bool_and(coalesce(extract(epoch FROM t) BETWEEN 0.001 AND 2592000, false))
                         FROM unnest(times) AS u (t))
                    AND (cardinality(times) = 1
                         OR floor(extract(epoch FROM times[1]) * 1000) < floor(extract(epoch FROM times[2]) * 1000));
    EXCEPTION WHEN data_exception THEN
        is_valid := false;
    END;
    IF is_valid IS NOT TRUE THEN
        RAISE EXCEPTION 'invalid value for parameter "escalate_after": "%"', escalate_after
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Valid values are NULL, an interval of 1 millisecond to 30 days, or an array of two, '
                         'the shorter one first, such as ''{10 min,1 h}''.';
    END IF;
    RETURN ARRAY(SELECT floor(extract(epoch FROM t) * 1000)::int8 FROM unnest(times) WITH ORDINALITY AS u (t, place)
                 ORDER BY place);
END $$;

-- Receipts and escalations are about acknowledgements.
CREATE FUNCTION clairon_internal.check_receipts(receipts text, escalate_after text, ack_required boolean) RETURNS int2
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number constant int2 := clairon_internal.choice('receipts', receipts, '{none,notification,user}');
BEGIN
    IF NOT ack_required AND (number > 0 OR escalate_after IS NOT NULL) THEN
        RAISE EXCEPTION 'parameter "%" requires acknowledgements',
                CASE WHEN number > 0 THEN 'receipts' ELSE 'escalate_after' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Set ack_required => true.';
    END IF;
    RETURN number;
END $$;

-- What a table's owner without clairon_app may not multiply without limit: short lives and many
-- retries cost the store more than the notifications.
CREATE FUNCTION clairon_internal.check_owner_delivery(ttl interval, retry_limit int, ack_timeout interval)
    RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF timestamp '2001-02-01' + ttl < timestamp '2001-02-01 00:00:01' THEN
        RAISE EXCEPTION 'invalid value for parameter "ttl": %', ttl
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Without membership in clairon_app, valid values are NULL, or 1 second to 100 years.';
    END IF;
    IF retry_limit > 100 THEN
        RAISE EXCEPTION 'invalid value for parameter "retry_limit": %', retry_limit
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Without membership in clairon_app, valid values are 0 to 100.';
    END IF;
    IF extract(epoch FROM ack_timeout) < 1 THEN
        RAISE EXCEPTION 'invalid value for parameter "ack_timeout": %', ack_timeout
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Without membership in clairon_app, valid values are NULL, or 1 second to 30 days.';
    END IF;
END $$;

-- The non-empty strings without duplicates, in the given order.
CREATE FUNCTION clairon_internal.distinct_targets(targets text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(target ORDER BY place), '{}')
    FROM (SELECT target, min(place) AS place
          FROM unnest(targets) WITH ORDINALITY AS given (target, place)
          WHERE target <> '' GROUP BY target) AS distinct_target
$$;

-- The bounds of decoder/protocol/limits.h, for targets without duplicates.
CREATE FUNCTION clairon_internal.check_targets(targets text[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bytes bigint;
BEGIN
    IF cardinality(targets) > 10000 THEN
        RAISE EXCEPTION 'parameter "targets" has too many values'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('There are %s different values; the maximum is 10000.',
                                  cardinality(targets)),
                  HINT = 'Use a group of clairon.member, or several notifications.';
    END IF;
    bytes := (SELECT sum(clairon_internal.utf8_length(target)) FROM unnest(targets) AS t (target));
    IF bytes > 262144 THEN
        RAISE EXCEPTION 'parameter "targets" is too long'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The values have %s bytes in UTF-8; the maximum is 262144 (256 kB).', bytes),
                  HINT = 'Use a group of clairon.member, or several notifications.';
    END IF;
END $$;

-- 'a, b\,c' is {a,"b,c"}.
CREATE FUNCTION clairon_internal.parse_targets(literal text) RETURNS text[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT clairon_internal.distinct_targets(array_agg(replace(btrim(piece, E' \t\n\r'), E'\\,', ',')
                                              ORDER BY place))
    FROM regexp_split_to_table(literal, E'(?<!\\\\),') WITH ORDINALITY AS split (piece, place)
$$;

CREATE FUNCTION clairon_internal.check_relation(relation regclass) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    class pg_class;
    fault text;
BEGIN
    IF relation IS NULL THEN
        PERFORM clairon_internal.reject_null('relation', 'The relation must be a table.');
    END IF;
    SELECT * INTO class FROM pg_class WHERE oid = relation;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'relation % does not exist', relation
            USING ERRCODE = 'undefined_table',
                  HINT = 'The relation must be an ordinary or partitioned table.';
    END IF;
    fault := CASE
        WHEN class.relnamespace IN ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace,
                                    'information_schema'::regnamespace) THEN 'a catalog'
        WHEN class.relnamespace = 'clairon'::regnamespace AND class.relname <> 'receipt' THEN 'a table of clairon itself'
        WHEN class.relkind = 'v' THEN 'a view'
        WHEN class.relkind = 'm' THEN 'a materialized view'
        WHEN class.relkind = 'f' THEN 'a foreign table'
        WHEN class.relkind NOT IN ('r', 'p') THEN 'not a table'
        WHEN class.relpersistence = 't' THEN 'a temporary table'
        WHEN class.relpersistence = 'u' THEN 'an unlogged table'
    END;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'relation % is %', relation, fault
            USING ERRCODE = 'wrong_object_type',
                  HINT = 'The relation must be a permanent, logged, ordinary or partitioned table.';
    END IF;
END $$;

CREATE FUNCTION clairon_internal.column_number(parameter text, relation regclass, wanted text) RETURNS int2
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number int2;
BEGIN
    IF wanted IS NULL THEN
        RAISE EXCEPTION 'parameter "%" must not contain nulls', parameter
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    SELECT attnum INTO number FROM pg_attribute
    WHERE attrelid = relation AND attname = wanted AND attnum > 0 AND NOT attisdropped
      AND attgenerated <> 'v';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'invalid value for parameter "%": column "%" of relation % does not exist',
                parameter, wanted, relation
            USING ERRCODE = 'undefined_column',
                  HINT = format('Valid values are %s%s.',
                                (SELECT string_agg(attname, ', ' ORDER BY attnum)
                                 FROM pg_attribute WHERE attrelid = relation AND attnum > 0
                                   AND NOT attisdropped AND attgenerated <> 'v'),
                                CASE WHEN parameter = 'targets' AND wanted <> ''
                                     THEN format('; for a literal, use %L', '=' || wanted) END);
    END IF;
    RETURN number;
END $$;

-- json or jsonb if the type is one of them, or a domain or an array of them; otherwise NULL.
CREATE FUNCTION clairon_internal.json_within(given oid) RETURNS regtype
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    type oid;
    base oid := given;
BEGIN
    WHILE base <> 0 LOOP
        type := base;
        SELECT CASE typtype WHEN 'd' THEN typbasetype ELSE typelem END INTO base
        FROM pg_type
        WHERE oid = type AND (typtype = 'd'
                              OR typsubscript = 'array_subscript_handler'::regproc);
        base := coalesce(base, 0);
    END LOOP;
    RETURN CASE WHEN type IN ('json'::regtype, 'jsonb'::regtype) THEN type END;
END $$;

-- JSON is rejected: the target would be the whole document, with quotes and brackets.
CREATE FUNCTION clairon_internal.target_column(relation regclass, wanted text) RETURNS int2
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number int2 := clairon_internal.column_number('targets', relation, wanted);
    json regtype := clairon_internal.json_within((SELECT atttypid FROM pg_attribute
                                         WHERE attrelid = relation AND attnum = number));
BEGIN
    IF json IS NOT NULL THEN
        RAISE EXCEPTION 'invalid value for parameter "targets": column "%" has type %', wanted, json
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'The column must contain one id, or an array of ids as text[]. To convert the '
                         'value, use a generated column.';
    END IF;
    RETURN number;
END $$;

CREATE FUNCTION clairon_internal.operation_bits(operations text[]) RETURNS int2
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    valid constant text[] := '{create,update,delete,truncate}';
    operation text;
    bits int := 0;
BEGIN
    IF operations IS NULL THEN
        PERFORM clairon_internal.reject_null(
            'operations', format('Valid values are %s.', array_to_string(valid, ', ')));
    END IF;
    FOREACH operation IN ARRAY operations LOOP
        IF operation IS NULL THEN
            RAISE EXCEPTION 'parameter "operations" must not contain nulls'
                USING ERRCODE = 'null_value_not_allowed';
        END IF;
        bits := bits | (1 << clairon_internal.choice('operations', operation, valid));
    END LOOP;
    IF bits = 0 THEN
        RAISE EXCEPTION 'parameter "operations" must not be empty'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = format('Valid values are %s.', array_to_string(valid, ', '));
    END IF;
    RETURN bits;
END $$;

-- Whether the type has a default btree operator class, as have the types within it.
CREATE FUNCTION clairon_internal.has_order(type oid) RETURNS boolean
    LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'clairon_has_order';

-- Blocks DROP TABLE and concurrent changes of the table's rules until the transaction ends.
CREATE FUNCTION clairon_internal.lock_rules(relation oid) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_lock_rules';

-- The stored form of only_when: with column numbers and evaluated constants.
CREATE FUNCTION clairon_internal.condition_store(relation oid, expression text, path text) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_condition_store';
CREATE FUNCTION clairon_internal.condition_show(relation oid, stored text, origins int2[],
                                       numbers int2[]) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_condition_show';

-- Parsed with the decoder's settings, except for the caller's search_path.
CREATE FUNCTION clairon_internal.check_condition(relation regclass, expression text, path text)
    RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET timezone = 'UTC' SET datestyle = 'ISO, MDY'
    SET intervalstyle = 'iso_8601' SET lc_monetary = 'C' SET extra_float_digits = 1
    SET standard_conforming_strings = on SET transform_null_equals = off
    SET quote_all_identifiers = off SET xmloption = content SET bytea_output = 'hex' AS $$
DECLARE
    valid constant text :=
        'The value must be a boolean expression on the columns of the table. Its functions '
        'must be immutable, and written in C or in SQL that can be inlined.';
    detail text;
BEGIN
    RETURN clairon_internal.condition_store(relation, expression, path);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    IF detail = '' THEN
        RAISE EXCEPTION 'invalid value for parameter "only_when": %', SQLERRM
            USING ERRCODE = SQLSTATE, HINT = valid;
    END IF;
    RAISE EXCEPTION 'invalid value for parameter "only_when": %', SQLERRM
        USING ERRCODE = SQLSTATE, DETAIL = detail, HINT = valid;
END $$;

-- A rule's only_when with the current column names, or its stored form with the error message.
CREATE FUNCTION clairon_internal.condition_text(relation regclass, name text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
    SET standard_conforming_strings = on AS $$
DECLARE
    stored text := (SELECT string_agg(rule.only_when, '' ORDER BY part) FROM clairon.rule
                    WHERE rule.relation = condition_text.relation
                      AND rule.name = condition_text.name);
    first clairon.rule;
BEGIN
    SELECT * INTO first FROM clairon.rule
    WHERE rule.relation = condition_text.relation AND rule.name = condition_text.name AND part = 0;
    RETURN clairon_internal.condition_show(relation, stored, first.column_origins, first.column_numbers);
EXCEPTION WHEN OTHERS THEN
    RETURN format('%s (denies: %s)', stored, SQLERRM);
END $$;
-- Only the table's owner and roles with SELECT on clairon.rule may call it: see decoder/sql/functions.c.
CREATE FUNCTION clairon_internal.show_condition(relation regclass, name text) RETURNS text
    LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'clairon_show_condition';

-- A row without TOAST must fit into a page: long conditions and target lists continue in additional
-- rows.
CREATE FUNCTION clairon_internal.insert_rule(rule clairon.rule) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stored constant text := rule.only_when;
    targets constant text[] := rule.target_list;
    names constant text[] := CASE WHEN stored IS NOT NULL THEN ARRAY(
        SELECT DISTINCT given FROM unnest(clairon_internal.condition_names(stored)) AS t (given) ORDER BY 1) END;
BEGIN
    IF octet_length(stored) > 100000 THEN
        RAISE EXCEPTION 'parameter "only_when" is too long'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The stored condition has %s bytes; the maximum is 100000.',
                                  octet_length(stored));
    END IF;
    rule.part := 0;
    IF coalesce(octet_length(stored), 0) + coalesce(pg_column_size(targets), 0)
       + coalesce(pg_column_size(names), 0) + coalesce(pg_column_size(rule.web_push), 0) < 3000 THEN
        rule.used_names := names;
        INSERT INTO clairon.rule VALUES (rule.*);
        RETURN;
    END IF;
    rule.only_when := left(stored, 0);
    rule.target_list := targets[1:0];
    rule.used_names := names[1:0];
    INSERT INTO clairon.rule VALUES (rule.*);
    rule.columns := NULL;
    rule.topic := NULL;
    rule.emitter_column := NULL;
    rule.web_push := NULL;
    rule.web_push_columns := NULL;
    rule.filter_columns := NULL;
    rule.column_origins := NULL;
    FOR rule.part, rule.only_when, rule.target_list IN
        SELECT place, CASE WHEN stored IS NOT NULL THEN coalesce(piece, '') END,
               CASE WHEN targets IS NOT NULL THEN coalesce(list, '{}') END
        FROM (SELECT place, substr(stored, (place - 1) * 1000 + 1, 1000) AS piece
              FROM generate_series(1, (length(stored) + 999) / 1000) AS place) AS pieces
        FULL JOIN (SELECT place, array_agg(target ORDER BY given) AS list
                   FROM (SELECT target, given, 1 + (sum(octet_length(target) + 8)
                                                    OVER (ORDER BY given)) / 3000 AS place
                         FROM unnest(targets) WITH ORDINALITY AS t (target, given)) AS placed
                   GROUP BY place) AS lists USING (place)
        ORDER BY place
    LOOP
        INSERT INTO clairon.rule VALUES (rule.*);
    END LOOP;
    rule.only_when := NULL;
    rule.target_list := targets[1:0];
    FOR rule.part, rule.used_names IN
        SELECT 30000 + (place - 1) / 40, array_agg(given ORDER BY place)
        FROM unnest(names) WITH ORDINALITY AS t (given, place) GROUP BY 1 ORDER BY 1
    LOOP
        INSERT INTO clairon.rule VALUES (rule.*);
    END LOOP;
END $$;

-- Each decoding session keeps all rules in memory, twice while it rereads them.
CREATE FUNCTION clairon_internal.limit_conditions(relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner constant oid := (SELECT relowner FROM pg_class WHERE oid = relation);
    bytes bigint := (SELECT sum(octet_length(rule.only_when)) FROM clairon.rule
                     WHERE rule.relation = limit_conditions.relation);
BEGIN
    IF bytes > 1000000 THEN
        RAISE EXCEPTION 'parameter "only_when" is too long for the rules on %', relation
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = format('The conditions of the rules have %s bytes; the maximum is 1000000.',
                                  bytes);
    END IF;
    -- The query reads the rules of all tables, so it is skipped for short conditions.
    IF bytes > 10000 THEN
        bytes := (SELECT sum(octet_length(rule.only_when))
                  FROM clairon.rule JOIN pg_class ON pg_class.oid = rule.relation
                  WHERE relowner = owner);
        IF bytes > 8000000 THEN
            RAISE EXCEPTION 'parameter "only_when" is too long for the rules on tables of %',
                    owner::regrole
                USING ERRCODE = 'program_limit_exceeded',
                      DETAIL = format('The conditions of the rules have %s bytes; the maximum is 8000000.',
                                      bytes);
        END IF;
    END IF;
END $$;

-- The rules that a table's owner without clairon_app may have. Each decoding session reads and keeps
-- all of them, and clairon.doctor() checks them. Reads only the owner's objects and their rules, so
-- the rules of others do not slow down watch.
CREATE FUNCTION clairon_internal.limit_rules(relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    owner constant oid := (SELECT relowner FROM pg_class WHERE oid = relation);
    rules bigint := (SELECT count(*) FROM clairon.rule
                     WHERE rule.relation = limit_rules.relation AND part = 0);
    bytes bigint;
BEGIN
    IF rules > 100 THEN
        RAISE EXCEPTION 'relation % has too many rules', relation
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = 'Without membership in clairon_app, the maximum is 100 rules for a table.',
                  HINT = format('Remove rules with clairon.unwatch(), or run GRANT clairon_app TO %s.',
                                owner::regrole);
    END IF;
    SELECT count(*) FILTER (WHERE rule.part = 0), sum(pg_column_size(rule)) INTO rules, bytes
    FROM pg_shdepend JOIN clairon.rule ON rule.relation = objid
    WHERE refclassid = 'pg_authid'::regclass AND refobjid = owner AND deptype = 'o'
      AND classid = 'pg_class'::regclass
      AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database());
    IF rules > 10000 OR bytes > 16777216 THEN
        RAISE EXCEPTION 'the tables of % have too many rules', owner::regrole
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = format('The tables have %s rules with %s bytes. Without membership in clairon_app, '
                                  'the maximum is 10000 rules for all tables of an owner, and 16777216 '
                                  'bytes of columns, conditions and names in them.', rules, bytes),
                  HINT = format('Remove rules with clairon.unwatch(), or run GRANT clairon_app TO %s.',
                                owner::regrole);
    END IF;
END $$;

-- All rows of a rule; NULL if the rule does not exist.
CREATE FUNCTION clairon_internal.rule_rows(relation regclass, name text) RETURNS clairon.rule[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(rule ORDER BY part) FROM clairon.rule
    WHERE rule.relation = rule_rows.relation AND rule.name = rule_rows.name
$$;

-- The schema in which another table, existing or not, would have the same metadata.source, or NULL.
-- A source is the table, or schema.table outside of public, so public."app.t" has the source of
-- app.t.
CREATE FUNCTION clairon_internal.source_conflict(relation regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(other.nspname::text)
    FROM pg_class JOIN pg_namespace AS space ON space.oid = relnamespace
    CROSS JOIN LATERAL (SELECT CASE nspname WHEN 'public' THEN relname::text
                               ELSE nspname || '.' || relname END) AS t (source)
    JOIN pg_namespace AS other ON other.oid <> space.oid AND other.nspname <> 'public'
         AND starts_with(source, other.nspname || '.')
         AND length(source) > length(other.nspname) + 1
    WHERE pg_class.oid = relation AND strpos(space.nspname || relname, '.') > 0
$$;

-- Rejects a table whose source is ambiguous: clients could not distinguish its notifications from
-- the notifications of the other table.
CREATE FUNCTION clairon_internal.check_source(relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    conflict text := clairon_internal.source_conflict(relation);
BEGIN
    IF conflict IS NOT NULL THEN
        RAISE EXCEPTION 'relation % cannot have rules: its name contains a dot', relation
            USING ERRCODE = 'invalid_name',
                  DETAIL = format('A table in schema %I can have the same metadata.source.', conflict),
                  HINT = 'Remove existing rules with clairon.unwatch(), then rename the table or its schema.';
    END IF;
    -- public."app.t" may have rules since before the schema app existed.
    SELECT other.oid::regclass::text INTO conflict
    FROM pg_class JOIN pg_namespace AS space ON space.oid = relnamespace AND nspname <> 'public'
    JOIN pg_class AS other ON other.relname = concat(nspname, '.', pg_class.relname)
         AND other.relnamespace = to_regnamespace('public')
    WHERE pg_class.oid = check_source.relation
      AND EXISTS (SELECT FROM clairon.rule WHERE rule.relation = other.oid);
    IF conflict IS NOT NULL THEN
        RAISE EXCEPTION 'relation % cannot have rules: its metadata.source is that of %', relation, conflict
            USING ERRCODE = 'invalid_name',
                  HINT = 'Remove the rules of the other table with clairon.unwatch(), then rename that table.';
    END IF;
END $$;

-- The rule as in the view clairon.rules; NULL if it does not exist.
CREATE FUNCTION clairon_internal.rule_fields(relation regclass, name text) RETURNS json
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_json(rule) FROM clairon.rules AS rule
    WHERE rule.relation = rule_fields.relation AND rule.name = rule_fields.name
$$;

-- A field in the form of a parameter of watch, such as {create,delete}.
CREATE FUNCTION clairon_internal.show_field(given json) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE json_typeof(given) WHEN 'array' THEN translate(given::text, '[]"', '{}') ELSE given #>> '{}' END
$$;

CREATE FUNCTION clairon_internal.shorten(given text) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN length(given) > 200 THEN left(given, 200) || '..' ELSE given END
$$;

-- The fields that differ between two rules: 'live: true -> false'; for a new rule, those that differ from
-- the defaults of watch.
CREATE FUNCTION clairon_internal.changed_fields(before json, after json) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(CASE WHEN before IS NULL THEN format('%s: %s', key, clairon_internal.shorten(new))
                           ELSE format('%s: %s -> %s', key, coalesce(clairon_internal.shorten(old), 'NULL'),
                                       coalesce(clairon_internal.shorten(new), 'NULL')) END, ', ' ORDER BY place)
    FROM json_each(after) WITH ORDINALITY AS field (key, value, place)
    CROSS JOIN LATERAL clairon_internal.show_field(value) AS new
    CROSS JOIN LATERAL clairon_internal.show_field(coalesce(before, json_build_object(
        'type', 'REALTIME', 'priority', 'NORMAL', 'operations', '{create,update,delete}'::text[],
        'emitter', 'clairon', 'ack_required', false, 'retry_limit', 5, 'backoff', 'EXPONENTIAL',
        'live', false, 'receipts', 'none')) -> key) AS old
    WHERE key NOT IN ('relation', 'name') AND new IS DISTINCT FROM old
$$;

-- The numbers of filter_columns, in the given order. `columns` are the rule's.
CREATE FUNCTION clairon_internal.filter_numbers(relation regclass, wanted text[], columns int2[], live boolean)
    RETURNS int2[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    numbers int2[];
    fault record;
BEGIN
    IF wanted IS NULL THEN
        RETURN NULL;
    END IF;
    IF NOT live THEN
        RAISE EXCEPTION 'parameter "filter_columns" requires a live rule'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Set live => true.';
    END IF;
    numbers := (SELECT array_agg(number ORDER BY place)
                FROM (SELECT clairon_internal.column_number('filter_columns', relation, name) AS number, min(place) AS place
                      FROM unnest(wanted) WITH ORDINALITY AS given (name, place) GROUP BY 1) AS found);
    IF numbers IS NULL OR cardinality(numbers) > 32 THEN
        RAISE EXCEPTION 'parameter "filter_columns" has % columns', coalesce(cardinality(numbers), 0)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'The value must be NULL, or have 1 to 32 columns.';
    END IF;
    SELECT attname, format_type(atttypid, NULL) AS type, attnum <> ALL (columns) AS is_hidden INTO fault
    FROM unnest(numbers) WITH ORDINALITY AS given (number, place)
    JOIN pg_attribute ON attrelid = relation AND attnum = number
    WHERE attnum <> ALL (columns) OR NOT clairon_internal.has_order(atttypid)
    ORDER BY place LIMIT 1;
    IF fault.is_hidden THEN
        RAISE EXCEPTION 'invalid value for parameter "filter_columns": "%" is not in "columns"', fault.attname
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Add it to columns, or use NULL for all columns.';
    ELSIF fault.attname IS NOT NULL THEN
        RAISE EXCEPTION 'invalid value for parameter "filter_columns": column "%" has type %', fault.attname, fault.type
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'The type has no default order (btree operator class).',
                  HINT = 'To convert the value, use a generated column.';
    END IF;
    RETURN numbers;
END $$;

-- A receipt of a receipt would be sent for ever.
CREATE FUNCTION clairon_internal.check_receipt_rule(relation regclass, ack_required boolean) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF ack_required AND EXISTS (SELECT FROM pg_class WHERE oid = relation AND relname = 'receipt'
                                  AND relnamespace = 'clairon'::regnamespace) THEN
        RAISE EXCEPTION 'parameter "ack_required" must be false for relation %', relation
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'Acknowledgements and receipts of a receipt could cause further receipts.';
    END IF;
END $$;

-- The internal function of watch. `path` is the caller's search_path; `is_limited` is true if the
-- caller is not a member of clairon_app.
CREATE FUNCTION clairon_internal.set_rule(path text, is_limited boolean, relation regclass, audience text, targets text,
    name text, type text, priority text, operations text[], columns text[], only_when text,
    emitter text, topic text, ttl interval, ack_required boolean, retry_limit int, backoff text,
    ack_timeout interval, live boolean, receipts text, escalate_after text, web_push text, filter_columns text[])
    RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rule clairon.rule;
    before clairon.rule[];
    after clairon.rule[];
    fields json;
BEGIN
    PERFORM clairon_internal.check_relation(relation);
    -- The table may have been dropped during the wait for the lock.
    PERFORM clairon_internal.lock_rules(relation);
    PERFORM clairon_internal.check_relation(relation);
    PERFORM clairon_internal.check_source(relation);
    PERFORM clairon_internal.check_delivery(audience, ttl, ack_required, retry_limit);
    PERFORM clairon_internal.check_receipt_rule(relation, ack_required);
    IF is_limited THEN
        PERFORM clairon_internal.check_owner_delivery(ttl, retry_limit, ack_timeout);
    END IF;
    IF name IS NULL THEN
        PERFORM clairon_internal.reject_null('name', 'Leave it out for the name ''default''.');
    END IF;
    PERFORM clairon_internal.check_text('name', name, 255);
    PERFORM clairon_internal.check_text('emitter', emitter, 255);
    PERFORM clairon_internal.check_text('topic', topic, 1024);
    IF (audience = 'ALL') <> (targets IS NULL) THEN
        RAISE EXCEPTION 'parameter "targets" must % for audience %',
                CASE WHEN targets IS NULL THEN 'not be null' ELSE 'be null' END, audience
            USING ERRCODE = CASE WHEN targets IS NULL THEN 'null_value_not_allowed'
                                 ELSE 'invalid_parameter_value' END,
                  HINT = 'Use NULL for ALL, else a column or a literal such as ''=id1,id2''.';
    END IF;
    IF live IS NULL THEN
        PERFORM clairon_internal.reject_null('live', 'Valid values are true and false.');
    END IF;
    rule.relation := relation;
    rule.name := name;
    rule.audience := audience;
    IF targets LIKE '=%' AND audience LIKE '%+%' THEN
        rule.target_list := clairon_internal.composite_targets(
            audience, clairon_internal.parse_targets(substr(targets, 2)), E' \t\n\r');
    ELSIF audience LIKE '%+%' THEN
        SELECT c.columns, c.constants INTO rule.target_columns, rule.target_list
        FROM clairon_internal.composite_columns(relation, audience, targets) AS c;
    ELSIF targets LIKE '=%' THEN
        rule.target_list := clairon_internal.parse_targets(substr(targets, 2));
        IF EXISTS (SELECT FROM unnest(rule.target_list) AS t WHERE clairon_internal.utf8_length(t) > 255) THEN
            RAISE EXCEPTION 'parameter "targets" has a value longer than 255 bytes'
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    ELSIF targets IS NOT NULL THEN
        rule.target_column := clairon_internal.target_column(relation, targets);
    END IF;
    PERFORM clairon_internal.check_targets(rule.target_list);
    rule.type := clairon_internal.choice('type', type, '{REALTIME,NOTIFICATION,SYSTEM}');
    rule.priority := clairon_internal.choice('priority', priority, '{HIGH,NORMAL,LOW}');
    rule.operations := clairon_internal.operation_bits(operations);
    IF columns = '{}' THEN
        RAISE EXCEPTION 'parameter "columns" must not be empty'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Use NULL for all columns.';
    END IF;
    rule.columns := (SELECT array_agg(number ORDER BY number)
                     FROM (SELECT DISTINCT clairon_internal.column_number('columns', set_rule.relation, wanted)
                           FROM unnest(set_rule.columns) AS given (wanted)) AS numbers (number));
    IF emitter LIKE ':%' AND emitter NOT LIKE '::%' THEN
        rule.emitter_column := clairon_internal.column_number('emitter', relation, substr(emitter, 2));
        emitter := NULL;
    END IF;
    rule.emitter := coalesce(CASE WHEN emitter LIKE '::%' THEN substr(emitter, 2) ELSE emitter END,
                             'clairon');
    rule.topic := topic;
    rule.ttl := ttl;
    rule.ack_required := ack_required;
    rule.retry_limit := retry_limit;
    rule.backoff := clairon_internal.choice('backoff', backoff, '{EXPONENTIAL,LINEAR,FIXED}');
    rule.ack_timeout := clairon_internal.ack_timeout_ms(ack_timeout);
    rule.live := live;
    rule.receipts := clairon_internal.check_receipts(receipts, escalate_after, ack_required);
    rule.escalations := clairon_internal.escalations_ms(escalate_after);
    IF web_push IS NOT NULL THEN
        SELECT w.literals, w.columns INTO rule.web_push, rule.web_push_columns
        FROM clairon_internal.web_push_template(relation, web_push, audience, type) AS w;
    END IF;
    rule.filter_columns := clairon_internal.filter_numbers(relation, filter_columns, rule.columns, live);
    rule.only_when := clairon_internal.check_condition(relation, only_when, path);
    rule.column_origins := clairon_internal.used_columns(relation, clairon_internal.bound_columns(rule),
                                                rule.columns, rule.only_when);
    before := clairon_internal.rule_rows(relation, name);
    fields := clairon_internal.rule_fields(relation, name);
    DELETE FROM clairon.rule AS old
        WHERE old.relation = rule.relation AND old.name = rule.name;
    -- Sub-ordinals have 16 bits for all rules on a table and its ancestors.
    IF (SELECT count(*) FROM clairon.rule AS other
        WHERE other.relation = rule.relation AND part = 0) >= 2000 THEN
        RAISE EXCEPTION 'relation % has too many rules', relation
            USING ERRCODE = 'program_limit_exceeded', DETAIL = 'The maximum is 2000 rules.';
    END IF;
    PERFORM clairon_internal.insert_rule(rule);
    PERFORM clairon_internal.limit_conditions(relation);
    IF is_limited THEN
        PERFORM clairon_internal.limit_rules(relation);
    END IF;
    IF live THEN
        PERFORM clairon_internal.check_live(relation, name);
    END IF;
    after := clairon_internal.rule_rows(relation, name);
    IF before IS DISTINCT FROM after THEN
        RAISE NOTICE 'rule "%" on % %', name, relation,
                     CASE WHEN before IS NULL THEN 'set' ELSE 'replaced' END
            USING DETAIL = coalesce(clairon_internal.changed_fields(fields, clairon_internal.rule_fields(relation, name)),
                                    'Only its stored form changed.');
        IF live OR (before[1]).live THEN
            PERFORM clairon_internal.reload_list(relation, name);
        END IF;
        PERFORM clairon_internal.advise(rule);
    END IF;
END $$;

-- The C function checks that the caller owns the table: see decoder/sql/functions.c.
CREATE FUNCTION clairon.watch(relation regclass, audience text, targets text DEFAULT NULL,
    name text DEFAULT 'default', type text DEFAULT 'REALTIME', priority text DEFAULT 'NORMAL',
    operations text[] DEFAULT '{create,update,delete}', columns text[] DEFAULT NULL,
    only_when text DEFAULT NULL, emitter text DEFAULT NULL, topic text DEFAULT NULL,
    ttl interval DEFAULT NULL, ack_required boolean DEFAULT false, retry_limit int DEFAULT 5,
    backoff text DEFAULT 'EXPONENTIAL', ack_timeout interval DEFAULT NULL,
    live boolean DEFAULT false, receipts text DEFAULT 'none', escalate_after text DEFAULT NULL,
    web_push text DEFAULT NULL, filter_columns text[] DEFAULT NULL)
    RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'clairon_watch';
CREATE FUNCTION clairon.unwatch(relation regclass, name text DEFAULT NULL) RETURNS integer
    LANGUAGE c AS 'MODULE_PATHNAME', 'clairon_unwatch';

CREATE FUNCTION clairon_internal.remove_rules(relation regclass, name text) RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    removed integer;
BEGIN
    IF relation IS NULL THEN
        PERFORM clairon_internal.reject_null('relation', 'The relation must be a table.');
    END IF;
    -- Serializes with concurrent calls of watch.
    PERFORM clairon_internal.lock_rules(relation);
    PERFORM clairon_internal.reload_list(old.relation, old.name) FROM clairon.rule AS old
        WHERE old.relation = remove_rules.relation AND live AND part = 0
          AND (remove_rules.name IS NULL OR old.name = remove_rules.name);
    WITH gone AS (DELETE FROM clairon.rule AS old
                  WHERE old.relation = remove_rules.relation
                    AND (remove_rules.name IS NULL OR old.name = remove_rules.name)
                  RETURNING part)
    SELECT count(*) FILTER (WHERE part = 0) INTO removed FROM gone;
    IF removed = 0 AND name IS NULL THEN
        RAISE NOTICE 'relation % has no rules', relation;
    ELSIF removed = 0 THEN
        RAISE NOTICE 'rule "%" on % does not exist', name, relation
            USING HINT = coalesce(
                'Existing rules are ' || clairon_internal.shorten((
                    SELECT string_agg(format('"%s"', other.name), ', ' ORDER BY other.name)
                    FROM clairon.rule AS other
                    WHERE other.relation = remove_rules.relation AND part = 0)) || '.',
                'The relation has no rules.');
    END IF;
    RETURN removed;
END $$;

-- Owners see the rules on their tables; roles with SELECT on clairon.rule see all rules.
CREATE VIEW clairon.rules WITH (security_barrier) AS
    SELECT rule.relation, rule.name, rule.audience,
           coalesce(attribute.attname::text,
                    clairon_internal.show_columns(rule.relation, rule.target_columns, rule.target_list),
                    '=' || whole.targets,
                    CASE WHEN rule.target_column IS NOT NULL THEN '(dropped column)'
                         WHEN rule.target_list IS NOT NULL THEN '=' END) AS targets,
           ('{REALTIME,NOTIFICATION,SYSTEM}'::text[])[rule.type + 1] AS type,
           ('{HIGH,NORMAL,LOW}'::text[])[rule.priority + 1] AS priority,
           ARRAY(SELECT operation
                 FROM unnest('{create,update,delete,truncate}'::text[])
                      WITH ORDINALITY AS t (operation, place)
                 WHERE rule.operations & (1 << (place - 1)::int) <> 0 ORDER BY place) AS operations,
           CASE WHEN rule.columns IS NOT NULL THEN
               ARRAY(SELECT attname::text FROM pg_catalog.pg_attribute
                     WHERE attrelid = rule.relation AND attnum = ANY (rule.columns)
                       AND NOT attisdropped ORDER BY attnum) END AS columns,
           CASE WHEN rule.only_when IS NOT NULL
                THEN clairon_internal.show_condition(rule.relation, rule.name) END AS only_when,
           CASE WHEN rule.emitter_column IS NOT NULL
                THEN coalesce(':' || emitter.attname, '(dropped column)')
                WHEN rule.emitter LIKE ':%' THEN ':' || rule.emitter
                ELSE rule.emitter END AS emitter, rule.topic, rule.ttl, rule.ack_required, rule.retry_limit,
           ('{EXPONENTIAL,LINEAR,FIXED}'::text[])[rule.backoff + 1] AS backoff,
           rule.ack_timeout * interval '1 millisecond' AS ack_timeout, rule.live,
           ('{none,notification,user}'::text[])[rule.receipts + 1] AS receipts,
           CASE WHEN rule.escalations IS NOT NULL THEN
               ARRAY(SELECT time * interval '1 millisecond'
                     FROM unnest(rule.escalations) WITH ORDINALITY AS t (time, place)
                     ORDER BY place) END AS escalate_after,
           clairon_internal.show_web_push(rule.relation, rule.web_push, rule.web_push_columns) AS web_push,
           CASE WHEN rule.filter_columns IS NOT NULL THEN
               ARRAY(SELECT attname::text
                     FROM unnest(rule.filter_columns) WITH ORDINALITY AS t (number, place)
                     JOIN pg_catalog.pg_attribute ON attrelid = rule.relation AND attnum = number
                         AND NOT attisdropped ORDER BY place) END AS filter_columns
    FROM clairon.rule
    LEFT JOIN pg_catalog.pg_attribute AS attribute
        ON attribute.attrelid = rule.relation AND attribute.attnum = rule.target_column
           AND NOT attribute.attisdropped
    LEFT JOIN pg_catalog.pg_attribute AS emitter
        ON emitter.attrelid = rule.relation AND emitter.attnum = rule.emitter_column
           AND NOT emitter.attisdropped
    CROSS JOIN LATERAL (
        SELECT string_agg(piece.targets, ',' ORDER BY piece.part) AS targets
        FROM (SELECT row.part,
                     (SELECT string_agg(replace(target, ',', E'\\,'), ',' ORDER BY place)
                      FROM unnest(row.target_list) WITH ORDINALITY AS t (target, place)) AS targets
              FROM clairon.rule AS row
              WHERE row.relation = rule.relation AND row.name = rule.name) AS piece) AS whole
    WHERE rule.part = 0
      AND (pg_catalog.has_table_privilege('clairon.rule', 'SELECT')
           OR EXISTS (SELECT FROM pg_catalog.pg_class
                      WHERE oid = rule.relation AND pg_catalog.pg_has_role(relowner, 'USAGE')));
