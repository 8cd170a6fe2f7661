/* status: the slots with the plugin clairon, their retained WAL and their lag. */

-- Columns of pg_replication_slots that do not exist in older servers are read from the row as JSON:
-- conflicting since 16; invalidation_reason, inactive_since, failover and synced since 17.
CREATE VIEW clairon.status AS
    SELECT slot_name, active, active_pid, database, wal_status,
           restart_lsn, confirmed_flush_lsn,
           pg_catalog.pg_wal_lsn_diff(here.lsn, restart_lsn) AS retained_wal_bytes,
           pg_catalog.pg_wal_lsn_diff(here.lsn, confirmed_flush_lsn) AS lag_bytes,
           safe_wal_size,
           sender.state AS sender_state,
           sender.reply_time AS last_reply_at,
           coalesce(details.slot ->> 'invalidation_reason',
                    CASE WHEN details.slot ->> 'conflicting' = 'true' THEN 'conflict'
                         WHEN wal_status = 'lost' THEN 'wal_removed' END) AS lost_because,
           (details.slot ->> 'inactive_since')::pg_catalog.timestamptz AS inactive_since,
           coalesce((details.slot ->> 'failover')::boolean, false) AS failover,
           -- A synchronized copy that is still temporary is dropped at a promotion.
           coalesce((details.slot ->> 'synced')::boolean, false) AND NOT temporary AS synced
    FROM pg_catalog.pg_replication_slots AS slot
    LEFT JOIN pg_catalog.pg_stat_replication AS sender ON sender.pid = slot.active_pid
    CROSS JOIN LATERAL (SELECT pg_catalog.to_jsonb(slot) AS slot) AS details
    CROSS JOIN (SELECT CASE WHEN pg_catalog.pg_is_in_recovery()
                            THEN pg_catalog.pg_last_wal_replay_lsn()
                            ELSE pg_catalog.pg_current_wal_lsn() END AS lsn) AS here
    WHERE slot.plugin = 'clairon';

-- The version of the loaded library, which may differ from the extension's SQL version.
CREATE FUNCTION clairon.version() RETURNS text
    LANGUAGE c IMMUTABLE AS 'MODULE_PATHNAME', 'clairon_version';
