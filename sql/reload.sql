/* reload: commands that change the rows of live rules without notifications. */

-- Each INSERT becomes a reload frame. The row is deleted in the same transaction, so the table is
-- empty. A logical message would need a signature, because any user can write one; an UPDATE of
-- clairon.rule would block concurrent DDL.
CREATE TABLE clairon.reload (source text NOT NULL, rule text NOT NULL);

-- The given tables, and all tables above and below them, now and before this transaction.
CREATE FUNCTION clairon.related_tables(tables oid[]) RETURNS oid[]
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_related_tables';

-- The metadata.source of the relation, and its value before this transaction if it was different.
CREATE FUNCTION clairon.sources_of(relation oid) RETURNS text[]
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_sources_of';

-- Deletes only its own rows, by ctid: a scan would also read deleted rows of other transactions.
CREATE FUNCTION clairon.reload_list(relation oid, name text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    added tid[];
BEGIN
    WITH new AS (INSERT INTO clairon.reload (source, rule)
                     SELECT source, name FROM unnest(clairon.sources_of(relation)) AS source
                     RETURNING ctid)
    SELECT array_agg(ctid) INTO added FROM new;
    DELETE FROM clairon.reload WHERE ctid = ANY (added);
END $$;

-- Tables with a column that contains one of these types. In pg_depend, the row type of a table
-- depends on the table.
CREATE FUNCTION clairon.tables_with_type(types oid[]) RETURNS oid[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE used (class, object) AS (
        SELECT 'pg_type'::regclass::oid, type FROM unnest(types) AS type
        UNION
        SELECT next.class, next.object FROM used CROSS JOIN LATERAL (
            SELECT classid, objid FROM pg_depend
            WHERE refclassid = used.class AND refobjid = used.object
              AND classid IN ('pg_type'::regclass, 'pg_class'::regclass)
            UNION ALL
            SELECT 'pg_type'::regclass, reltype FROM pg_class
            WHERE used.class = 'pg_class'::regclass AND pg_class.oid = used.object AND reltype <> 0
        ) AS next (class, object))
    SELECT coalesce(array_agg(object), '{}') FROM used WHERE class = 'pg_class'::regclass
$$;

-- Called by event triggers, so an error must not fail the user's command. A rule applies to
-- partitions and child tables of its table, and a command on the table may also change them: so the
-- rules of all related tables count, and no others.
CREATE FUNCTION clairon.reload_lists(related oid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    added tid[];
BEGIN
    WITH new AS (INSERT INTO clairon.reload (source, rule)
                     SELECT DISTINCT source, name
                     FROM (SELECT relation, array_agg(name) AS names FROM clairon.rule
                           WHERE relation = ANY (related) AND live AND part = 0
                           GROUP BY relation) AS watched,
                          unnest(clairon.sources_of(relation)) AS source, unnest(names) AS name
                     ORDER BY source, name
                     RETURNING ctid)
    SELECT array_agg(ctid) INTO added FROM new;
    DELETE FROM clairon.reload WHERE ctid = ANY (added);
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'could not reload the lists of live rules: %', SQLERRM
        USING DETAIL = 'Clients may show old rows of the table until they reconnect.';
END $$;
