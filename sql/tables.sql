/* The tables behind the functions. */
\echo Use "CREATE EXTENSION clairon" to load this file. \quit

-- Privileged functions could call objects that other users create in the schema. A dump may be
-- restored by a superuser other than its owner, so any superuser may own the schema.
DO $$
DECLARE
    schema pg_catalog.pg_namespace;
BEGIN
    SELECT * INTO schema FROM pg_catalog.pg_namespace WHERE nspname = 'clairon';
    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE oid = schema.nspowner)
       OR EXISTS (SELECT FROM pg_catalog.aclexplode(schema.nspacl)
                  WHERE privilege_type = 'CREATE' AND grantee <> schema.nspowner)
       OR EXISTS (SELECT FROM pg_catalog.pg_proc WHERE pronamespace = schema.oid)
       OR EXISTS (SELECT FROM pg_catalog.pg_class WHERE relnamespace = schema.oid)
       OR EXISTS (SELECT FROM pg_catalog.pg_type WHERE typnamespace = schema.oid)
       OR EXISTS (SELECT FROM pg_catalog.pg_operator WHERE oprnamespace = schema.oid) THEN
        RAISE EXCEPTION 'schema "clairon" already exists and is not empty, or is not reserved for superusers'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Drop or rename the schema; CREATE EXTENSION creates it again.';
    END IF;
END $$;

-- The internal functions, so that \df clairon.* lists only the public ones.
CREATE SCHEMA clairon_internal;
-- ALTER DEFAULT PRIVILEGES may have granted CREATE.
DO $$
DECLARE
    creator oid;
BEGIN
    FOR creator IN SELECT grantee FROM pg_catalog.pg_namespace, pg_catalog.aclexplode(nspacl)
                   WHERE nspname = 'clairon_internal' AND privilege_type = 'CREATE' AND grantee <> nspowner LOOP
        EXECUTE pg_catalog.format('REVOKE CREATE ON SCHEMA clairon_internal FROM %s',
                                  CASE creator WHEN 0 THEN 'PUBLIC' ELSE creator::pg_catalog.regrole::text END);
    END LOOP;
END $$;

-- The decoder reads this table as of any WAL position: a user catalog table, read by heap scan,
-- without TOAST (old chunks are not retained), never truncated. decoder/rules/rules.h has the same
-- column order; the numbers are the enums of decoder/protocol/frame_format.h. A long target_list or
-- only_when continues in additional rows, numbered by part. Origins, numbers and names of columns
-- are needed after a restore: see columns.sql.
CREATE TABLE clairon.rule (
    relation      regclass NOT NULL,
    name          text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
    audience      text NOT NULL
                  CHECK (audience ~ '^[A-Za-z_][A-Za-z0-9_]{0,62}([+][A-Za-z_][A-Za-z0-9_]{0,62}){0,3}$'),
    target_column int2 CHECK (target_column > 0),
    target_list   text[],
    type          int2 NOT NULL CHECK (type BETWEEN 0 AND 2),
    priority      int2 NOT NULL CHECK (priority BETWEEN 0 AND 2),
    operations    int2 NOT NULL CHECK (operations BETWEEN 1 AND 15),
    columns       int2[] CHECK (array_ndims(columns) = 1 AND array_position(columns, NULL) IS NULL),
    emitter       text NOT NULL CHECK (octet_length(emitter) BETWEEN 1 AND 255),
    topic         text CHECK (octet_length(topic) BETWEEN 1 AND 1024),
    ttl           interval CHECK (ttl > interval '0' AND ttl <= interval '100 years'),
    ack_required  boolean NOT NULL,
    retry_limit   int2 NOT NULL CHECK (retry_limit >= 0),
    backoff       int2 NOT NULL CHECK (backoff BETWEEN 0 AND 2),
    only_when     text, -- an only_when with $n for a column
    part          int2 NOT NULL DEFAULT 0 CHECK (part >= 0),
    column_origins int2[], -- the n of each column in only_when
    column_numbers int2[],
    ack_timeout   int8 CHECK (ack_timeout BETWEEN 1 AND 2592000000), -- in ms
    emitter_column int2 CHECK (emitter_column > 0),
    target_columns int2[], -- of a composite audience; 0: the next value of target_list
    live          boolean NOT NULL DEFAULT false, -- users may read its rows
    receipts      int2 NOT NULL DEFAULT 0 CHECK (receipts BETWEEN 0 AND 2),
    escalations   int8[] -- in ms after the commit
                  CHECK (array_ndims(escalations) = 1 AND cardinality(escalations) <= 2
                         AND array_position(escalations, NULL) IS NULL
                         AND 1 <= ALL (escalations) AND 2592000000 >= ALL (escalations)),
    web_push      text[], -- the literals of its members (web_push_members); '': none
    web_push_columns int2[], -- the columns of its members; 0: none
    filter_columns int2[] -- that lists of a live rule may name in filters and orders
                  CHECK (array_ndims(filter_columns) = 1 AND array_position(filter_columns, NULL) IS NULL),
    column_names  text[],
    used_names    text[], -- in only_when: see renames.sql. NULL in part 0 if they are unknown
    PRIMARY KEY (relation, name, part),
    CHECK ((audience = 'ALL') = (target_column IS NULL AND target_list IS NULL
                                 AND target_columns IS NULL)),
    CHECK (target_column IS NULL OR target_list IS NULL),
    CHECK (ack_required OR receipts = 0 AND escalations IS NULL),
    CHECK (web_push IS NULL OR cardinality(web_push) = 9 AND array_position(web_push, NULL) IS NULL
                               AND cardinality(web_push_columns) = 9
                               AND array_position(web_push_columns, NULL) IS NULL)
) WITH (user_catalog_table = true);
ALTER TABLE clairon.rule
    ALTER name SET STORAGE PLAIN, ALTER audience SET STORAGE PLAIN,
    ALTER target_list SET STORAGE PLAIN, ALTER columns SET STORAGE PLAIN,
    ALTER emitter SET STORAGE PLAIN, ALTER topic SET STORAGE PLAIN,
    ALTER only_when SET STORAGE PLAIN, ALTER column_origins SET STORAGE PLAIN,
    ALTER target_columns SET STORAGE PLAIN, ALTER column_numbers SET STORAGE PLAIN,
    ALTER escalations SET STORAGE PLAIN, ALTER web_push SET STORAGE PLAIN,
    ALTER web_push_columns SET STORAGE PLAIN, ALTER filter_columns SET STORAGE PLAIN,
    ALTER column_names SET STORAGE PLAIN, ALTER used_names SET STORAGE PLAIN;
CREATE INDEX rule_used_names ON clairon.rule USING gin (used_names) WITH (fastupdate = off);

CREATE FUNCTION clairon_internal.rule_written() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'clairon_rule_written';
CREATE TRIGGER rule_written AFTER INSERT OR UPDATE OR DELETE ON clairon.rule
    FOR EACH ROW EXECUTE FUNCTION clairon_internal.rule_written();
ALTER TABLE clairon.rule ENABLE ALWAYS TRIGGER rule_written;

CREATE FUNCTION clairon_internal.reject_truncate() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'cannot truncate table "%"', TG_RELID::regclass
        USING ERRCODE = 'feature_not_supported', HINT = 'Use DELETE.';
END $$;
CREATE TRIGGER reject_truncate BEFORE TRUNCATE ON clairon.rule
    FOR EACH STATEMENT EXECUTE FUNCTION clairon_internal.reject_truncate();
ALTER TABLE clairon.rule ENABLE ALWAYS TRIGGER reject_truncate;

-- A copy of the table may take its name, without the rules. Does not fail the user's command, which may repair
-- clairon.rule.
CREATE FUNCTION clairon_internal.report_removed(tables oid[], identities text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    removed record;
BEGIN
    FOR removed IN
        SELECT identities[array_position(tables, relation::oid)] AS identity,
               clairon_internal.shorten(string_agg(format('"%s"', name), ', ' ORDER BY name)) AS names,
               row_number() OVER (ORDER BY relation) AS place, count(*) OVER () - 10 AS more
        FROM clairon.rule WHERE relation = ANY (tables) AND part = 0
        GROUP BY relation ORDER BY place LIMIT 11
    LOOP
        IF removed.place > 10 THEN
            RAISE NOTICE 'clairon rules of % more tables were removed', removed.more;
        ELSE
            RAISE NOTICE 'clairon rules of % were removed: %', removed.identity, removed.names
                USING HINT = 'If another table replaces it, set its rules with clairon.watch().';
        END IF;
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'could not list the removed rules: %', SQLERRM;
END $$;

-- Rules without a column that they read send nothing, and their lists fail. Of conditions, checks at most 100: the
-- command waits.
CREATE FUNCTION clairon_internal.report_denying(tables oid[], numbers int[]) RETURNS void
    LANGUAGE plpgsql STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    denying record;
BEGIN
    FOR denying IN
        WITH rules AS MATERIALIZED (
            SELECT relation, name, target_column || target_columns || emitter_column AS columns,
                   only_when IS NOT NULL AS has_condition
            FROM clairon.rule WHERE relation = ANY (tables) AND part = 0),
        dropped AS MATERIALIZED (
            SELECT relation, name, columns, has_condition, number
            FROM rules JOIN unnest(tables, numbers) AS dropped (relid, number) ON relation = relid),
        conditions AS MATERIALIZED (
            SELECT relation, name, number FROM dropped WHERE has_condition ORDER BY relation, name LIMIT 100)
        SELECT relation, clairon_internal.shorten(string_agg(format('"%s"', name), ', ' ORDER BY name)) AS names
        FROM (SELECT relation, name FROM dropped WHERE number = ANY (columns)
              UNION SELECT relation, name FROM conditions
              WHERE number = ANY (clairon_internal.deciding_columns(relation, name))) AS found
        GROUP BY relation ORDER BY relation LIMIT 10
    LOOP
        RAISE WARNING 'clairon rules of % deny all rows: %', denying.relation, denying.names
            USING DETAIL = 'A column of their targets, condition or emitter was dropped.',
                  HINT = 'Set them again with clairon.watch(), or remove them with clairon.unwatch().';
    END LOOP;
    FOR denying IN
        SELECT relation, clairon_internal.shorten(string_agg(DISTINCT format('"%s"', name), ', ')) AS names
        FROM clairon.rule JOIN unnest(tables, numbers) AS dropped (relid, number) ON relation = relid
        WHERE relation = ANY (tables) AND part = 0 AND number = ANY (filter_columns)
        GROUP BY relation ORDER BY relation LIMIT 10
    LOOP
        RAISE WARNING 'clairon rules of % lose a filter column: %', denying.relation, denying.names
            USING DETAIL = 'Lists that name it in a condition or an order become empty, with error 103.',
                  HINT = 'Deploy pages that do not name the column.';
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'could not list the rules that deny all rows: %', SQLERRM;
END $$;

-- The tables of these dropped indexes, if they were unique.
CREATE FUNCTION clairon_internal.tables_of_keys(indexes oid[]) RETURNS oid[]
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_tables_of_keys';

-- Lists of a live rule fail without the key of its table. Checks at most 100 rules: the command waits.
CREATE FUNCTION clairon_internal.report_without_key(tables oid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    related constant oid[] := clairon_internal.related_tables(tables);
    broken record;
BEGIN
    FOR broken IN
        WITH rules AS MATERIALIZED (
            SELECT relation, name FROM clairon.rule
            WHERE relation = ANY (related) AND live AND part = 0
            ORDER BY relation, name LIMIT 100)
        SELECT relation, clairon_internal.shorten(string_agg(format('"%s"', name), ', ' ORDER BY name)) AS names,
               min(first.fault) AS fault, min(first.hint) AS hint
        FROM rules CROSS JOIN LATERAL (SELECT fault, hint FROM clairon_internal.live_faults(relation, name) LIMIT 1) AS first
        GROUP BY relation ORDER BY relation LIMIT 10
    LOOP
        RAISE WARNING 'lists of clairon rules of % fail or become stale: %', broken.relation, broken.names
            USING DETAIL = upper(left(broken.fault, 1)) || substr(broken.fault, 2) || '.', HINT = broken.hint;
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'could not check the live rules of a dropped key: %', SQLERRM;
END $$;

-- `names`: of dropped objects; another object may have that name. The command of any user waits, so at most 50 conditions are parsed, and none of more than 3 kB: those have several parts.
CREATE FUNCTION clairon_internal.report_invalid(names text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    denying text;
BEGIN
    IF names = '{}' THEN
        RETURN;
    END IF;
    -- With `part` in the first query, the planner would read the primary key instead of the index of the names.
    WITH found AS MATERIALIZED (SELECT relation, name, part FROM clairon.rule WHERE used_names && names),
    used AS MATERIALIZED (SELECT relation, name FROM found WHERE part = 0)
    SELECT clairon_internal.shorten(string_agg(format('"%s" on %s', name, relation), ', ' ORDER BY relation, name))
    INTO denying
    FROM (SELECT * FROM used LIMIT 50) AS first
    WHERE clairon_internal.show_condition(relation, name) LIKE '%(denies: %)';
    IF denying IS NOT NULL THEN
        RAISE WARNING 'clairon rules use the dropped object in only_when, and now deny all rows: %', denying
            USING HINT = 'Set the rules again with clairon.watch().';
    END IF;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'could not check the conditions of rules: %', SQLERRM
        USING HINT = 'clairon.doctor() reports invalid conditions.';
END $$;

-- A rule is deleted with its table: the OID of a dropped table may be reused. See update_renamed for
-- the settings.
CREATE FUNCTION clairon_internal.delete_dropped() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    tables oid[];
    identities text[];
    with_columns oid[];
    column_tables oid[];
    column_numbers int[];
BEGIN
    SELECT array_agg(objid ORDER BY objid) FILTER (WHERE objsubid = 0),
           array_agg(object_identity ORDER BY objid) FILTER (WHERE objsubid = 0),
           array_agg(DISTINCT objid) FILTER (WHERE objsubid > 0),
           array_agg(objid ORDER BY objid, objsubid) FILTER (WHERE objsubid > 0),
           array_agg(objsubid ORDER BY objid, objsubid) FILTER (WHERE objsubid > 0)
    INTO tables, identities, with_columns, column_tables, column_numbers
    FROM pg_event_trigger_dropped_objects()
    WHERE classid = 'pg_class'::regclass AND NOT is_temporary
      AND object_type IN ('table', 'foreign table', 'table column', 'foreign table column');
    tables := coalesce(tables, '{}');
    with_columns := coalesce(with_columns, '{}');
    -- For columns dropped by ALTER TABLE, the other event trigger sends the reload.
    PERFORM clairon_internal.reload_lists(clairon_internal.related_tables(
        CASE TG_TAG WHEN 'ALTER TABLE' THEN tables ELSE tables || with_columns END));
    PERFORM clairon_internal.report_removed(tables, identities);
    DELETE FROM clairon.rule WHERE relation = ANY (tables);
    PERFORM clairon_internal.update_column_names(clairon_internal.related_tables(with_columns));
    PERFORM clairon_internal.report_denying(column_tables, column_numbers);
    PERFORM clairon_internal.report_without_key(clairon_internal.tables_of_keys(
        ARRAY(SELECT objid FROM pg_event_trigger_dropped_objects()
              WHERE object_type = 'index' AND NOT is_temporary)));
    PERFORM clairon_internal.report_invalid(
        ARRAY(SELECT coalesce(object_name, address_names[2]) FROM pg_event_trigger_dropped_objects()
              WHERE object_type IN ('type', 'function', 'operator', 'collation') AND NOT is_temporary));
END $$;
CREATE EVENT TRIGGER clairon_delete_dropped ON sql_drop
    EXECUTE FUNCTION clairon_internal.delete_dropped();
ALTER EVENT TRIGGER clairon_delete_dropped ENABLE ALWAYS;

-- The key that signs messages of clairon.notify. Only C code reads it. A dump excludes it, so that
-- each database has a different key.
CREATE TABLE clairon.secret (secret bytea NOT NULL CHECK (octet_length(secret) = 32))
    WITH (user_catalog_table = true);
ALTER TABLE clairon.secret ALTER secret SET STORAGE PLAIN;
INSERT INTO clairon.secret
    SELECT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');
REVOKE ALL ON clairon.secret FROM PUBLIC;
-- Row-level security without a policy also excludes pg_read_all_data and pg_write_all_data. C code
-- bypasses it.
ALTER TABLE clairon.secret ENABLE ROW LEVEL SECURITY;

CREATE TABLE clairon.member (
    audience text NOT NULL CHECK (audience ~ '^[A-Za-z_][A-Za-z0-9_]{0,62}$'
                                  AND upper(audience) NOT IN ('USER', 'ALL')),
    target   text NOT NULL CHECK (octet_length(target) BETWEEN 1 AND 255),
    user_id  text NOT NULL CHECK (octet_length(user_id) BETWEEN 1 AND 255),
    PRIMARY KEY (audience, target, user_id)
);
-- clairon.rows uses this index to find the groups of a user.
CREATE INDEX member_user ON clairon.member (user_id, audience);
CREATE TRIGGER reject_truncate BEFORE TRUNCATE ON clairon.member
    FOR EACH STATEMENT EXECUTE FUNCTION clairon_internal.reject_truncate();
ALTER TABLE clairon.member ENABLE ALWAYS TRIGGER reject_truncate;

CREATE TABLE clairon.once_key (
    entity     text NOT NULL,
    key        text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (entity, key)
);
CREATE TABLE clairon.notify_key (
    key        text PRIMARY KEY,
    id         uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON clairon.once_key (created_at);
CREATE INDEX ON clairon.notify_key (created_at);

SELECT pg_extension_config_dump('clairon.rule', '');
SELECT pg_extension_config_dump('clairon.member', '');
SELECT pg_extension_config_dump('clairon.once_key', '');
SELECT pg_extension_config_dump('clairon.notify_key', '');
