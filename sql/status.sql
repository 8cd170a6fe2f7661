/* status: the slots that read with clairon, what WAL they hold back, how far they lag. */

CREATE VIEW clairon.status AS
    SELECT slot_name, active, active_pid, database, wal_status,
           restart_lsn, confirmed_flush_lsn,
           pg_catalog.pg_wal_lsn_diff(here.lsn, restart_lsn) AS retained_wal_bytes,
           pg_catalog.pg_wal_lsn_diff(here.lsn, confirmed_flush_lsn) AS lag_bytes,
           safe_wal_size,
           sender.state AS sender_state,
           sender.reply_time AS last_reply_at
    FROM pg_catalog.pg_replication_slots AS slot
    LEFT JOIN pg_catalog.pg_stat_replication AS sender ON sender.pid = slot.active_pid
    CROSS JOIN (SELECT CASE WHEN pg_catalog.pg_is_in_recovery()
                            THEN pg_catalog.pg_last_wal_replay_lsn()
                            ELSE pg_catalog.pg_current_wal_lsn() END AS lsn) AS here
    WHERE slot.plugin = 'clairon';
