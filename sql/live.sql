/* live: checks that clients can keep the rows of a rule up to date by its notifications. */

-- Returns the columns that identify a row: the columns of the replica identity index, or of the
-- primary key. Returns NULL without such an index. Deferrable indexes are ignored, since they may
-- have duplicates within a transaction.
CREATE FUNCTION clairon_internal.live_key(relation regclass) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(attname::text ORDER BY place)
    FROM pg_class AS class
    JOIN pg_index ON indrelid = class.oid AND indisvalid AND indimmediate
        AND CASE relreplident WHEN 'i' THEN indisreplident ELSE indisprimary END
    CROSS JOIN LATERAL unnest(indkey::int2[]) WITH ORDINALITY AS part (number, place)
    JOIN pg_attribute ON attrelid = class.oid AND attnum = number
    WHERE class.oid = relation AND place <= indnkeyatts
$$;

-- Returns the columns that determine the recipients of a row: the columns of the targets and of
-- only_when.
CREATE FUNCTION clairon_internal.deciding_columns(relation regclass, name text) RETURNS int2[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH condition AS MATERIALIZED (
        SELECT string_agg(only_when, '' ORDER BY part) AS stored FROM clairon.rule
        WHERE rule.relation = deciding_columns.relation AND rule.name = deciding_columns.name),
    used AS MATERIALIZED (
        SELECT match[1] AS parameter
        FROM condition, regexp_matches(stored, '[$][0-9]+', 'g') AS found (match))
    SELECT array_agg(number) FILTER (WHERE number > 0)
    FROM (SELECT unnest(target_column || target_columns)
          FROM clairon.rule AS first
          WHERE first.relation = deciding_columns.relation
            AND first.name = deciding_columns.name AND part = 0
          UNION
          SELECT bound.number
          FROM clairon.rule AS first
          CROSS JOIN LATERAL unnest(column_origins, column_numbers) AS bound (origin, number)
          WHERE first.relation = deciding_columns.relation
            AND first.name = deciding_columns.name AND part = 0
            AND '$' || origin IN (SELECT parameter FROM used)) AS deciding (number)
$$;

-- Returns the reasons why a rule cannot be live, with the SQLSTATE for clairon.watch. Returns no
-- rows if the rule can be live. If old rows lacked columns, a user's list would keep rows that the
-- user has lost.
CREATE FUNCTION clairon_internal.live_faults(relation regclass, name text)
    RETURNS TABLE (state text, fault text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH key AS MATERIALIZED (SELECT clairon_internal.live_key(relation) AS names),
    leaves AS MATERIALIZED (SELECT leaf FROM clairon_internal.doctor_leaves(relation) AS leaf),
    needed AS MATERIALIZED (
        SELECT clairon_internal.deciding_columns(relation, name) || ARRAY(
            SELECT attnum FROM pg_attribute, key
            WHERE attrelid = relation AND attname = ANY (names)) AS numbers)
    SELECT 'object_not_in_prerequisite_state',
           CASE WHEN is_deferrable THEN 'its primary key is deferrable'
                ELSE 'the table has neither a primary key nor a replica identity index' END,
           CASE WHEN is_deferrable THEN 'Use a key that is not deferrable.'
                ELSE format('Run ALTER TABLE %s ADD PRIMARY KEY (..)%s.', relation,
                            CASE identity WHEN 'i' THEN ', REPLICA IDENTITY FULL' END) END
    FROM (SELECT EXISTS (SELECT FROM pg_index WHERE indrelid = relation AND indisprimary
                         AND NOT indimmediate),
                 (SELECT relreplident FROM pg_class WHERE oid = relation)) AS kind (is_deferrable, identity)
    CROSS JOIN key
    WHERE names IS NULL
    UNION ALL
    SELECT 'object_not_in_prerequisite_state', 'a column of its targets or condition was dropped',
           'Set the rule again with clairon.watch().'
    FROM needed
    WHERE EXISTS (SELECT FROM pg_attribute
                  WHERE attrelid = relation AND attnum = ANY (numbers) AND attisdropped)
    UNION ALL
    SELECT 'invalid_parameter_value', 'parameter "operations" does not include ' ||
           (SELECT string_agg(operation, ', ' ORDER BY bit)
            FROM (VALUES ('create', 1), ('update', 2), ('delete', 4)) AS t (operation, bit)
            WHERE rule.operations & bit = 0),
           'A live rule must include create, update and delete.'
    FROM clairon.rule
    WHERE rule.relation = live_faults.relation AND rule.name = live_faults.name AND part = 0
      AND rule.operations & 7 <> 7
    UNION ALL
    SELECT 'invalid_parameter_value',
           format('parameter "columns" does not include "%s" of the key',
                  string_agg(attname, '", "' ORDER BY attnum)),
           'Add the columns of the key, or use NULL for all columns.'
    FROM clairon.rule
    CROSS JOIN key
    JOIN pg_attribute ON attrelid = rule.relation AND attnum > 0
        AND attname = ANY (names) AND attnum <> ALL (rule.columns)
    WHERE rule.relation = live_faults.relation AND rule.name = live_faults.name AND part = 0
    HAVING count(*) > 0
    UNION ALL
    SELECT 'object_not_in_prerequisite_state',
           format('child table %s has no unique index on "%s"', leaf,
                  array_to_string(names, '", "')),
           format('Run ALTER TABLE %s ADD PRIMARY KEY (..).', leaf)
    FROM leaves CROSS JOIN key
    WHERE names IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_index
        WHERE indrelid = leaf AND indisunique AND indimmediate AND indisvalid
          AND indpred IS NULL AND indexprs IS NULL
          AND ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = leaf
                    AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1]))
              <@ names)
    UNION ALL
    SELECT 'object_not_in_prerequisite_state',
           format('the WAL does not contain "%s" of the old rows of %s',
                  array_to_string(missing, '", "'), leaf),
           format('Run ALTER TABLE %s REPLICA IDENTITY FULL.', leaf)
    FROM leaves
    CROSS JOIN needed
    CROSS JOIN LATERAL clairon_internal.missing_in_old_row(relation, numbers, leaf) AS old (missing)
    WHERE missing IS NOT NULL
    UNION ALL
    SELECT 'object_not_in_prerequisite_state',
           format('the WAL does not contain changes of the unlogged table %s', leaf),
           format('Run ALTER TABLE %s SET LOGGED.', leaf)
    FROM leaves
    JOIN pg_class AS class ON class.oid = leaf
    WHERE relpersistence = 'u'
$$;

-- Returns the tables of a live rule without an index on the target column or, for a composite
-- audience, on any target column. Each clairon.live_rows then reads the whole table.
CREATE FUNCTION clairon_internal.live_unindexed(relation regclass, name text)
    RETURNS TABLE (leaf regclass, target text, is_array boolean)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT leaf, (array_agg(wanted.attname::text ORDER BY place))[1],
           (array_agg(typcategory = 'A' ORDER BY place))[1]
    FROM clairon.rule
    CROSS JOIN LATERAL clairon_internal.doctor_leaves(rule.relation) AS tree (leaf)
    CROSS JOIN LATERAL unnest(target_column || target_columns) WITH ORDINALITY AS t (number, place)
    JOIN pg_attribute AS wanted
        ON wanted.attrelid = rule.relation AND wanted.attnum = number AND NOT wanted.attisdropped
    JOIN pg_type ON pg_type.oid = wanted.atttypid
    JOIN pg_attribute AS held ON held.attrelid = leaf AND held.attname = wanted.attname
    WHERE rule.relation = live_unindexed.relation AND rule.name = live_unindexed.name AND part = 0
      AND number > 0
    GROUP BY leaf
    HAVING NOT bool_or(EXISTS (
        SELECT FROM pg_index
        JOIN pg_class AS index ON index.oid = indexrelid
        JOIN pg_am ON pg_am.oid = relam
        WHERE indrelid = leaf AND indkey[0] = held.attnum AND indcollation[0] = held.attcollation
          AND indisvalid AND indpred IS NULL
          AND amname = ANY (CASE typcategory WHEN 'A' THEN '{gin}'::name[]
                                 ELSE '{btree,hash}' END)))
$$;

-- Returns the tables of a live rule without an index that serves one target and an equality in its
-- filter_columns, with the columns of such an index. The index must begin with these columns, in any order. An
-- array of targets has a GIN index, which cannot contain other columns.
CREATE FUNCTION clairon_internal.live_unfiltered(relation regclass, name text)
    RETURNS TABLE (leaf regclass, columns text[])
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH first AS MATERIALIZED (
        SELECT array_remove(target_column || target_columns, NULL) AS targets, filter_columns AS filters
        FROM clairon.rule
        WHERE rule.relation = live_unfiltered.relation AND rule.name = live_unfiltered.name AND part = 0
          AND live AND filter_columns IS NOT NULL),
    used AS MATERIALIZED (
        SELECT ARRAY(SELECT attname::text
                     FROM unnest(targets) WITH ORDINALITY AS t (number, place)
                     JOIN pg_attribute ON attrelid = relation AND attnum = number AND NOT attisdropped
                     JOIN pg_type ON pg_type.oid = atttypid AND typcategory <> 'A'
                     ORDER BY place) AS targets,
               ARRAY(SELECT attname::text
                     FROM unnest(filters) WITH ORDINALITY AS t (number, place)
                     JOIN pg_attribute ON attrelid = relation AND attnum = number AND NOT attisdropped
                     WHERE number <> ALL (targets) ORDER BY place) AS filters,
               targets <> '{}' AND 0 < ANY (targets) AS has_targets
        FROM first)
    SELECT leaf, targets || filters
    FROM used
    CROSS JOIN LATERAL clairon_internal.doctor_leaves(relation) AS tree (leaf)
    WHERE filters <> '{}' AND has_targets = (targets <> '{}') AND NOT EXISTS (
        SELECT FROM pg_index
        JOIN pg_class AS index ON index.oid = indexrelid
        JOIN pg_am ON pg_am.oid = relam AND amname = 'btree'
        CROSS JOIN LATERAL (
            SELECT attname, bool_and(coalesce(attname = ANY (targets || filters), false)) OVER (ORDER BY place) AS is_used
            FROM unnest(indkey::int2[]) WITH ORDINALITY AS part (number, place)
            LEFT JOIN pg_attribute ON attrelid = leaf AND attnum = number
            WHERE place <= indnkeyatts) AS prefix
        WHERE indrelid = leaf AND indisvalid AND indpred IS NULL AND is_used
        GROUP BY indexrelid
        HAVING bool_or(attname = ANY (filters)) AND (NOT has_targets OR bool_or(attname = ANY (targets))))
$$;

-- Returns the partitions and child tables with another owner. Rows are read as the owner of the
-- rule's table, and index and constraint expressions of other owners must not run as that role.
CREATE FUNCTION clairon_internal.live_foreign_leaves(relation regclass)
    RETURNS TABLE (fault text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE below (relid) AS (
        SELECT relation UNION
        SELECT inhrelid::regclass FROM below JOIN pg_inherits ON inhparent = relid)
    SELECT format('partition or child table %s belongs to %s instead of %s', relid,
                  leaf.relowner::regrole, root.relowner::regrole),
           format('Run ALTER TABLE %s OWNER TO %s.', relid, root.relowner::regrole)
    FROM below
    JOIN pg_class AS leaf ON leaf.oid = relid
    JOIN pg_class AS root ON root.oid = relation
    WHERE leaf.relowner <> root.relowner
    ORDER BY relid::text COLLATE "C"
$$;

CREATE FUNCTION clairon_internal.check_live(relation regclass, name text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first record;
BEGIN
    SELECT * INTO first
    FROM (SELECT * FROM clairon_internal.live_faults(relation, name)
          UNION ALL SELECT 'object_not_in_prerequisite_state', fault, leaf.hint
                    FROM clairon_internal.live_foreign_leaves(relation) AS leaf) AS faults
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'rule "%" on % cannot be live: %', name, relation, first.fault
            USING ERRCODE = first.state, HINT = first.hint;
    END IF;
END $$;
