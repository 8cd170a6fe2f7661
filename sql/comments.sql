/* Comments on the public functions, views and columns, for \d+ and \df+. */

COMMENT ON SCHEMA clairon IS 'notifications of table changes and of applications';
COMMENT ON SCHEMA clairon_internal IS 'internal to the extension clairon';
COMMENT ON FUNCTION clairon.watch IS
    'sets a rule that sends changes of a table as notifications; replaces a rule with the same name';
COMMENT ON FUNCTION clairon.unwatch IS 'removes one rule or all rules of a table; returns their number';
COMMENT ON FUNCTION clairon.notify IS
    'sends a notification when the transaction commits; returns its id, or the first id of a repeated idempotency_key';
COMMENT ON FUNCTION clairon.annotate IS
    'sets metadata of the notifications of rows that follow in the transaction, until a rollback of the subtransaction; replaces earlier values';
COMMENT ON FUNCTION clairon.once(text, text) IS
    'inserts a key in the transaction; returns false if the key was used before';
COMMENT ON FUNCTION clairon.once(text, bigint) IS 'once for a number as the key';
COMMENT ON FUNCTION clairon.prune IS 'deletes keys of once and notify that are older than older_than; returns their number';
COMMENT ON FUNCTION clairon.prune_receipts IS 'deletes receipts that are older than the given age; returns their number';
COMMENT ON FUNCTION clairon.forget IS
    'deletes the receipts of a user, and blanks the user as the emitter of others; returns the number of changed rows';
COMMENT ON FUNCTION clairon.snapshot IS
    'snapshot of the calling statement as xmin:xmax:xip,.., with 64-bit transaction ids; valid on a standby too';
COMMENT ON FUNCTION clairon.rows IS
    'rows that a live rule addresses to a user, in the form of payload.after';
COMMENT ON FUNCTION clairon.live_rows IS
    'rows of clairon.rows for the relay, after a header with key, snapshot, audience and judge';
COMMENT ON FUNCTION clairon.live_position IS
    'outcomes of transactions, and a WAL position behind all visible commits, for barriers of the relay';
COMMENT ON FUNCTION clairon.doctor IS
    'checks the requirements of notifications; ok is false for an error, true with a hint for a warning';
COMMENT ON FUNCTION clairon.version IS 'version of the library that this server loads';

COMMENT ON VIEW clairon.rules IS
    'rules of clairon.watch on the user''s own tables, or all rules for members of clairon_relay';
COMMENT ON COLUMN clairon.rules.relation IS 'table of the rule';
COMMENT ON COLUMN clairon.rules.name IS 'name of the rule, unique for the table';
COMMENT ON COLUMN clairon.rules.audience IS 'USER, ALL, a group kind of clairon.member and tokens, or several kinds joined by +';
COMMENT ON COLUMN clairon.rules.targets IS 'column with the targets, several columns joined by +, or a literal that starts with =; null for ALL';
COMMENT ON COLUMN clairon.rules.type IS 'REALTIME, NOTIFICATION or SYSTEM';
COMMENT ON COLUMN clairon.rules.priority IS 'HIGH, NORMAL or LOW';
COMMENT ON COLUMN clairon.rules.operations IS 'operations that are sent: create, update, delete, truncate';
COMMENT ON COLUMN clairon.rules.columns IS 'columns in the payload; null for all';
COMMENT ON COLUMN clairon.rules.only_when IS 'condition on the row, with the error message if it cannot be evaluated';
COMMENT ON COLUMN clairon.rules.emitter IS 'metadata.emitter of the notifications, or a colon and the column that contains it';
COMMENT ON COLUMN clairon.rules.topic IS 'metadata.topic of the notifications; null for topic_prefix and table';
COMMENT ON COLUMN clairon.rules.ttl IS 'maximum time from commit to delivery; null for no limit';
COMMENT ON COLUMN clairon.rules.ack_required IS 'whether each recipient must acknowledge the notifications';
COMMENT ON COLUMN clairon.rules.retry_limit IS 'maximum number of retries without an acknowledgement; 0 for none';
COMMENT ON COLUMN clairon.rules.backoff IS 'growth of the time between retries: EXPONENTIAL, LINEAR or FIXED';
COMMENT ON COLUMN clairon.rules.ack_timeout IS 'timeout for an acknowledgement; null for the setting of the relay';
COMMENT ON COLUMN clairon.rules.live IS 'whether the users that the rule addresses may read its rows';
COMMENT ON COLUMN clairon.rules.receipts IS 'none, notification (a receipt when it has ended for all users) or user (also one for each user)';
COMMENT ON COLUMN clairon.rules.escalate_after IS 'times after the commit at which users without an acknowledgement cause a receipt';
COMMENT ON COLUMN clairon.rules.web_push IS 'what a Web Push shows: a JSON object with =literal or :column; null for no Web Push';
COMMENT ON COLUMN clairon.rules.filter_columns IS 'columns that lists of a live rule may name in filters and orders';

COMMENT ON TABLE clairon.receipt IS 'how notifications ended, for each user and as a whole; inserted by the relay';
COMMENT ON COLUMN clairon.receipt.notification IS 'metadata.id of the notification';
COMMENT ON COLUMN clairon.receipt.user_id IS 'the user; empty for the receipt of the whole notification';
COMMENT ON COLUMN clairon.receipt.outcome IS 'acked, expired, exhausted, unreached, dropped, forgotten, escalated or escalated2';
COMMENT ON COLUMN clairon.receipt.round IS '1, and 1 more after each redrive';
COMMENT ON COLUMN clairon.receipt.at IS 'time of the outcome';
COMMENT ON COLUMN clairon.receipt.delivered_at IS 'time of the first write to a socket of the user; null if there was none';
COMMENT ON COLUMN clairon.receipt.attempts IS 'number of retries';
COMMENT ON COLUMN clairon.receipt.emitter IS 'metadata.emitter of the notification';
COMMENT ON COLUMN clairon.receipt.source IS 'metadata.source of the notification';
COMMENT ON COLUMN clairon.receipt.topic IS 'metadata.topic of the notification';
COMMENT ON COLUMN clairon.receipt.acked IS 'number of users who acknowledged; null for the receipt of a user';
COMMENT ON COLUMN clairon.receipt.recipients IS 'number of users who had to acknowledge; null for the receipt of a user';

COMMENT ON VIEW clairon.status IS 'replication slots with the plugin clairon';
COMMENT ON COLUMN clairon.status.slot_name IS 'name of the slot';
COMMENT ON COLUMN clairon.status.active IS 'whether a client reads the slot';
COMMENT ON COLUMN clairon.status.active_pid IS 'process id of the walsender';
COMMENT ON COLUMN clairon.status.database IS 'database of the slot';
COMMENT ON COLUMN clairon.status.wal_status IS 'as in pg_replication_slots';
COMMENT ON COLUMN clairon.status.restart_lsn IS 'LSN of the oldest WAL that the slot retains';
COMMENT ON COLUMN clairon.status.confirmed_flush_lsn IS 'LSN that the client has confirmed';
COMMENT ON COLUMN clairon.status.retained_wal_bytes IS 'bytes of WAL that the slot retains';
COMMENT ON COLUMN clairon.status.lag_bytes IS 'bytes of WAL that the client has not confirmed';
COMMENT ON COLUMN clairon.status.safe_wal_size IS 'as in pg_replication_slots';
COMMENT ON COLUMN clairon.status.sender_state IS 'state of the walsender, as in pg_stat_replication';
COMMENT ON COLUMN clairon.status.last_reply_at IS 'time of the last reply from the client';
COMMENT ON COLUMN clairon.status.lost_because IS 'reason why the slot is invalid; null for a valid slot';
COMMENT ON COLUMN clairon.status.inactive_since IS 'time of the last disconnect of the client, since PostgreSQL 17';
COMMENT ON COLUMN clairon.status.failover IS 'whether the slot is synchronized to standbys, since PostgreSQL 17';
COMMENT ON COLUMN clairon.status.synced IS 'whether the slot is a synchronized copy on a standby';
COMMENT ON COLUMN clairon.status.denied IS 'changes that were denied since the last connection or start of the relay, by owner and account';

COMMENT ON TABLE clairon.member IS 'members of groups: user_id receives notifications to target of audience';
COMMENT ON COLUMN clairon.member.audience IS 'kind of group, as in clairon.watch(audience => ..)';
COMMENT ON COLUMN clairon.member.target IS 'id of the group';
COMMENT ON COLUMN clairon.member.user_id IS 'id of the user: sub of the token';

-- All other objects are internal and may change in any version.
DO $$
DECLARE
    kind text;
    object text;
BEGIN
    FOR kind, object IN
        SELECT 'FUNCTION', oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc
        WHERE pronamespace IN ('clairon'::pg_catalog.regnamespace, 'clairon_internal'::pg_catalog.regnamespace)
          AND pg_catalog.obj_description(oid, 'pg_proc') IS NULL
        UNION ALL
        SELECT 'TABLE', oid::pg_catalog.regclass::text FROM pg_catalog.pg_class
        WHERE relnamespace = 'clairon'::pg_catalog.regnamespace AND relkind = 'r'
          AND pg_catalog.obj_description(oid, 'pg_class') IS NULL
    LOOP
        EXECUTE pg_catalog.format('COMMENT ON %s %s IS ''internal to the extension''', kind, object);
    END LOOP;
END $$;
