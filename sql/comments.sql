/* What \d+ and \df+ show of the extension: the public functions, views and columns. */

COMMENT ON SCHEMA clairon IS 'notifications of table changes and of applications, see sql/README.md of clairon';
COMMENT ON FUNCTION clairon.watch IS
    'sets a rule: which changes of a table become notifications, and for whom; replaces the rule of that name';
COMMENT ON FUNCTION clairon.unwatch IS 'removes a rule of a table, or all of them; returns how many';
COMMENT ON FUNCTION clairon.notify IS
    'sends a notification if the transaction commits; returns its id, or that of the first with the same idempotency_key';
COMMENT ON FUNCTION clairon.once IS
    'inserts a key within the transaction: true the first time, false when it was used before';
COMMENT ON FUNCTION clairon.prune IS 'deletes the keys of once and notify that are older than this; returns how many';
COMMENT ON FUNCTION clairon.doctor IS
    'checks what notifications need: ok is false for a fault; a hint beside ok is a warning';
COMMENT ON FUNCTION clairon.version IS 'version of the library that this server loads';

COMMENT ON VIEW clairon.rules IS
    'rules of clairon.watch: of the user''s own tables, or all of them for members of clairon_relay';
COMMENT ON COLUMN clairon.rules.relation IS 'table that the rule is on';
COMMENT ON COLUMN clairon.rules.name IS 'name of the rule, unique for the table';
COMMENT ON COLUMN clairon.rules.audience IS 'USER, ALL, or a group kind of clairon.member and tokens, or several joined by +';
COMMENT ON COLUMN clairon.rules.targets IS 'column with the targets, or several joined by +, or a list that begins with =; null for ALL';
COMMENT ON COLUMN clairon.rules.type IS 'REALTIME, NOTIFICATION or SYSTEM';
COMMENT ON COLUMN clairon.rules.priority IS 'HIGH, NORMAL or LOW';
COMMENT ON COLUMN clairon.rules.operations IS 'operations that are sent: create, update, delete, truncate';
COMMENT ON COLUMN clairon.rules.columns IS 'columns in the payload; null for all of them';
COMMENT ON COLUMN clairon.rules.only_when IS 'condition on the row, and why it denies if it cannot be evaluated';
COMMENT ON COLUMN clairon.rules.emitter IS 'metadata.emitter of the notifications, or : and the column that holds it';
COMMENT ON COLUMN clairon.rules.topic IS 'metadata.topic of the notifications; null for prefix and table';
COMMENT ON COLUMN clairon.rules.ttl IS 'time after the commit in which they may be delivered; null for no limit';
COMMENT ON COLUMN clairon.rules.ack_required IS 'whether each receiver has to acknowledge them';
COMMENT ON COLUMN clairon.rules.retry_limit IS 'maximum retries for receivers that do not acknowledge; 0 for none';
COMMENT ON COLUMN clairon.rules.backoff IS 'how the time between retries grows: EXPONENTIAL, LINEAR or FIXED';
COMMENT ON COLUMN clairon.rules.ack_timeout IS 'time allowed for an acknowledgement; null for the setting of the relay';

COMMENT ON VIEW clairon.status IS 'replication slots that use the plugin clairon';
COMMENT ON COLUMN clairon.status.slot_name IS 'name of the slot';
COMMENT ON COLUMN clairon.status.active IS 'whether a client reads the slot';
COMMENT ON COLUMN clairon.status.active_pid IS 'process id of its walsender';
COMMENT ON COLUMN clairon.status.database IS 'database of the slot';
COMMENT ON COLUMN clairon.status.wal_status IS 'as in pg_replication_slots';
COMMENT ON COLUMN clairon.status.restart_lsn IS 'LSN of the oldest WAL that the slot retains';
COMMENT ON COLUMN clairon.status.confirmed_flush_lsn IS 'LSN up to which the client has confirmed';
COMMENT ON COLUMN clairon.status.retained_wal_bytes IS 'bytes of WAL that the slot retains';
COMMENT ON COLUMN clairon.status.lag_bytes IS 'bytes of WAL that the client has not confirmed';
COMMENT ON COLUMN clairon.status.safe_wal_size IS 'as in pg_replication_slots';
COMMENT ON COLUMN clairon.status.sender_state IS 'state of its walsender, as in pg_stat_replication';
COMMENT ON COLUMN clairon.status.last_reply_at IS 'time of the last reply of the client';
COMMENT ON COLUMN clairon.status.lost_because IS 'why the slot is invalid; null while it is not';
COMMENT ON COLUMN clairon.status.inactive_since IS 'since when no client reads it, from PostgreSQL 17 on';
COMMENT ON COLUMN clairon.status.failover IS 'whether it is synchronized to standbys, from PostgreSQL 17 on';
COMMENT ON COLUMN clairon.status.synced IS 'whether it is such a copy on a standby';

COMMENT ON TABLE clairon.member IS 'members of groups: user_id receives what is sent to target of audience';
COMMENT ON COLUMN clairon.member.audience IS 'kind of group, as in clairon.watch(audience => ..)';
COMMENT ON COLUMN clairon.member.target IS 'id of the group';
COMMENT ON COLUMN clairon.member.user_id IS 'id of the user: sub of the token';

-- All else may change with any version.
DO $$
DECLARE
    kind text;
    object text;
BEGIN
    FOR kind, object IN
        SELECT 'FUNCTION', oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc
        WHERE pronamespace = 'clairon'::pg_catalog.regnamespace
          AND pg_catalog.obj_description(oid, 'pg_proc') IS NULL
        UNION ALL
        SELECT 'TABLE', oid::pg_catalog.regclass::text FROM pg_catalog.pg_class
        WHERE relnamespace = 'clairon'::pg_catalog.regnamespace AND relkind = 'r'
          AND pg_catalog.obj_description(oid, 'pg_class') IS NULL
    LOOP
        EXECUTE pg_catalog.format('COMMENT ON %s %s IS ''internal to the extension''', kind, object);
    END LOOP;
END $$;
