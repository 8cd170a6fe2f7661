/* reload: commands that change the rows of live rules without notifications. */

-- Each INSERT becomes a reload frame. The row is deleted in the same transaction, so the table is
-- empty. A logical message would need a signature, because any user can write one; an UPDATE of
-- clairon.rule would block concurrent DDL. Without a replica identity, PostgreSQL rejects the DELETE in
-- a database with a publication FOR ALL TABLES.
CREATE TABLE clairon.reload (source text NOT NULL, rule text NOT NULL);
ALTER TABLE clairon.reload REPLICA IDENTITY FULL;

-- The given tables, and all tables above and below them, now and before this transaction.
CREATE FUNCTION clairon_internal.related_tables(tables oid[]) RETURNS oid[]
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_related_tables';

-- The metadata.source of the relation, and its value before this transaction if it was different.
CREATE FUNCTION clairon_internal.sources_of(relation oid) RETURNS text[]
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_sources_of';

-- Deletes only its own rows, by ctid: a scan would also read deleted rows of other transactions.
CREATE FUNCTION clairon_internal.reload_list(relation oid, name text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    added tid[];
BEGIN
    WITH new AS (INSERT INTO clairon.reload (source, rule)
                     SELECT source, name FROM unnest(clairon_internal.sources_of(relation)) AS source
                     RETURNING ctid)
    SELECT array_agg(ctid) INTO added FROM new;
    DELETE FROM clairon.reload WHERE ctid = ANY (added);
END $$;

-- The tables with a column that contains one of these types, and the tables above them. If the types'
-- owner does not own them, their number is limited.
CREATE FUNCTION clairon_internal.tables_with_type(types oid[]) RETURNS oid[]
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_tables_with_type';

-- Called by event triggers, so an error must not fail the user's command. A rule applies to
-- partitions and child tables of its table, and a command on the table may also change them: so the
-- rules of all related tables count, and no others.
CREATE FUNCTION clairon_internal.reload_lists(related oid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    added tid[];
BEGIN
    WITH new AS (INSERT INTO clairon.reload (source, rule)
                     SELECT DISTINCT source, name
                     FROM (SELECT relation, array_agg(name) AS names FROM clairon.rule
                           WHERE relation = ANY (related) AND live AND part = 0
                           GROUP BY relation) AS watched,
                          unnest(clairon_internal.sources_of(relation)) AS source, unnest(names) AS name
                     ORDER BY source, name
                     RETURNING ctid)
    SELECT array_agg(ctid) INTO added FROM new;
    DELETE FROM clairon.reload WHERE ctid = ANY (added);
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'could not reload the lists of live rules: %', SQLERRM
        USING DETAIL = 'Clients may show old rows of the table until they reconnect.';
END $$;
