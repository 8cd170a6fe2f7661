/* advice: NOTICEs of watch, about rules that are valid and deliver less than one may expect. */

-- Of these columns of a table, those that are not in the old row of an update or a delete in the WAL
-- of a leaf: one that is a partition or an heir of the table, or the table itself.
CREATE FUNCTION clairon.missing_in_old_row(relation regclass, columns int2[], leaf regclass)
    RETURNS text[] LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(wanted.attname::text ORDER BY wanted.attnum)
    FROM pg_class AS class
    JOIN pg_attribute AS wanted ON wanted.attrelid = relation AND wanted.attnum = ANY (columns)
    WHERE class.oid = leaf AND class.relreplident <> 'f'
      AND NOT EXISTS (
          SELECT FROM pg_index JOIN pg_attribute AS part
              ON part.attrelid = leaf AND part.attnum = ANY (indkey::int2[])
          WHERE indrelid = leaf AND part.attname = wanted.attname
            AND CASE class.relreplident WHEN 'd' THEN indisprimary AND indimmediate
                    WHEN 'i' THEN indisreplident ELSE false END)
$$;

CREATE FUNCTION clairon.advise(rule clairon.rule) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    judged constant int2[] := clairon.used_columns(
        rule.relation, rule.target_column || rule.target_columns, NULL, rule.only_when);
    leaf regclass;
    missing text[];
BEGIN
    IF rule.target_list = '{}' THEN
        RAISE NOTICE 'targets: the list names nobody, the rule sends nothing'
            USING HINT = 'Write ids, as in ''=id1,id2''.';
    END IF;
    IF (rule.target_column || rule.target_columns) <> '{NULL}' AND rule.operations & 8 <> 0 THEN
        RAISE NOTICE 'operations: truncate is not sent to targets of a column'
            USING HINT = 'A rule of another name can send it to ALL or to a list.';
    END IF;
    -- Updates and deletes, which have an old row.
    IF rule.operations & 6 <> 0 AND judged <> '{}' THEN
        SELECT relid, columns INTO leaf, missing
        FROM clairon.doctor_leaves(rule.relation) AS tree (relid)
        CROSS JOIN clairon.missing_in_old_row(rule.relation, judged, relid) AS found (columns)
        WHERE columns IS NOT NULL LIMIT 1;
    END IF;
    IF missing IS NOT NULL THEN
        RAISE NOTICE 'relation: the WAL does not hold % of the old rows of %',
                     '"' || array_to_string(missing, '", "') || '"', leaf
            USING DETAIL = 'Deletes are denied, and updates are judged by the new row alone.',
                  HINT = format('ALTER TABLE %s REPLICA IDENTITY FULL;', leaf);
    END IF;
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = rule.relation) THEN
        RAISE NOTICE 'relation: the row-level security of % does not limit who is notified, only '
                     'the rule does', rule.relation;
    END IF;
END $$;
