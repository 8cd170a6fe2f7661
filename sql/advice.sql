/* advice: NOTICEs of watch, and of new partitions, about valid rules that may deliver less than expected. */

-- Returns the given columns that the WAL does not contain in the old row of an update or delete.
-- The leaf is the table itself, a partition or a child table.
CREATE FUNCTION clairon_internal.missing_in_old_row(relation regclass, columns int2[], leaf regclass)
    RETURNS text[] LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(wanted.attname::text ORDER BY wanted.attnum)
    FROM pg_class AS class
    JOIN pg_attribute AS wanted ON wanted.attrelid = relation AND wanted.attnum = ANY (columns)
    WHERE class.oid = leaf AND class.relreplident <> 'f'
      AND NOT EXISTS (
          SELECT FROM pg_index JOIN pg_attribute AS part
              ON part.attrelid = leaf AND part.attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])
          WHERE indrelid = leaf AND part.attname = wanted.attname
            AND CASE class.relreplident WHEN 'd' THEN indisprimary AND indimmediate
                    WHEN 'i' THEN indisreplident ELSE false END)
$$;

-- Deletes are denied if the old row lacks one of these columns.
CREATE FUNCTION clairon_internal.evaluated_columns(rule clairon.rule) RETURNS int2[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT clairon_internal.used_columns(rule.relation, rule.target_column || rule.target_columns, NULL, (
        SELECT string_agg(only_when, '' ORDER BY part) FROM clairon.rule AS row
        WHERE row.relation = rule.relation AND row.name = rule.name))
$$;

CREATE FUNCTION clairon_internal.advise_identity(rule clairon.rule, leaf regclass, missing text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE NOTICE 'the WAL does not contain % of the old rows of %', '"' || array_to_string(missing, '", "') || '"', leaf
        USING DETAIL = format('Rule "%s" on %s denies deletes, and evaluates only the new row of an update.',
                              rule.name, rule.relation),
              HINT = format('To add them, run ALTER TABLE %s REPLICA IDENTITY FULL.', leaf);
END $$;

-- Kinds that are probably mistakes. A group may have members only in tokens, of which only a rule reminds: it is set
-- once, and notifications are sent often.
CREATE FUNCTION clairon_internal.advise_audience(audience text, is_rule boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text;
BEGIN
    FOREACH kind IN ARRAY string_to_array(audience, '+') LOOP
        CONTINUE WHEN kind IN ('USER', 'ALL') OR EXISTS (SELECT FROM clairon.member WHERE member.audience = kind);
        IF upper(kind) ~ '^(U+S+E+R+S*|USRS?)$' THEN
            RAISE NOTICE 'audience "%" is a group', kind USING HINT = 'For the ids of users, use USER.';
        ELSIF upper(kind) ~ '^A+L+S?$' THEN
            RAISE NOTICE 'audience "%" is a group', kind USING HINT = 'For all connected users, use ALL.';
        ELSIF is_rule THEN
            RAISE NOTICE 'audience "%" has no rows in clairon.member', kind
                USING HINT = 'Add its members to the table, unless the tokens of users contain their groups.';
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION clairon_internal.advise(rule clairon.rule) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    evaluated constant int2[] := clairon_internal.evaluated_columns(rule);
    leaf regclass;
    missing text[];
BEGIN
    PERFORM clairon_internal.advise_audience(rule.audience, true);
    IF rule.target_list = '{}' THEN
        RAISE NOTICE 'rule has no targets and sends nothing'
            USING HINT = 'Use a literal with ids, such as ''=id1,id2''.';
    END IF;
    IF (rule.target_column || rule.target_columns) <> '{NULL}' AND rule.operations & 8 <> 0 THEN
        RAISE NOTICE 'operation "truncate" is not sent to targets from a column'
            USING HINT = 'Add a rule with audience ALL or with literal targets.';
    END IF;
    -- Updates and deletes have an old row.
    IF rule.operations & 6 <> 0 AND evaluated <> '{}' THEN
        SELECT relid, columns INTO leaf, missing
        FROM clairon_internal.doctor_leaves(rule.relation) AS tree (relid)
        CROSS JOIN clairon_internal.missing_in_old_row(rule.relation, evaluated, relid) AS found (columns)
        WHERE columns IS NOT NULL ORDER BY relid LIMIT 1;
    END IF;
    IF missing IS NOT NULL THEN
        PERFORM clairon_internal.advise_identity(rule, leaf, missing);
    END IF;
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = rule.relation) THEN
        RAISE NOTICE 'row-level security of % does not apply to notifications', rule.relation
            USING DETAIL = 'Only the rule determines which users are notified.';
    END IF;
END $$;

-- The table that the command creates below another, or attaches to it; NULL for other commands.
CREATE FUNCTION clairon_internal.added_table(command pg_ddl_command) RETURNS oid
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_added_table';

-- The first rule on a table above the given one that denies deletes of its rows. A new partition has the
-- default replica identity, whatever that of the partitioned table. Checks at most 100 rules: the command waits.
CREATE FUNCTION clairon_internal.advise_added_table(added regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    denial record;
BEGIN
    WITH RECURSIVE above (relid) AS (
        SELECT inhparent FROM pg_inherits WHERE inhrelid = added
        UNION SELECT inhparent FROM above JOIN pg_inherits ON inhrelid = relid)
    SELECT rule, leaf, missing INTO denial
    FROM (SELECT rule AS rule, clairon_internal.evaluated_columns(rule) AS evaluated
          FROM above JOIN clairon.rule AS rule ON rule.relation = relid
          WHERE part = 0 AND operations & 6 <> 0 ORDER BY relid, name LIMIT 100) AS applied
    CROSS JOIN LATERAL (SELECT leaf FROM clairon_internal.doctor_leaves(added) AS leaf
                        JOIN pg_class ON oid = leaf WHERE relreplident <> 'f' LIMIT 100) AS leaves
    CROSS JOIN LATERAL clairon_internal.missing_in_old_row((applied.rule).relation, evaluated, leaf) AS old (missing)
    WHERE missing IS NOT NULL LIMIT 1;
    IF FOUND THEN
        PERFORM clairon_internal.advise_identity(denial.rule, denial.leaf, denial.missing);
    END IF;
END $$;

-- See update_renamed for the settings.
CREATE FUNCTION clairon_internal.advise_added_tables() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    -- PostgreSQL 15 does not report the partition that is attached: it was added in this transaction.
    PERFORM clairon_internal.advise_added_table(added)
    FROM (SELECT DISTINCT coalesce(inhrelid, reported) AS added
          FROM (SELECT objid, clairon_internal.added_table(command) AS reported FROM pg_event_trigger_ddl_commands()
                WHERE classid = 'pg_class'::regclass) AS commands
          LEFT JOIN pg_inherits ON reported = 0 AND inhparent = objid AND age(pg_inherits.xmin) <= 0) AS tables
    WHERE EXISTS (SELECT FROM pg_inherits WHERE inhrelid = added);
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'could not check the replica identity of a new table: %', SQLERRM;
END $$;
CREATE FUNCTION clairon_internal.advise_added() RETURNS event_trigger
    LANGUAGE c SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'MODULE_PATHNAME', 'clairon_advise_added';
CREATE EVENT TRIGGER clairon_advise_added_tables ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE')
    EXECUTE FUNCTION clairon_internal.advise_added();
ALTER EVENT TRIGGER clairon_advise_added_tables ENABLE ALWAYS;
