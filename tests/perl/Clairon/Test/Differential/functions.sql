-- Functions of the differential test in its database.
CREATE EXTENSION dblink;
CREATE SCHEMA work;
CREATE SCHEMA "Odd ""schema""";

-- Returns the definition of one table for a WAL reader, in the format of test_decoding.
CREATE FUNCTION work.shape(r regclass) RETURNS jsonb LANGUAGE sql SET search_path = pg_catalog AS $$
    SELECT jsonb_build_object('oid', c.oid,
        'table', format('%I.%I', n.nspname, c.relname),
        'source', CASE WHEN n.nspname = 'public' THEN '' ELSE n.nspname || '.' END || c.relname,
        'identity', c.relreplident,
        'columns', (SELECT coalesce(jsonb_agg(quote_ident(attname) ORDER BY attnum), '[]') FROM pg_attribute
                    WHERE attrelid = r AND attnum > 0 AND NOT attisdropped),
        'key', (SELECT coalesce(jsonb_agg(quote_ident(a.attname)), '[]')
                FROM pg_index i JOIN pg_attribute a ON a.attrelid = r AND a.attnum = ANY (i.indkey)
                WHERE i.indrelid = r AND i.indimmediate
                  AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END),
        'rules', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                      'name', w.name, 'source', CASE WHEN wn.nspname = 'public' THEN '' ELSE wn.nspname || '.' END || wc.relname,
                      'table', format('%I.%I', wn.nspname, wc.relname),
                      'emitter', w.emitter, 'audience', w.audience, 'operations', w.operations, 'has_columns', w.columns IS NOT NULL,
                      'target', (SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = wc.oid AND attnum = w.target_column AND NOT attisdropped),
                      'condition', (SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = wc.oid AND NOT attisdropped
                                      AND attnum = substring(w.only_when from '\$(\d+)')::int),
                      'columns', (SELECT coalesce(jsonb_agg(quote_ident(attname) ORDER BY attnum), '[]') FROM pg_attribute
                                  WHERE attrelid = wc.oid AND attnum > 0 AND NOT attisdropped
                                    AND (w.columns IS NULL OR attnum = ANY (w.columns)))) ORDER BY w.name COLLATE "C", wc.oid), '[]')
                  FROM clairon.rule w JOIN pg_class wc ON wc.oid = w.relation
                      JOIN pg_namespace wn ON wn.oid = wc.relnamespace
                  WHERE w.relation = r OR w.relation IN (SELECT relid FROM pg_partition_ancestors(r))))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = r
$$;
CREATE PROCEDURE work.log_shape(r regclass) LANGUAGE sql AS $$
    SELECT pg_logical_emit_message(true, 'table', work.shape(relid)::text)
    FROM (SELECT relid FROM pg_partition_tree(r) UNION SELECT r) AS tree
$$;
CREATE PROCEDURE work.log_row_type(r regclass) LANGUAGE sql AS $$
    SELECT pg_logical_emit_message(true, 'row', jsonb_build_object('type', 'public.' || relname,
        'attributes', (SELECT jsonb_agg(jsonb_build_array(attname, format_type(atttypid, NULL)) ORDER BY attnum)
                       FROM pg_attribute WHERE attrelid = r AND attnum > 0 AND NOT attisdropped))::text)
    FROM pg_class WHERE oid = r
$$;
CREATE PROCEDURE work.watch(r regclass) LANGUAGE sql AS $$
    SELECT clairon.watch(r, 'ALL', name => 'all', operations => '{create,update,delete,truncate}', emitter => 'rule')
$$;
CREATE PROCEDURE work.unwatch(r regclass) LANGUAGE sql AS $$ SELECT clairon.unwatch(r, 'all') $$;
-- The emitter identifies the condition, so that a reader does not have to parse the expression.
CREATE PROCEDURE work.watch_target(r regclass, target text, n text, kind text, operations text[], columns text[])
    LANGUAGE sql AS $$
    SELECT clairon.watch(r, 'USER', target, name => 'who', emitter => kind, operations => operations, columns => columns,
        only_when => CASE kind WHEN 'positive' THEN format('%I > 0', n)
                               WHEN 'small' THEN format('%I IS NOT NULL AND %1$I < 2', n) END)
$$;

-- Returns every value of every table, in the format of row_to_json.
CREATE FUNCTION work.contents() RETURNS TABLE (relation text, id text, name text, type text, value text)
    LANGUAGE plpgsql AS $$
DECLARE
    one oid;
BEGIN
    FOR one IN SELECT oid FROM pg_class WHERE relkind = 'r'
        AND relnamespace IN ('public'::regnamespace, '"Odd ""schema"""'::regnamespace) LOOP
        RETURN QUERY EXECUTE format(
            'SELECT %L, t.id::text, j.key, format_type(a.atttypid, NULL), j.value::text
             FROM %s AS t, json_each(row_to_json(t)) AS j, pg_attribute AS a
             WHERE a.attrelid = %1$L AND a.attname = j.key', one, one::regclass);
    END LOOP;
END $$;
