/* status: the slots with the plugin clairon, their retained WAL and their lag. */

CREATE FUNCTION clairon_internal.denial_report(slot name) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_denial_report';

CREATE FUNCTION clairon.report_denials(slot name, account text, owners oid[], changes bigint[], last_us bigint[])
    RETURNS text LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'clairon_report_denials';

-- What the decoder and the relay have denied since their last start: by the owner of the tables, and
-- by account. Notifications without a limited owner share an account.
CREATE FUNCTION clairon.denials(slot name)
    RETURNS TABLE (owner name, account text, changes bigint, last_at timestamptz)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(rolname, CASE part[1] WHEN '0' THEN 'clairon_app' ELSE format('role %s', part[1]) END::name), part[2], part[3]::bigint,
           timestamptz '2000-01-01 00:00:00+00' + part[4]::bigint * interval '1 microsecond'
    FROM regexp_split_to_table(clairon_internal.denial_report(slot), E'\n') AS line
    CROSS JOIN LATERAL string_to_array(line, ' ') AS fields (part)
    LEFT JOIN pg_roles ON oid::text = part[1]
    WHERE line <> '' ORDER BY 1, 2
$$;

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
                    -- PostgreSQL 16 sets `conflicting` for removed WAL too.
                    CASE WHEN details.slot ->> 'conflicting' = 'true' AND restart_lsn IS NOT NULL THEN 'conflict'
                         WHEN wal_status = 'lost' THEN 'wal_removed' END) AS lost_because,
           (details.slot ->> 'inactive_since')::pg_catalog.timestamptz AS inactive_since,
           coalesce((details.slot ->> 'failover')::boolean, false) AS failover,
           -- A synchronized copy that is still temporary is dropped at a promotion.
           coalesce((details.slot ->> 'synced')::boolean, false) AND NOT temporary AS synced,
           (SELECT pg_catalog.jsonb_agg(pg_catalog.to_jsonb(denial))
            FROM clairon.denials(slot_name) AS denial) AS denied
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
