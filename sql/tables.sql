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

-- The decoder reads this table as of any WAL position: a user catalog table, read by heap scan,
-- without TOAST (old chunks are not retained), never truncated. decoder/rules/rules.h has the same
-- column order; the numbers are the enums of decoder/protocol/frame.h. A long target_list or
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
    column_names  text[],
    PRIMARY KEY (relation, name, part),
    CHECK ((audience = 'ALL') = (target_column IS NULL AND target_list IS NULL
                                 AND target_columns IS NULL)),
    CHECK (target_column IS NULL OR target_list IS NULL)
) WITH (user_catalog_table = true);
ALTER TABLE clairon.rule
    ALTER name SET STORAGE PLAIN, ALTER audience SET STORAGE PLAIN,
    ALTER target_list SET STORAGE PLAIN, ALTER columns SET STORAGE PLAIN,
    ALTER emitter SET STORAGE PLAIN, ALTER topic SET STORAGE PLAIN,
    ALTER only_when SET STORAGE PLAIN, ALTER column_origins SET STORAGE PLAIN,
    ALTER target_columns SET STORAGE PLAIN, ALTER column_numbers SET STORAGE PLAIN, ALTER column_names SET STORAGE PLAIN;

CREATE FUNCTION clairon.rule_written() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'clairon_rule_written';
CREATE TRIGGER rule_written AFTER INSERT OR UPDATE OR DELETE ON clairon.rule
    FOR EACH ROW EXECUTE FUNCTION clairon.rule_written();
ALTER TABLE clairon.rule ENABLE ALWAYS TRIGGER rule_written;

CREATE FUNCTION clairon.reject_truncate() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'cannot truncate table "%"', TG_RELID::regclass
        USING ERRCODE = 'feature_not_supported', HINT = 'Use DELETE.';
END $$;
CREATE TRIGGER reject_truncate BEFORE TRUNCATE ON clairon.rule
    FOR EACH STATEMENT EXECUTE FUNCTION clairon.reject_truncate();
ALTER TABLE clairon.rule ENABLE ALWAYS TRIGGER reject_truncate;

-- A rule is deleted with its table: the OID of a dropped table may be reused. See update_renamed for
-- the settings.
CREATE FUNCTION clairon.delete_dropped() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    tables oid[];
    with_columns oid[];
BEGIN
    SELECT array_agg(DISTINCT objid) FILTER (WHERE objsubid = 0),
           array_agg(DISTINCT objid) FILTER (WHERE objsubid > 0)
    INTO tables, with_columns
    FROM pg_event_trigger_dropped_objects()
    WHERE classid = 'pg_class'::regclass AND NOT is_temporary
      AND object_type IN ('table', 'foreign table', 'table column', 'foreign table column');
    tables := coalesce(tables, '{}');
    with_columns := coalesce(with_columns, '{}');
    -- For columns dropped by ALTER TABLE, the other event trigger sends the reload.
    PERFORM clairon.reload_lists(clairon.related_tables(
        CASE TG_TAG WHEN 'ALTER TABLE' THEN tables ELSE tables || with_columns END));
    DELETE FROM clairon.rule WHERE relation = ANY (tables);
    PERFORM clairon.update_column_names(clairon.related_tables(with_columns));
END $$;
CREATE EVENT TRIGGER clairon_delete_dropped ON sql_drop
    EXECUTE FUNCTION clairon.delete_dropped();
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
    FOR EACH STATEMENT EXECUTE FUNCTION clairon.reject_truncate();
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
