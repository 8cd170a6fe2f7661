/*
 * doctor: checks the requirements of notifications; hints contain the commands to fix problems. The
 * last sentence of a hint has no full stop, so that a command at its end can be copied.
 */

-- Only superusers can read this setting. NULL in minor releases without it.
CREATE FUNCTION clairon_internal.allowed_plugins() RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
    'SELECT btrim(current_setting(''output_plugin_libraries'', true))';

-- A hint names the server if its command must run on another server.
CREATE FUNCTION clairon_internal.doctor_settings()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'server', NOT pg_is_in_recovery() OR setting::int >= 160000,
           format('PostgreSQL %s, %s', current_setting('server_version'),
                  CASE WHEN pg_is_in_recovery() THEN 'a standby' ELSE 'a primary' END),
           'PostgreSQL before 16 cannot decode on a standby: name its primary in [feed] conninfo'
    FROM pg_settings WHERE name = 'server_version_num'
    UNION ALL
    SELECT 'wal_level', setting = 'logical', 'wal_level is ' || setting,
           'ALTER SYSTEM SET wal_level = ''logical''; then restart the server (the primary too, '
           'for a standby)'
    FROM pg_settings WHERE name = 'wal_level'
    UNION ALL
    SELECT 'output_plugin_libraries',
           'clairon' = ANY (regexp_split_to_array(allowed, E'\\s*,\\s*')),
           'output_plugin_libraries is ' || allowed,
           format('ALTER SYSTEM SET output_plugin_libraries = %s; SELECT pg_reload_conf();',
                  concat_ws(', ', nullif(allowed, ''), 'clairon'))
    FROM clairon_internal.allowed_plugins() AS t (allowed) WHERE allowed IS NOT NULL
    UNION ALL
    SELECT 'max_slot_wal_keep_size', setting <> '-1',
           'max_slot_wal_keep_size is ' || CASE setting WHEN '-1' THEN 'unlimited'
                                                        ELSE setting || ' MB' END,
           'Without a limit, an inactive slot fills the disk. Set a limit above the WAL of the longest '
           'expected outage: ALTER SYSTEM SET max_slot_wal_keep_size = ''64GB''; SELECT '
           'pg_reload_conf();'
    FROM pg_settings WHERE name = 'max_slot_wal_keep_size'
    UNION ALL
    SELECT 'replication slots left',
           setting::int > (SELECT count(*) FROM pg_replication_slots)
           OR EXISTS (SELECT FROM clairon.status WHERE database = current_database()),
           format('%s of %s are used', (SELECT count(*) FROM pg_replication_slots), setting),
           format('ALTER SYSTEM SET max_replication_slots = %s; then restart the server, or drop unused '
                  'slots', setting::int + 10)
    FROM pg_settings WHERE name = 'max_replication_slots'
    UNION ALL
    SELECT 'walsenders left', setting::int > count(sender.pid),
           format('%s of %s are used', count(sender.pid), setting),
           format('ALTER SYSTEM SET max_wal_senders = %s; then restart the server', setting::int + 10)
    FROM pg_settings LEFT JOIN pg_stat_replication AS sender ON true
    WHERE name = 'max_wal_senders' GROUP BY setting
    UNION ALL
    SELECT 'wal_sender_timeout', setting <> '0',
           'wal_sender_timeout is ' || CASE setting WHEN '0' THEN 'off' ELSE setting || ' ms' END,
           'Without a timeout, a lost relay connection keeps the slot in use: ALTER SYSTEM SET '
           'wal_sender_timeout = ''60s''; SELECT pg_reload_conf();'
    FROM pg_settings WHERE name = 'wal_sender_timeout'
    UNION ALL
    SELECT 'idle_replication_slot_timeout', setting = '0',
           format('inactive slots are invalidated after %s s', setting),
           'ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf(); '
           'Use max_slot_wal_keep_size to protect the disk'
    FROM pg_settings WHERE name = 'idle_replication_slot_timeout' AND setting <> '0'
$$;

-- pg_is_wal_replay_paused() fails on a primary. If a complete record was received, replay advances
-- within a second.
CREATE FUNCTION clairon_internal.doctor_replay(OUT is_paused boolean, OUT replayed pg_lsn, OUT beyond numeric,
                                      OUT is_stalled boolean)
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT paused, lsn, more,
           CASE WHEN paused OR more IS NULL OR more <= 65536 THEN false
                WHEN pg_sleep(1) IS NULL THEN NULL
                ELSE pg_last_wal_replay_lsn() = lsn END
    FROM (SELECT pg_is_wal_replay_paused(), pg_last_wal_replay_lsn(),
                 pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
          WHERE pg_is_in_recovery() OFFSET 0) AS here (paused, lsn, more)
$$;

CREATE FUNCTION clairon.doctor_standby()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'hot_standby_feedback',
           -- pg_stat_wal_receiver hides the slot from most roles.
           current_setting('hot_standby_feedback')::boolean
           AND current_setting('primary_slot_name') <> ''
           AND current_setting('wal_receiver_status_interval') <> '0',
           format('hot_standby_feedback is %s, primary_slot_name is "%s", '
                  'wal_receiver_status_interval is %s', current_setting('hot_standby_feedback'),
                  current_setting('primary_slot_name'),
                  current_setting('wal_receiver_status_interval')),
           concat_ws(' ', 'Otherwise the primary removes catalog rows that slots of this standby need, '
                     'which invalidates the slots:',
               CASE WHEN NOT current_setting('hot_standby_feedback')::boolean
                    THEN 'ALTER SYSTEM SET hot_standby_feedback = on;' END,
               CASE WHEN current_setting('primary_slot_name') = ''
                    THEN 'on the primary, run SELECT pg_create_physical_replication_slot(''standby'', '
                         'true); on this standby, run ALTER SYSTEM SET primary_slot_name = ''standby'';' END,
               CASE WHEN current_setting('wal_receiver_status_interval') = '0'
                    THEN 'ALTER SYSTEM SET wal_receiver_status_interval = ''10s'';' END,
               'SELECT pg_reload_conf();')
    UNION ALL
    SELECT 'WAL receiver', EXISTS (SELECT FROM pg_stat_wal_receiver WHERE pid IS NOT NULL),
           CASE WHEN EXISTS (SELECT FROM pg_stat_wal_receiver WHERE pid IS NOT NULL)
                THEN 'the WAL receiver is running' ELSE 'the WAL receiver is not running' END,
           'Read the server log. Usual causes are primary_conninfo, pg_hba.conf of the primary, or a dropped '
           'primary_slot_name'
    UNION ALL
    SELECT 'replay', NOT is_paused AND NOT is_stalled,
           CASE WHEN is_paused THEN 'replay is paused: nothing is decoded'
                WHEN is_stalled THEN format('replay is stalled at %s, with %s of received WAL after it',
                                        replayed, pg_size_pretty(beyond))
                ELSE format('replayed up to %s', replayed) END,
           CASE WHEN is_paused THEN 'SELECT pg_wal_replay_resume();'
                ELSE 'A query on this standby blocks it: SELECT pid, xact_start, query FROM pg_stat_activity '
                     'WHERE xact_start IS NOT NULL ORDER BY 2; then SELECT pg_terminate_backend(..) of the '
                     'oldest, or lower max_standby_streaming_delay' END
    FROM clairon_internal.doctor_replay()
$$;

-- Each standby with logical slots needs an active physical slot on this server, which retains
-- catalog rows.
CREATE FUNCTION clairon_internal.doctor_physical_slots()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'physical slot ' || slot_name, active AND wal_status IS DISTINCT FROM 'lost'
               AND wal_status IS DISTINCT FROM 'unreserved',
           format('%s, %s of WAL retained, %s', CASE WHEN active THEN 'active' ELSE 'inactive' END,
                  coalesce(pg_size_pretty(pg_wal_lsn_diff(here.lsn, restart_lsn)),
                           'nothing'),
                  CASE WHEN catalog_xmin IS NULL THEN 'no slot of a standby depends on it'
                       ELSE 'slots of its standby depend on it' END),
           CASE WHEN wal_status = 'lost'
                THEN 'Create its standby again with pg_basebackup'
                ELSE format('Start its standby. If it no longer exists: SELECT '
                            'pg_drop_replication_slot(%L);', slot_name) END
    FROM pg_replication_slots
    CROSS JOIN (SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_lsn() END) AS here (lsn)
    WHERE slot_type = 'physical'
$$;

-- Only some roles can read the sync state of other sessions.
CREATE FUNCTION clairon_internal.doctor_awaited() RETURNS SETOF name
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT slot_name FROM clairon.status JOIN pg_stat_replication ON pid = active_pid
    WHERE sync_state <> 'async' ORDER BY 1
$$;

-- Readers whose last reply differs from this server's time by more than wal_sender_timeout. The time of
-- a reply is that of the relay's clock. A relay that streams also queries its status, which this server
-- dates: then the clocks differ. Otherwise the reader hangs.
CREATE FUNCTION clairon.doctor_hanging()
    RETURNS TABLE (slot name, pid integer, silence interval, streams boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT slot_name, active_pid, date_trunc('second', clock_timestamp() - last_reply_at),
           EXISTS (SELECT FROM pg_stat_activity
                   WHERE datname = database AND query_start > clock_timestamp() - greatest(timeout, '30 s')
                     AND strpos(query, format('clairon.denials(slot_name) WHERE slot_name = %L', slot_name)) > 0)
    FROM clairon.status
    CROSS JOIN (SELECT coalesce(nullif(setting::bigint, 0), 60000) * interval '1 ms' AS timeout
                FROM pg_settings WHERE name = 'wal_sender_timeout') AS allowed
    WHERE database = current_database()
      AND last_reply_at NOT BETWEEN clock_timestamp() - timeout AND clock_timestamp() + timeout
    ORDER BY 1
$$;

CREATE FUNCTION clairon_internal.doctor_slots()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'slot ' || slot_name,
           lost_because IS NULL AND wal_status IS DISTINCT FROM 'lost'
               AND wal_status IS DISTINCT FROM 'unreserved'
               AND retained_wal_bytes <= coalesce(0.8 * kept.bytes, 'Infinity')
               AND (active OR synced),
           CASE WHEN lost_because IS NOT NULL THEN format('lost: %s', lost_because)
                ELSE format('%s, %s of WAL retained%s%s',
                            CASE WHEN active THEN 'active' WHEN synced THEN 'synchronized for a failover'
                                 WHEN failover AND pg_is_in_recovery()
                                 THEN 'not yet synchronized: a failover would lose it'
                                 ELSE 'inactive' END,
                            pg_size_pretty(retained_wal_bytes),
                            ' of ' || pg_size_pretty(kept.bytes) || ' allowed',
                            CASE wal_status WHEN 'unreserved' THEN ': the next checkpoint may '
                                                 'remove required WAL' END) END,
           CASE WHEN lost_because IS NOT NULL
                THEN format('%s: then SELECT pg_drop_replication_slot(%L); the relay creates it again '
                            '(feed.create_slot) and sends a gap to its clients',
                            CASE lost_because
                                WHEN 'wal_removed' THEN 'Raise max_slot_wal_keep_size'
                                WHEN 'wal_level_insufficient' THEN 'Set wal_level = logical on the primary'
                                WHEN 'idle_timeout' THEN 'Set idle_replication_slot_timeout = 0'
                                ELSE 'Set hot_standby_feedback = on and primary_slot_name on this standby'
                            END, slot_name)
                WHEN failover AND NOT active AND pg_is_in_recovery()
                THEN 'Synchronization from the primary takes up to two minutes. If it takes longer, read the '
                     'log of this server'
                WHEN NOT active AND retained_wal_bytes <= coalesce(0.8 * kept.bytes, 'Infinity')
                THEN format('Start the relay (systemctl start clairon-relay), or read the log of a '
                            'running relay. If the slot is no longer used: '
                            'SELECT pg_drop_replication_slot(%L);', slot_name)
                ELSE 'The relay is behind. Read its log and metrics, or raise the limit: '
                     'ALTER SYSTEM SET max_slot_wal_keep_size = ''..''; SELECT pg_reload_conf();' END
    FROM clairon.status
    CROSS JOIN (SELECT nullif(setting::bigint, -1) * 1024 * 1024 AS bytes
                FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS kept
    UNION ALL
    SELECT 'synchronous_standby_names', false,
           format('commits wait for slot %s, which counts as a standby: synchronous_standby_names is %s', slot,
                  current_setting('synchronous_standby_names')),
           'The relay confirms WAL up to two seconds late, and never while it is stopped. Name the standbys '
           'instead of ''*'': ALTER SYSTEM SET synchronous_standby_names = ''..''; '
           'SELECT pg_reload_conf();'
    FROM clairon_internal.doctor_awaited() AS t (slot)
    UNION ALL
    SELECT CASE WHEN streams THEN 'clock of the reader of slot ' ELSE 'reader of slot ' END || slot, false,
           format(CASE WHEN streams THEN 'the clock of the relay differs from that of this server by %2$s'
                       ELSE 'process %1$s has received nothing from its relay for %2$s, and did not end after '
                            'wal_sender_timeout' END, pid, silence),
           format(CASE WHEN streams THEN 'Synchronize the clocks of both machines'
                       ELSE 'The process hangs, and no relay can read the slot. Run ps -o stat,wchan -p %1$s on this '
                            'server. State T: kill -CONT %1$s; otherwise SELECT pg_terminate_backend(%1$s)' END, pid)
    FROM clairon.doctor_hanging()
    UNION ALL
    SELECT 'slots', false, 'no slot of this database has the plugin clairon',
           'Start the relay, which creates one, or SELECT pg_create_logical_replication_slot('
           '''clairon'', ''clairon'');'
    WHERE NOT EXISTS (SELECT FROM clairon.status WHERE database = current_database())
$$;

-- A warning for a minute after the last denial.
CREATE FUNCTION clairon_internal.doctor_accounts()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('account of %s', owner), last_at < now() - interval '1 minute',
           format(CASE account WHEN 'errors' THEN '%s %s trimmed from the full error log, reported for slot %s as %s, last at %s'
                               WHEN 'rows' THEN '%s %s denied by slot %s, as %s that a rule cannot evaluate, last at %s'
                               ELSE '%s %s denied by slot %s, for lack of %s, last at %s' END, changes,
                  CASE WHEN account = 'errors' THEN CASE changes WHEN 1 THEN 'dead letter was' ELSE 'dead letters were' END
                       WHEN changes = 1 THEN 'change was' ELSE 'changes were' END, slot_name, account,
                  date_trunc('second', last_at)),
           format(CASE account
               WHEN 'bytes' THEN 'The rules of %1$s send more than feed.owner_bytes a minute and '
                                 'feed.owner_wal_factor times the WAL of their changes. Remove rules, targets or '
                                 'columns, or raise the settings, or GRANT clairon_app TO %1$I'
               WHEN 'targets' THEN 'Rows of the tables of %1$s have more than 10000 targets, or 256 kB of them. '
                                   'Address a group of clairon.member'
               WHEN 'rows' THEN 'Rules of %1$s cannot read targets or conditions from the WAL of these changes. The '
                                'server''s log names rule and reason (grep "clairon rule"). Usually a table or a new '
                                'partition needs REPLICA IDENTITY FULL'
               WHEN 'pairs' THEN 'Rules of %1$s with ack_required address more users a minute than '
                                 'feed.owner_pairs. Address fewer, or raise the setting, or GRANT clairon_app TO %1$I'
               WHEN 'errors' THEN 'No owner has more entries in the error log than %1$s. Redrive or drop them with '
                                  'clairon errors, or use shorter texts, a longer ttl or no ack_required'
               WHEN 'memory' THEN 'Plans and conditions of the rules of %1$s need more than '
                                  'feed.owner_memory. Remove rules or conditions, or raise the setting'
               ELSE 'The rules of %1$s need more decoding time than feed.owner_time and a tenth of the elapsed '
                    'time. Remove rules or conditions, or raise the setting' END, owner)
    FROM clairon.status
    CROSS JOIN LATERAL jsonb_to_recordset(denied)
        AS denial (owner name, account text, changes bigint, last_at timestamptz)
    WHERE database = current_database()
$$;

CREATE FUNCTION clairon_internal.doctor_extension()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'extension', extversion = clairon.version() AND extversion = default_version,
           format('version %s, files %s, plugin %s', extversion, default_version,
                  clairon.version()),
           CASE WHEN default_version IS DISTINCT FROM clairon.version()
                THEN 'The plugin and the files of the extension have different versions. Install the '
                     'same version of both, then reconnect'
                ELSE 'On the primary, run ALTER EXTENSION clairon UPDATE;' END
    FROM pg_extension LEFT JOIN pg_available_extensions ON name = extname
    WHERE extname = 'clairon'
    UNION ALL
    SELECT 'triggers', bool_and(in_force), format('%s of %s are enabled',
                                                  count(*) FILTER (WHERE in_force), count(*)),
           string_agg(command, ' ') FILTER (WHERE NOT in_force)
    FROM (SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = relation::regclass
                         AND tgname = name AND tgenabled = 'A'),
                 format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I;', relation, name)
          FROM (VALUES ('clairon.rule', 'rule_written'), ('clairon.rule', 'reject_truncate'),
                       ('clairon.rule', 'bind_columns'), ('clairon.member', 'reject_truncate'))
               AS t (relation, name)
          UNION ALL
          SELECT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = name AND evtenabled = 'A'),
                 format('ALTER EVENT TRIGGER %I ENABLE ALWAYS;', name)
          FROM unnest('{clairon_delete_dropped,clairon_update_renamed,clairon_keep_conditions,'
                      'clairon_update_conditions,clairon_advise_added_tables}'::text[]) AS t (name))
        AS wanted (in_force, command)
    UNION ALL
    SELECT 'table clairon.rule', 'user_catalog_table=true' = ANY (reloptions) AND toasted.columns IS NULL,
           coalesce('may be toasted: ' || toasted.columns, array_to_string(reloptions, ', '),
                    'not a user catalog table'),
           concat_ws(' ', 'Slots fail if the decoder cannot read the table: ALTER TABLE clairon.rule SET '
                     '(user_catalog_table = true);',
                     (SELECT string_agg(format('ALTER TABLE clairon.rule ALTER %I SET STORAGE PLAIN;',
                                               name), ' ')
                      FROM unnest(string_to_array(toasted.columns, ', ')) AS t (name)))
    FROM pg_class
    CROSS JOIN (SELECT string_agg(attname, ', ' ORDER BY attnum) AS columns FROM pg_attribute
                WHERE attrelid = 'clairon.rule'::regclass AND attnum > 0 AND NOT attisdropped
                  AND attstorage <> 'p') AS toasted
    WHERE oid = 'clairon.rule'::regclass
    UNION ALL
    SELECT 'table clairon.member', relpersistence = 'p' AND has_identity,
           CASE WHEN relpersistence <> 'p' THEN 'unlogged: memberships are not in the WAL'
                WHEN NOT has_identity THEN 'removed members are not in the WAL and still receive notifications'
                ELSE 'changes are in the WAL' END,
           'ALTER TABLE clairon.member SET LOGGED, REPLICA IDENTITY FULL; then stop the relay, '
           'SELECT pg_drop_replication_slot(..), and start the relay, which creates a new slot'
    FROM pg_class
    CROSS JOIN LATERAL (SELECT relreplident = 'f' OR EXISTS (
        SELECT FROM pg_index WHERE indrelid = pg_class.oid
          AND CASE relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident
              ELSE false END)) AS key (has_identity)
    WHERE oid = 'clairon.member'::regclass
    UNION ALL
    SELECT 'table clairon.reload', relpersistence = 'p' AND relreplident = 'f',
           CASE WHEN relpersistence <> 'p' THEN 'unlogged: clients keep old rows of live rules after DDL'
                WHEN relreplident <> 'f' THEN 'publications FOR ALL TABLES prevent live rules'
                ELSE 'changes are in the WAL' END,
           'ALTER TABLE clairon.reload SET LOGGED, REPLICA IDENTITY FULL;'
    FROM pg_class WHERE oid = 'clairon.reload'::regclass
$$;

CREATE FUNCTION clairon_internal.doctor_roles()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'role ' || wanted, count(rolname) > 0,
           CASE WHEN count(rolname) > 0 THEN 'exists' ELSE 'does not exist' END,
           format('CREATE ROLE %I NOLOGIN; then restore its grants: see roles.sql of the '
                  'extension', wanted)
    FROM unnest('{clairon_app,clairon_relay}'::name[]) AS wanted
    LEFT JOIN pg_roles ON rolname = wanted GROUP BY wanted
    UNION ALL
    SELECT 'relay''s role', count(*) > 0,
           coalesce(string_agg(quote_ident(rolname), ', ' ORDER BY rolname),
                    'no member of clairon_relay has LOGIN and REPLICATION'),
           'CREATE ROLE relay LOGIN REPLICATION PASSWORD ''..'' IN ROLE clairon_relay;'
    FROM pg_roles
    WHERE rolcanlogin AND rolreplication
      AND EXISTS (SELECT FROM pg_auth_members
                  JOIN pg_roles AS reader ON reader.oid = roleid AND reader.rolname = 'clairon_relay'
                  WHERE member = pg_roles.oid)
    UNION ALL
    SELECT 'grant on ' || wanted, reader.oid IS NULL
               OR has_table_privilege(reader.oid, wanted, 'SELECT'),
           'clairon_relay lacks SELECT', format('GRANT SELECT ON %s TO clairon_relay;', wanted)
    FROM unnest('{clairon.rule,clairon.rules,clairon.status,clairon.member}'::text[]) AS wanted
    LEFT JOIN pg_roles AS reader ON reader.rolname = 'clairon_relay'
    WHERE reader.oid IS NOT NULL AND NOT has_table_privilege(reader.oid, wanted, 'SELECT')
    UNION ALL
    -- An older build did not revoke what ALTER DEFAULT PRIVILEGES granted. Applications may write
    -- clairon.member, and delete old rows of other tables.
    (WITH granted AS (
        SELECT oid::regclass AS relation, relname, grantee,
               CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role,
               string_agg(privilege_type, ', ' ORDER BY privilege_type) AS privileges,
               bool_or(relname = 'rule' OR privilege_type IN ('INSERT', 'UPDATE', 'TRIGGER')) AS is_written
        FROM pg_class CROSS JOIN aclexplode(relacl)
        WHERE relnamespace = 'clairon'::regnamespace AND relkind = 'r' AND privilege_type <> 'SELECT'
          AND grantee <> relowner AND grantee NOT IN (SELECT oid FROM pg_roles WHERE rolsuper)
          AND (relname, privilege_type, grantee::regrole::text) <> ('receipt', 'INSERT', 'clairon_relay')
        GROUP BY oid, relname, grantee)
     SELECT format('grants on %s to %s', relation, role), false, format('%s has %s', role, privileges),
            format('REVOKE %s ON %s FROM %s;', privileges, relation, role)
     FROM granted
     WHERE is_written
       AND (relname <> 'member' OR grantee IN (SELECT grantee FROM granted WHERE relname = 'rule')))
    UNION ALL
    SELECT DISTINCT format('grants on functions to %s', role), false, format('%s may call internal functions', role),
           format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clairon, clairon_internal FROM %s;', role)
    FROM pg_proc CROSS JOIN aclexplode(proacl) CROSS JOIN LATERAL CAST(grantee::regrole AS text) AS role
    WHERE pronamespace = 'clairon_internal'::regnamespace AND grantee NOT IN (0, proowner)
      AND grantee NOT IN (SELECT oid FROM pg_roles WHERE rolsuper) AND role NOT IN ('clairon_app', 'clairon_relay')
$$;

-- The tables whose rows a rule on the table covers: the table itself, its partitions and child
-- tables.
CREATE FUNCTION clairon_internal.doctor_leaves(relation regclass) RETURNS SETOF regclass
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE below (relid) AS (
        SELECT relation UNION
        SELECT inhrelid::regclass FROM below JOIN pg_inherits ON inhparent = relid)
    SELECT relid FROM below JOIN pg_class ON oid = relid
    WHERE relkind = 'r' AND relpersistence <> 't'
$$;

CREATE FUNCTION clairon_internal.doctor_rules()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH watched AS MATERIALIZED (
        SELECT relation, bool_or(operations & 6 <> 0) AS needs_old, bool_or(live) AS is_live
        FROM clairon.rule WHERE part = 0 GROUP BY relation),
    leaves AS MATERIALIZED (
        SELECT watched.relation, needs_old, leaf.oid AS leaf, relpersistence, relreplident
        FROM watched
        CROSS JOIN LATERAL clairon_internal.doctor_leaves(watched.relation) AS tree (relid)
        JOIN pg_class AS leaf ON leaf.oid = tree.relid),
    -- The existing target columns of all rules. A rule without updates and deletes has no old row.
    targets AS MATERIALIZED (
        SELECT rule.relation, attnum, attname, atttypid, bool_or(operations & 6 <> 0) AS is_in_old_row
        FROM clairon.rule
        JOIN pg_attribute ON attrelid = rule.relation AND attnum > 0
            AND attnum = ANY (target_column || target_columns) AND NOT attisdropped
        WHERE part = 0 GROUP BY rule.relation, attnum, attname, atttypid),
    -- Checking a live rule takes milliseconds, so the number of checked rules of an owner is limited.
    live_rules AS MATERIALIZED (
        SELECT rule.relation, rule.name, owner,
               row_number() OVER (PARTITION BY owner ORDER BY rule.relation::oid, rule.name) <= 1000
                   AS is_checked
        FROM clairon.rule
        CROSS JOIN LATERAL (SELECT relowner FROM pg_class WHERE oid = rule.relation) AS t (owner)
        WHERE part = 0 AND live),
    -- one rule for all that read the same target columns
    live_targets AS MATERIALIZED (
        SELECT relation, target_column, target_columns, min(name) AS name
        FROM clairon.rule WHERE part = 0 AND live
        GROUP BY relation, target_column, target_columns),
    live_filters AS MATERIALIZED (
        SELECT relation, target_column, target_columns, filter_columns, min(name) AS name
        FROM clairon.rule WHERE part = 0 AND live AND filter_columns IS NOT NULL
        GROUP BY relation, target_column, target_columns, filter_columns)
    SELECT 'rules', count(*) > 0, format('%s %s', count(*), CASE count(*) WHEN 1 THEN 'rule' ELSE 'rules' END),
           'No table sends notifications: SELECT clairon.watch(''a_table'', ''USER'', ''a_column'');'
    FROM clairon.rule WHERE part = 0
    UNION ALL
    SELECT format('rule %s on %s', rule.name, rule.relation), false,
           'the table no longer exists',
           format('DELETE FROM clairon.rule WHERE relation = %s;', rule.relation::oid)
    FROM clairon.rule
    WHERE part = 0 AND NOT EXISTS (SELECT FROM pg_class WHERE oid = rule.relation)
    UNION ALL
    SELECT format('rule %s on %s', rule.name, rule.relation), false,
           format('%s is unlogged: changes are not in the WAL', leaf::regclass),
           format('ALTER TABLE %s SET LOGGED;', leaf::regclass)
    FROM clairon.rule JOIN leaves ON leaves.relation = rule.relation
    WHERE part = 0 AND relpersistence = 'u'
    UNION ALL
    SELECT format('rule %s on %s', rule.name, rule.relation), false,
           'the target column was dropped: nothing is sent', 'Set the rule again with clairon.watch()'
    FROM clairon.rule
    WHERE part = 0 AND EXISTS (SELECT FROM pg_class WHERE oid = relation)
      AND EXISTS (SELECT FROM unnest(target_column || target_columns) AS bound (number)
                  WHERE number > 0
                    AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation
                                    AND attnum = number AND NOT attisdropped))
    UNION ALL
    SELECT format('rule %s on %s', rule.name, rule.relation), false,
           'the emitter column was dropped: nothing is sent', 'Set the rule again with clairon.watch()'
    FROM clairon.rule
    WHERE part = 0 AND emitter_column IS NOT NULL
      AND EXISTS (SELECT FROM pg_class WHERE oid = relation)
      AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation
                      AND attnum = emitter_column AND NOT attisdropped)
    UNION ALL
    SELECT format('rule %s on %s', rule.name, rule.relation), false,
           'a column of web_push was dropped' || CASE WHEN web_push_columns[1] = ANY (dropped)
               THEN ': no Web Push is sent' ELSE ': Web Pushes lack it' END,
           'Set the rule again with clairon.watch()'
    FROM clairon.rule
    CROSS JOIN LATERAL (SELECT array_agg(number) AS dropped FROM unnest(web_push_columns) AS t (number)
                        WHERE number > 0 AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation
                                                         AND attnum = number AND NOT attisdropped)) AS lacking
    WHERE part = 0 AND dropped IS NOT NULL
      AND EXISTS (SELECT FROM pg_class WHERE oid = relation)
    UNION ALL
    SELECT format('rule %s on %s', rule.name, rule.relation), false,
           format('target column "%s" has type %s: nothing is sent', attname, json),
           'Change the type of the column to text or text[], or set the rule again with clairon.watch()'
    FROM (SELECT atttypid AS type, clairon_internal.json_within(atttypid) AS json
          FROM (SELECT DISTINCT atttypid FROM targets) AS types) AS documents
    JOIN targets ON atttypid = type
    JOIN clairon.rule ON rule.relation = targets.relation
        AND attnum = ANY (target_column || target_columns)
    WHERE part = 0 AND json IS NOT NULL
    UNION ALL
    SELECT format('rule %s on %s', name, relation), false, 'only_when is ' || shown,
           'An object in the condition was renamed, changed or dropped. Set the rule again with clairon.watch()'
    FROM clairon.rule CROSS JOIN LATERAL clairon_internal.show_condition(relation, name) AS t (shown)
    WHERE part = 0 AND only_when IS NOT NULL AND shown LIKE '%(denies: %)'
    UNION ALL
    SELECT format('renames of rule %s on %s', name, relation), false,
           'only_when does not follow renames: the rule is from an older version',
           'Set the rule again with clairon.watch()'
    FROM clairon.rule
    WHERE part = 0 AND only_when IS NOT NULL AND used_names IS NULL
    UNION ALL
    SELECT format('key of %s', leaf::regclass), false,
           CASE relreplident
                WHEN 'd' THEN CASE WHEN EXISTS (SELECT FROM pg_index WHERE indrelid = leaf AND indisprimary)
                                   THEN 'the primary key is deferrable' ELSE 'no primary key' END
                WHEN 'i' THEN 'the index of the replica identity was dropped'
                ELSE 'the replica identity is nothing' END
           || ': updates and deletes do not identify the row',
           CASE WHEN EXISTS (SELECT FROM pg_index WHERE indrelid = leaf AND indisprimary) THEN ''
                ELSE format('ALTER TABLE %s ADD PRIMARY KEY (..), or ', leaf::regclass) END
           || format('ALTER TABLE %s REPLICA IDENTITY FULL;', leaf::regclass)
    FROM leaves
    WHERE needs_old
      AND (relreplident = 'n'
           OR relreplident = 'd'
              AND NOT EXISTS (SELECT FROM pg_index
                              WHERE indrelid = leaf AND indisprimary AND indimmediate)
           OR relreplident = 'i'
              AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = leaf AND indisreplident))
    UNION ALL
    SELECT format('replica identity of %s', leaf::regclass), lacking IS NULL,
           CASE relreplident WHEN 'f' THEN 'full' WHEN 'n' THEN 'nothing' ELSE 'by key' END
               || CASE WHEN lacking IS NULL THEN ''
                       ELSE format(', without target column "%s"', lacking) END,
           format('ALTER TABLE %s REPLICA IDENTITY FULL; without it deletes are not delivered, and '
                  'users who lose a row are not notified', leaf::regclass)
    FROM (SELECT relation, array_agg(attnum) AS numbers FROM targets WHERE is_in_old_row GROUP BY relation) AS wanted
    JOIN leaves ON leaves.relation = wanted.relation
    CROSS JOIN LATERAL clairon_internal.missing_in_old_row(wanted.relation, numbers, leaf) AS old (missing)
    LEFT JOIN LATERAL unnest(missing) AS t (lacking) ON true
    UNION ALL
    -- Finds changes of the key, the replica identity or the child tables since the rule was set.
    SELECT format('live rule %s on %s', name, relation), false,
           'lists of the rows may become stale: ' || faults.fault, rtrim(faults.hint, '.')
    FROM live_rules
    CROSS JOIN LATERAL clairon_internal.live_faults(relation, name) AS faults
    WHERE is_checked
    UNION ALL
    SELECT format('live rule checks of %s', owner::regrole), false,
           format('%s live rules were not checked: the owner has more than 1000', count(*)),
           'Remove rules with clairon.unwatch()'
    FROM live_rules WHERE NOT is_checked GROUP BY owner
    UNION ALL
    SELECT format('live rule %s on %s', rule.name, rule.relation), false,
           format('the rows cannot be read: owner %s lacks privileges', quote_ident(owner.rolname)),
           format('GRANT USAGE ON SCHEMA %I TO %I; GRANT SELECT ON %s TO %2$I;', nspname,
                  owner.rolname, rule.relation)
    FROM clairon.rule
    JOIN pg_class AS class ON class.oid = rule.relation
    JOIN pg_namespace AS space ON space.oid = class.relnamespace
    JOIN pg_roles AS owner ON owner.oid = class.relowner
    WHERE part = 0 AND rule.live
      AND NOT (has_table_privilege(owner.oid, class.oid, 'SELECT')
               AND has_schema_privilege(owner.oid, space.oid, 'USAGE'))
    UNION ALL
    SELECT format('source of rule %s on %s', rule.name, rule.relation), false,
           format('a table in schema %I can have the same metadata.source', conflict),
           format('SELECT clairon.unwatch(%L, %L); then rename the table or its schema',
                  rule.relation, rule.name)
    FROM (SELECT relation, clairon_internal.source_conflict(relation) AS conflict FROM watched) AS sources
    JOIN clairon.rule ON rule.relation = sources.relation
    WHERE part = 0 AND conflict IS NOT NULL
    UNION ALL
    SELECT format('live rule %s on %s', rule.name, rule.relation), false,
           'the rows cannot be read: ' || leaf.fault, rtrim(leaf.hint, '.')
    FROM watched
    CROSS JOIN LATERAL clairon_internal.live_foreign_leaves(watched.relation) AS leaf
    JOIN clairon.rule ON rule.relation = watched.relation
    WHERE is_live AND part = 0 AND rule.live
    UNION ALL
    -- An index on a partitioned table also exists on all partitions.
    SELECT DISTINCT format('index of live rule %s on %s', rule.name, rule.relation), false,
           format('%s has no index on the target column "%s": each read of the rows scans the table',
                  indexed, target),
           format('CREATE INDEX ON %s%s (%I);', indexed,
                  CASE WHEN is_array THEN ' USING gin' ELSE '' END, target)
    FROM live_targets
    JOIN pg_class AS class ON class.oid = live_targets.relation
    CROSS JOIN LATERAL clairon_internal.live_unindexed(live_targets.relation, live_targets.name)
    CROSS JOIN LATERAL (SELECT CASE relkind WHEN 'p' THEN live_targets.relation ELSE leaf END)
        AS created (indexed)
    JOIN clairon.rule ON rule.relation = live_targets.relation
        AND rule.target_column IS NOT DISTINCT FROM live_targets.target_column
        AND rule.target_columns IS NOT DISTINCT FROM live_targets.target_columns
    WHERE part = 0 AND rule.live
    UNION ALL
    SELECT DISTINCT format('filter index of live rule %s on %s', live_filters.name, live_filters.relation), false,
           format('%s has no index for filters: lists read all rows of a target', indexed),
           format('CREATE INDEX ON %s (%s);', indexed,
                  (SELECT string_agg(format('%I', name), ', ' ORDER BY place)
                   FROM unnest(columns) WITH ORDINALITY AS t (name, place)))
    FROM live_filters
    JOIN pg_class AS class ON class.oid = live_filters.relation
    CROSS JOIN LATERAL clairon_internal.live_unfiltered(live_filters.relation, live_filters.name)
    CROSS JOIN LATERAL (SELECT CASE relkind WHEN 'p' THEN live_filters.relation ELSE leaf END)
        AS created (indexed)
    UNION ALL
    -- The owner may have lost membership, or the table may have a new owner.
    SELECT format('privileges of rule %s on %s', rule.name, rule.relation), false,
           format('owner %s is not a member of clairon_app', owner.rolname),
           format('Remove the rule: SELECT clairon.unwatch(%L, %L); or allow it: GRANT clairon_app '
                  'TO %I;', rule.relation, rule.name, owner.rolname)
    FROM clairon.rule
    JOIN pg_class AS class ON class.oid = rule.relation
    JOIN pg_roles AS owner ON owner.oid = class.relowner
    JOIN pg_roles AS app ON app.rolname = 'clairon_app'
    WHERE part = 0 AND NOT pg_has_role(owner.oid, app.oid, 'USAGE')
      AND (target_column IS NULL AND target_columns IS NULL OR type = 2 OR priority = 0
           OR emitter <> 'clairon' OR emitter_column IS NOT NULL OR topic IS NOT NULL
           OR receipts <> 0 OR escalations IS NOT NULL
           OR ttl < interval '1 second' OR retry_limit > 100 OR ack_timeout < 1000)
$$;

-- A prefix for hints with commands that a standby rejects.
CREATE FUNCTION clairon_internal.where_written() RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN pg_is_in_recovery() THEN 'On the primary: ' ELSE '' END
$$;

-- A failure of these checks is a warning: notifications work now, but may fail later. For a
-- warning, doctor() returns ok = true and a hint. The hint of a passed check is null.
CREATE FUNCTION clairon_internal.is_warning(check_name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT check_name = 'max_slot_wal_keep_size' OR check_name LIKE 'privileges of rule %'
        OR check_name LIKE 'account of %' OR check_name LIKE 'clock of %'
        OR check_name LIKE 'source of rule %' OR check_name LIKE 'renames of rule %'
        OR check_name LIKE 'live rule checks of %' OR check_name LIKE 'index of live rule %'
        OR check_name LIKE 'filter index of live rule %'
$$;

-- Without statistics the planner overestimates rows, and JIT compilation would need seconds.
CREATE FUNCTION clairon.doctor()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT check_name, coalesce(ok, false) OR clairon_internal.is_warning(check_name), detail,
           CASE WHEN ok IS NOT TRUE THEN hint END
    FROM (SELECT * FROM clairon_internal.doctor_settings()
          UNION ALL SELECT * FROM clairon.doctor_standby() WHERE pg_is_in_recovery()
          UNION ALL SELECT * FROM clairon_internal.doctor_physical_slots() WHERE NOT pg_is_in_recovery()
          UNION ALL SELECT * FROM clairon_internal.doctor_extension()
          UNION ALL SELECT check_name, ok, detail, clairon_internal.where_written() || hint
                    FROM clairon_internal.doctor_roles()
          UNION ALL SELECT * FROM clairon_internal.doctor_slots()
          UNION ALL SELECT * FROM clairon_internal.doctor_accounts()
          UNION ALL SELECT check_name, ok, detail, clairon_internal.where_written() || hint
                    FROM clairon_internal.doctor_rules()) AS checks (check_name, ok, detail, hint)
$$;
