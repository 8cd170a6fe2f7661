/* advice: NOTICEs of watch about valid rules that may deliver less than expected. */

-- Returns the given columns that the WAL does not contain in the old row of an update or delete.
-- The leaf is the table itself, a partition or a child table.
CREATE FUNCTION clairon.missing_in_old_row(relation regclass, columns int2[], leaf regclass)
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

CREATE FUNCTION clairon.advise(rule clairon.rule) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    evaluated constant int2[] := clairon.used_columns(
        rule.relation, rule.target_column || rule.target_columns, NULL, rule.only_when);
    leaf regclass;
    missing text[];
BEGIN
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
        FROM clairon.doctor_leaves(rule.relation) AS tree (relid)
        CROSS JOIN clairon.missing_in_old_row(rule.relation, evaluated, relid) AS found (columns)
        WHERE columns IS NOT NULL LIMIT 1;
    END IF;
    IF missing IS NOT NULL THEN
        RAISE NOTICE 'the WAL does not contain % of the old rows of %',
                     '"' || array_to_string(missing, '", "') || '"', leaf
            USING DETAIL = 'Deletes are denied, and only the new row of an update is evaluated.',
                  HINT = format('To add them, run ALTER TABLE %s REPLICA IDENTITY FULL.', leaf);
    END IF;
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = rule.relation) THEN
        RAISE NOTICE 'row-level security of % does not apply to notifications', rule.relation
            USING DETAIL = 'Only the rule determines which users are notified.';
    END IF;
END $$;
