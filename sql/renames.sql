/*
 * renames: stored conditions follow the renames of types, labels, attributes, schemas, functions,
 * operators and collations.
 *
 * The stored form of only_when contains names, as a dump does. Before a command that renames, the
 * conditions with the old name are parsed; after it they are written with the new names. See
 * decoder/sql/renames.c. Only rules on tables of the caller's roles are updated: a change would lock a
 * rule, so the DDL of another owner would wait. A WARNING reports the others.
 */

-- The names in a stored condition: of objects outside pg_catalog and of their schemas; those of attributes
-- start with a dot.
CREATE FUNCTION clairon_internal.condition_names(stored text) RETURNS text[]
    LANGUAGE c STRICT SET standard_conforming_strings = on AS 'MODULE_PATHNAME', 'clairon_condition_names';

-- Parses a condition, and keeps it until the end of the command.
CREATE FUNCTION clairon_internal.keep_condition(relation oid, name text, stored text, origins int2[],
                                       numbers int2[], is_own boolean) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_keep_condition';

-- The kept conditions that now have other names.
CREATE FUNCTION clairon_internal.renamed_conditions()
    RETURNS TABLE (relation regclass, name text, stored text, renamed text, is_own boolean)
    LANGUAGE c SET search_path = pg_catalog, pg_temp
    SET timezone = 'UTC' SET datestyle = 'ISO, MDY'
    SET intervalstyle = 'iso_8601' SET lc_monetary = 'C' SET extra_float_digits = 1
    SET standard_conforming_strings = on SET transform_null_equals = off
    SET quote_all_identifiers = off SET xmloption = content SET bytea_output = 'hex' AS 'MODULE_PATHNAME', 'clairon_renamed_conditions';

-- Keeps the conditions with this name. Another object may have that name, and the caller waits: of each other
-- owner with a role that the caller has (a superuser has all), only 300 conditions with 256 kB are parsed; of
-- all others, 50 with 32 kB. The settings are those of check_condition.
CREATE FUNCTION clairon_internal.keep_conditions(renamed text, extension text, caller oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET timezone = 'UTC' SET datestyle = 'ISO, MDY'
    SET intervalstyle = 'iso_8601' SET lc_monetary = 'C' SET extra_float_digits = 1
    SET standard_conforming_strings = on SET transform_null_equals = off
    SET quote_all_identifiers = off SET xmloption = content SET bytea_output = 'hex'
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    names constant text[] := ARRAY[coalesce(renamed, (
        SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = extension))];
    used record;
    condition record;
    bytes int;
    is_beyond boolean := false;
BEGIN
    FOR used IN
        SELECT relation, name, is_own, most, most_bytes, count(*) OVER () AS total,
               row_number() OVER (PARTITION BY is_own, owner ORDER BY relation, name) AS place
        FROM (SELECT rule.relation, rule.name FROM clairon.rule WHERE used_names && names LIMIT 20000) AS found
        JOIN pg_class ON pg_class.oid = relation
        CROSS JOIN LATERAL (SELECT pg_has_role(caller, relowner, 'USAGE') AS is_own) AS role
        CROSS JOIN LATERAL (SELECT CASE WHEN is_own THEN relowner END AS owner,
                                   CASE WHEN relowner = caller THEN 20000 WHEN is_own THEN 300 ELSE 50 END AS most,
                                   CASE WHEN relowner = caller THEN 8000000 WHEN is_own THEN 262144
                                        ELSE 32768 END AS most_bytes) AS bounds
        ORDER BY is_own DESC, owner, place
    LOOP
        bytes := CASE used.place WHEN 1 THEN 0 ELSE bytes END;
        is_beyond := is_beyond OR used.total = 20000 OR used.place > used.most OR bytes > used.most_bytes;
        CONTINUE WHEN used.place > used.most OR bytes > used.most_bytes;
        SELECT column_origins AS origins, column_numbers AS numbers,
               (SELECT string_agg(only_when, '' ORDER BY part) FROM clairon.rule AS row
                WHERE row.relation = used.relation AND row.name = used.name) AS stored
        INTO condition
        FROM clairon.rule AS row
        WHERE row.relation = used.relation AND row.name = used.name AND part = 0;
        bytes := bytes + octet_length(condition.stored);
        BEGIN
            PERFORM clairon_internal.keep_condition(used.relation, used.name, condition.stored, condition.origins,
                                           condition.numbers, used.is_own);
        EXCEPTION WHEN OTHERS THEN
            NULL; -- the condition was invalid before the command
        END;
    END LOOP;
    IF is_beyond THEN
        RAISE WARNING 'could not update the conditions of all rules'
            USING DETAIL = 'Too many conditions on tables of other owners contain the name.',
                  HINT = 'clairon.doctor() reports invalid conditions.';
    END IF;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'could not update the conditions of rules: %', SQLERRM
        USING HINT = 'clairon.doctor() reports invalid conditions.';
END $$;

CREATE FUNCTION clairon_internal.keep_renamed() RETURNS event_trigger
    LANGUAGE c SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'clairon_keep_renamed';

-- Returns false if another transaction changes the table or its rules, or the table no longer exists. Does
-- not wait.
CREATE FUNCTION clairon_internal.try_lock_rules(relation oid) RETURNS boolean
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_try_lock_rules';
CREATE FUNCTION clairon_internal.replace_condition(relation regclass, name text, stored text, renamed text) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rows clairon.rule[];
    rule clairon.rule;
BEGIN
    IF NOT clairon_internal.try_lock_rules(relation) THEN
        RETURN false;
    END IF;
    rows := clairon_internal.rule_rows(relation, name);
    IF (SELECT string_agg(row.only_when, '' ORDER BY part) FROM unnest(rows) AS row) IS DISTINCT FROM stored THEN
        RETURN false;
    END IF;
    rule := rows[1];
    IF rule.target_list IS NOT NULL THEN
        rule.target_list := ARRAY(SELECT target FROM unnest(rows) AS row
                                  CROSS JOIN LATERAL unnest(target_list) WITH ORDINALITY AS t (target, place)
                                  ORDER BY part, place);
    END IF;
    DELETE FROM clairon.rule AS row
        WHERE row.relation = replace_condition.relation AND row.name = replace_condition.name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    rule.only_when := renamed;
    rule.column_names := NULL;
    rule.column_origins := clairon_internal.used_columns(relation, clairon_internal.bound_columns(rule), rule.columns, renamed);
    PERFORM clairon_internal.insert_rule(rule);
    RETURN true;
END $$;

-- An error must not fail the user's command.
CREATE FUNCTION clairon_internal.update_conditions() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed record;
    others text[];
BEGIN
    FOR changed IN SELECT * FROM clairon_internal.renamed_conditions() LOOP
        IF NOT changed.is_own THEN
            others := others || format('"%s" on %s', changed.name, changed.relation);
            CONTINUE;
        END IF;
        BEGIN
            IF NOT clairon_internal.replace_condition(changed.relation, changed.name, changed.stored, changed.renamed) THEN
                RAISE WARNING 'could not update only_when of rule "%" on %', changed.name, changed.relation
                    USING DETAIL = 'Another transaction changes the table or its rules.',
                          HINT = 'If clairon.doctor() reports the rule, set it again with clairon.watch().';
            END IF;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'could not update only_when of rule "%" on %: %', changed.name, changed.relation, SQLERRM
                USING HINT = 'Set the rule again with clairon.watch().';
        END;
    END LOOP;
    IF others IS NOT NULL THEN
        RAISE WARNING 'could not update only_when of rules on tables of other owners'
            USING DETAIL = format('The rules are %s.', array_to_string(others, ', ')),
                  HINT = 'Their owners must set them again with clairon.watch().';
    END IF;
END $$;

-- The commands that rename, or move to another schema. The row type of a table has the table's name. If
-- another event trigger runs DDL between these two, the conditions that are kept are lost.
CREATE EVENT TRIGGER clairon_keep_conditions ON ddl_command_start
    WHEN TAG IN ('ALTER AGGREGATE', 'ALTER COLLATION', 'ALTER DOMAIN', 'ALTER EXTENSION', 'ALTER FOREIGN TABLE',
                 'ALTER FUNCTION', 'ALTER INDEX', 'ALTER MATERIALIZED VIEW', 'ALTER OPERATOR', 'ALTER PROCEDURE',
                 'ALTER ROUTINE', 'ALTER SCHEMA', 'ALTER SEQUENCE', 'ALTER TABLE', 'ALTER TYPE', 'ALTER VIEW')
    EXECUTE FUNCTION clairon_internal.keep_renamed();
ALTER EVENT TRIGGER clairon_keep_conditions ENABLE ALWAYS;
CREATE EVENT TRIGGER clairon_update_conditions ON ddl_command_end
    WHEN TAG IN ('ALTER AGGREGATE', 'ALTER COLLATION', 'ALTER DOMAIN', 'ALTER EXTENSION', 'ALTER FOREIGN TABLE',
                 'ALTER FUNCTION', 'ALTER INDEX', 'ALTER MATERIALIZED VIEW', 'ALTER OPERATOR', 'ALTER PROCEDURE',
                 'ALTER ROUTINE', 'ALTER SCHEMA', 'ALTER SEQUENCE', 'ALTER TABLE', 'ALTER TYPE', 'ALTER VIEW')
    EXECUTE FUNCTION clairon_internal.update_conditions();
ALTER EVENT TRIGGER clairon_update_conditions ENABLE ALWAYS;
