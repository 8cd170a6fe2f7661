/* status: the slots that read with clairon, what WAL they hold back, how far they lag. */

-- Columns of pg_replication_slots that older servers lack are taken from the row as JSON: 16 knows
-- conflicting, 17 the reason, since when nobody reads, and slots that follow a failover.
CREATE VIEW clairon.status AS
    SELECT slot_name, active, active_pid, database, wal_status,
           restart_lsn, confirmed_flush_lsn,
           pg_catalog.pg_wal_lsn_diff(here.lsn, restart_lsn) AS retained_wal_bytes,
           pg_catalog.pg_wal_lsn_diff(here.lsn, confirmed_flush_lsn) AS lag_bytes,
           safe_wal_size,
           sender.state AS sender_state,
           sender.reply_time AS last_reply_at,
           coalesce(shown.slot ->> 'invalidation_reason',
                    CASE WHEN shown.slot ->> 'conflicting' = 'true' THEN 'conflict'
                         WHEN wal_status = 'lost' THEN 'wal_removed' END) AS lost_because,
           (shown.slot ->> 'inactive_since')::pg_catalog.timestamptz AS inactive_since,
           coalesce((shown.slot ->> 'failover')::boolean, false) AS failover,
           -- A copy that is still temporary goes at the promotion.
           coalesce((shown.slot ->> 'synced')::boolean, false) AND NOT temporary AS synced
    FROM pg_catalog.pg_replication_slots AS slot
    LEFT JOIN pg_catalog.pg_stat_replication AS sender ON sender.pid = slot.active_pid
    CROSS JOIN LATERAL (SELECT pg_catalog.to_jsonb(slot) AS slot) AS shown
    CROSS JOIN (SELECT CASE WHEN pg_catalog.pg_is_in_recovery()
                            THEN pg_catalog.pg_last_wal_replay_lsn()
                            ELSE pg_catalog.pg_current_wal_lsn() END AS lsn) AS here
    WHERE slot.plugin = 'clairon';

-- Of the library that this server loads, whatever the extension's scripts say.
CREATE FUNCTION clairon.version() RETURNS text
    LANGUAGE c IMMUTABLE AS 'MODULE_PATHNAME', 'clairon_version';
