/* Columns of watched tables are bound by number, but restored by name. */

-- Column numbers change in a restored dump if columns were dropped, so each rule also stores the
-- current names of its columns. If a row is inserted with names, they determine its numbers. In
-- only_when, $n is kept and refers to the column with origin n. No table has a column with the
-- number below, so a rule with that number denies all rows.
CREATE FUNCTION clairon_internal.no_column() RETURNS int2
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS 'SELECT 32767::int2';

-- Returns the columns of a rule, without the columns of its payload and its condition.
CREATE FUNCTION clairon_internal.bound_columns(rule clairon.rule) RETURNS int2[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT rule.target_column || (rule.emitter_column || rule.target_columns) || rule.web_push_columns
           || rule.filter_columns
$$;

-- May return too many columns if a string in the condition looks like $n.
CREATE FUNCTION clairon_internal.used_columns(relation regclass, bound int2[], columns int2[], stored text)
    RETURNS int2[] LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(attnum ORDER BY attnum), '{}')
    FROM pg_attribute
    WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped
      AND (attnum = ANY (bound) OR attnum = ANY (columns)
           OR '$' || attnum IN (SELECT match[1] FROM regexp_matches(stored, '[$][0-9]+', 'g')
                                AS found (match)))
$$;

-- The new numbers of columns that had the numbers `held`; 0 is no column.
CREATE FUNCTION clairon_internal.restore_columns(numbers int2[], held int2[], restored int2[]) RETURNS int2[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(CASE WHEN number = 0 THEN number
                          ELSE coalesce(restored[array_position(held, number)],
                                        clairon_internal.no_column()) END ORDER BY place)
    FROM unnest(numbers) WITH ORDINALITY AS t (number, place)
$$;

CREATE FUNCTION clairon_internal.bind_columns() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held int2[] := NEW.column_numbers;
    added int2[];
BEGIN
    IF NEW.part > 0 THEN
        RETURN NEW; -- the first part contains all columns of the rule
    END IF;
    IF TG_OP = 'INSERT' AND NEW.column_names IS NOT NULL THEN
        NEW.column_numbers := ARRAY(
            SELECT coalesce(attnum, clairon_internal.no_column())
            FROM unnest(NEW.column_names) WITH ORDINALITY AS given (name, place)
            LEFT JOIN pg_attribute ON attrelid = NEW.relation AND attname = name
                AND attnum > 0 AND NOT attisdropped
            ORDER BY place);
        IF NEW.target_column IS NOT NULL THEN
            NEW.target_column := coalesce(
                NEW.column_numbers[array_position(held, NEW.target_column)], clairon_internal.no_column());
        END IF;
        IF NEW.emitter_column IS NOT NULL THEN
            NEW.emitter_column := coalesce(
                NEW.column_numbers[array_position(held, NEW.emitter_column)], clairon_internal.no_column());
        END IF;
        NEW.target_columns := clairon_internal.restore_columns(NEW.target_columns, held, NEW.column_numbers);
        NEW.web_push_columns := clairon_internal.restore_columns(NEW.web_push_columns, held, NEW.column_numbers);
        NEW.filter_columns := clairon_internal.restore_columns(NEW.filter_columns, held, NEW.column_numbers);
        NEW.columns := (SELECT array_agg(coalesce(NEW.column_numbers[array_position(held, number)],
                                                  clairon_internal.no_column()))
                        FROM unnest(NEW.columns) AS t (number));
    ELSIF TG_OP = 'INSERT' OR NEW.only_when IS DISTINCT FROM OLD.only_when THEN
        IF TG_OP = 'UPDATE' OR NEW.column_origins IS NULL THEN
            NEW.column_origins := clairon_internal.used_columns(NEW.relation, clairon_internal.bound_columns(NEW),
                                                       NEW.columns, NEW.only_when);
        END IF;
        NEW.column_numbers := NEW.column_origins;
    ELSE
        added := ARRAY(SELECT unnest(clairon_internal.used_columns(NEW.relation, clairon_internal.bound_columns(NEW),
                                                          NEW.columns, NULL))
                       EXCEPT SELECT unnest(held));
        NEW.column_origins := NEW.column_origins || array_fill(0::int2, ARRAY[cardinality(added)]);
        NEW.column_numbers := held || added;
    END IF;
    NEW.column_names := ARRAY(
        SELECT attname::text
        FROM unnest(NEW.column_numbers) WITH ORDINALITY AS given (number, place)
        LEFT JOIN pg_attribute ON attrelid = NEW.relation AND attnum = number
            AND NOT attisdropped
        ORDER BY place);
    IF pg_column_size(NEW) > 8000 THEN
        -- The names are needed only in a dump: without them the rule still works.
        RAISE WARNING 'could not store the column names of rule "%" on %', NEW.name, NEW.relation
            USING DETAIL = 'The rule has too many columns. After a dump and restore the rule may be invalid.';
        NEW.column_names := '{}';
        IF NEW.only_when IS NULL THEN
            NEW.column_origins := '{}';
            NEW.column_numbers := '{}';
        ELSIF pg_column_size(NEW) > 8000 THEN
            RAISE EXCEPTION 'parameter "columns" has too many values for a rule with only_when'
                USING ERRCODE = 'program_limit_exceeded', HINT = 'Use NULL for all columns.';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER bind_columns BEFORE INSERT OR UPDATE ON clairon.rule
    FOR EACH ROW EXECUTE FUNCTION clairon_internal.bind_columns();
ALTER TABLE clairon.rule ENABLE ALWAYS TRIGGER bind_columns;

-- Updates the stored names after columns of these tables were renamed or dropped.
CREATE FUNCTION clairon_internal.update_column_names(tables oid[]) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE clairon.rule SET column_names = NULL
    WHERE relation = ANY (tables)
      AND EXISTS (SELECT FROM unnest(column_numbers, column_names) AS kept (number, name)
                  WHERE name IS NOT NULL
                    AND NOT EXISTS (SELECT FROM pg_attribute
                                    WHERE attrelid = relation AND attnum = number
                                      AND attname = name AND NOT attisdropped))
$$;
CREATE FUNCTION clairon_internal.changes_owner(command pg_ddl_command) RETURNS boolean
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_changes_owner';
-- The types that the command of an event trigger altered, and the row types of altered tables.
CREATE FUNCTION clairon_internal.altered_types() RETURNS oid[]
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH altered AS (SELECT DISTINCT classid, objid FROM pg_event_trigger_ddl_commands())
    SELECT ARRAY(SELECT objid FROM altered WHERE classid = 'pg_type'::regclass
                 UNION SELECT reltype FROM altered JOIN pg_class ON pg_class.oid = objid
                 WHERE classid = 'pg_class'::regclass AND reltype <> 0)
$$;
-- The altered tables, and the tables of an altered type (CREATE TABLE .. OF): only their columns may
-- have new names. Tables that merely have a column of the type are not among them. If a composite type is
-- altered, PostgreSQL scans pg_class for its tables too.
CREATE FUNCTION clairon_internal.renamed_tables() RETURNS oid[]
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT objid FROM pg_event_trigger_ddl_commands()
                 WHERE classid = 'pg_class'::regclass
                 UNION SELECT typed.oid
                 FROM pg_type JOIN pg_class AS shape ON shape.oid = typrelid AND shape.relkind = 'c'
                 CROSS JOIN LATERAL (SELECT oid FROM pg_class WHERE reloftype = pg_type.oid
                                     OFFSET 0) AS typed
                 WHERE pg_type.oid = ANY (ARRAY(SELECT unnest(clairon_internal.altered_types()))))
$$;
-- The renamed tables, and those of an altered schema.
CREATE FUNCTION clairon_internal.altered_tables() RETURNS oid[]
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT clairon_internal.renamed_tables()
           || ARRAY(SELECT DISTINCT pg_depend.objid
                    FROM pg_event_trigger_ddl_commands() AS altered
                    JOIN pg_depend ON refclassid = altered.classid AND refobjid = altered.objid
                        AND pg_depend.classid = 'pg_class'::regclass
                    WHERE altered.classid = 'pg_namespace'::regclass)
$$;
-- Those of the given tables that have live rules. Of each owner that does not own one of the types, only
-- tables with 2000 rules in total, since the owner of the types waits.
CREATE FUNCTION clairon_internal.tables_with_live_rules(tables oid[], types oid[]) RETURNS oid[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    within oid[];
    is_beyond boolean;
BEGIN
    SELECT array_agg(relation) FILTER (WHERE is_within), bool_or(NOT is_within)
    INTO within, is_beyond
    FROM (SELECT relation,
                 sum(count(*)) OVER (PARTITION BY relowner ORDER BY relation) <= 2000
                 OR relowner IN (SELECT typowner FROM pg_type WHERE pg_type.oid = ANY (types))
                 AS is_within
          FROM clairon.rule JOIN pg_class ON pg_class.oid = relation
          WHERE live AND part = 0 AND relation = ANY (tables)
          GROUP BY relation, relowner) AS watched;
    IF is_beyond THEN
        RAISE WARNING 'could not reload all lists of live rules'
            USING DETAIL = 'Another owner uses the altered type in tables with more than 2000 live rules.';
    END IF;
    RETURN coalesce(within, '{}');
END $$;
-- A rule stays in effect, as triggers and policies do, even if the new owner of its table could not
-- set it. So ALTER TABLE .. OWNER TO raises a NOTICE.
--
-- Event triggers run in the commands of all users, while the command locks its table. So they read
-- only the rules of tables that are related to the command's tables, by an index, whatever the
-- number of other rules, and whatever the planner knows of it.
CREATE FUNCTION clairon_internal.update_renamed() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    types constant oid[] := clairon_internal.altered_types();
    related constant oid[] := clairon_internal.related_tables(clairon_internal.altered_tables())
        || clairon_internal.tables_with_live_rules(clairon_internal.tables_with_type(types), types);
    changed regclass;
BEGIN
    IF NOT EXISTS (SELECT FROM clairon.rule WHERE relation = ANY (related)) THEN
        RETURN;
    END IF;
    PERFORM clairon_internal.update_column_names(clairon_internal.related_tables(clairon_internal.renamed_tables()));
    -- After a rename to "app.t", the notifications must not have the source of app.t.
    PERFORM clairon_internal.check_source(oid)
    FROM pg_class
    WHERE oid = ANY (ARRAY(SELECT objid FROM pg_event_trigger_ddl_commands()
                           WHERE classid = 'pg_class'::regclass))
      AND relnamespace = to_regnamespace('public') AND strpos(relname, '.') > 0
      AND EXISTS (SELECT FROM clairon.rule WHERE relation = oid);
    PERFORM clairon_internal.reload_lists(related);
    FOR changed IN SELECT DISTINCT objid FROM pg_event_trigger_ddl_commands()
                   WHERE classid = 'pg_class'::regclass AND clairon_internal.changes_owner(command)
                     AND EXISTS (SELECT FROM clairon.rule WHERE relation = objid) LOOP
        RAISE NOTICE 'clairon rules on % remain in effect', changed
            USING HINT = format('The view clairon.rules lists them. To remove them, run SELECT '
                                'clairon.unwatch(%L).', changed);
    END LOOP;
END $$;
-- ALTER VIEW and similar commands can also rename columns of tables.
CREATE EVENT TRIGGER clairon_update_renamed ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER VIEW', 'ALTER INDEX', 'ALTER TYPE', 'ALTER SCHEMA',
                 'ALTER MATERIALIZED VIEW', 'ALTER FOREIGN TABLE')
    EXECUTE FUNCTION clairon_internal.update_renamed();
ALTER EVENT TRIGGER clairon_update_renamed ENABLE ALWAYS;
