/* doctor: what would keep notifications from flowing, and what to do about it. */

CREATE FUNCTION clairon.doctor_settings()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'wal_level', setting = 'logical', 'wal_level is ' || setting,
           'Set wal_level = logical and restart the server (the primary too, for a standby).'
    FROM pg_settings WHERE name = 'wal_level'
    UNION ALL
    -- Only minors that know the setting have the list; elsewhere there is nothing to check.
    SELECT 'output_plugin_libraries',
           'clairon' = ANY (regexp_split_to_array(setting, E'\\s*,\\s*')),
           'output_plugin_libraries is ' || setting,
           'Add clairon to output_plugin_libraries and reload.'
    FROM pg_settings WHERE name = 'output_plugin_libraries'
    UNION ALL
    SELECT 'max_slot_wal_keep_size', setting <> '-1',
           'max_slot_wal_keep_size is ' || CASE setting WHEN '-1' THEN 'unlimited'
                                                        ELSE setting || ' MB' END,
           'Without a limit, a reader that stays away fills the disk; set one that outlasts '
           'the longest stop you expect.'
    FROM pg_settings WHERE name = 'max_slot_wal_keep_size'
    UNION ALL
    SELECT 'replication slots left',
           setting::int > (SELECT count(*) FROM pg_replication_slots),
           format('%s of %s are used', (SELECT count(*) FROM pg_replication_slots), setting),
           'Raise max_replication_slots, or drop slots that nobody reads.'
    FROM pg_settings WHERE name = 'max_replication_slots'
    UNION ALL
    SELECT 'hot_standby_feedback',
           -- Not from pg_stat_wal_receiver: that shows its slot to few.
           current_setting('hot_standby_feedback')::boolean
           AND current_setting('primary_slot_name') <> '',
           format('hot_standby_feedback is %s, primary_slot_name is "%s"',
                  current_setting('hot_standby_feedback'),
                  current_setting('primary_slot_name')),
           'A standby that decodes needs both: else the primary removes catalog rows that its '
           'slots still need, and they are lost.'
    WHERE pg_is_in_recovery()
$$;

CREATE FUNCTION clairon.doctor_slots()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'slot ' || slot_name, wal_status IS DISTINCT FROM 'lost'
               AND wal_status IS DISTINCT FROM 'unreserved',
           format('%s, %s of WAL held', CASE WHEN active THEN 'active' ELSE 'nobody reads it' END,
                  pg_size_pretty(retained_wal_bytes)),
           'A slot whose WAL is gone must be dropped and made again; readers see a gap.'
    FROM clairon.status
    UNION ALL
    SELECT 'slots', false, 'no slot of this database reads with clairon',
           'Start the relay (it makes one), or pg_create_logical_replication_slot(''clairon'', '
           '''clairon'').'
    WHERE NOT EXISTS (SELECT FROM clairon.status WHERE database = current_database())
$$;

CREATE FUNCTION clairon.doctor_rules()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'rules', count(*) > 0, count(*) || ' rules', 'Set one with clairon.watch().'
    FROM clairon.rule WHERE part = 0
    UNION ALL
    SELECT format('rule %s on %s', rule.name, rule.relation), false,
           'its table does not exist any more', 'Remove it: DELETE FROM clairon.rule.'
    FROM clairon.rule
    WHERE part = 0 AND NOT EXISTS (SELECT FROM pg_class WHERE oid = rule.relation)
    UNION ALL
    SELECT format('rule %s on %s', rule.name, rule.relation), false,
           'its table is unlogged by now: its changes are not in the WAL', 'ALTER TABLE .. SET LOGGED.'
    FROM clairon.rule
    WHERE part = 0 AND EXISTS (SELECT FROM pg_class WHERE oid = rule.relation AND relpersistence = 'u')
    UNION ALL
    SELECT format('rule %s on %s', rule.name, rule.relation), false,
           'its target column was dropped: it delivers nothing', 'Set it again with clairon.watch().'
    FROM clairon.rule
    WHERE part = 0 AND target_column IS NOT NULL AND EXISTS (SELECT FROM pg_class WHERE oid = relation)
      AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation
                      AND attnum = target_column AND NOT attisdropped)
    UNION ALL
    SELECT format('rule %s on %s', name, relation), false, 'its only_when is ' || only_when,
           'What it names was renamed, changed or dropped: set it again with clairon.watch().'
    FROM clairon.rules WHERE only_when LIKE '%(denies: %)'
    UNION ALL
    SELECT format('replica identity of %s', leaf.oid::regclass),
           leaf.relreplident = 'f' OR key.has_target,
           CASE leaf.relreplident WHEN 'f' THEN 'full' WHEN 'n' THEN 'nothing'
               ELSE 'by key' END
               || CASE WHEN leaf.relreplident <> 'f' AND NOT key.has_target
                       THEN ', which does not hold target column "' || attname || '"'
                       ELSE '' END,
           'Deletes cannot be routed, and those who lose a row are not told: '
           'ALTER TABLE .. REPLICA IDENTITY FULL.'
    FROM clairon.rule
    JOIN pg_attribute ON attrelid = relation AND attnum = target_column AND NOT attisdropped
    CROSS JOIN LATERAL (SELECT relid FROM pg_partition_tree(rule.relation) WHERE isleaf
                        UNION SELECT rule.relation
                        WHERE (SELECT relkind FROM pg_class WHERE oid = rule.relation) = 'r')
        AS tree
    JOIN pg_class AS leaf ON leaf.oid = tree.relid
    CROSS JOIN LATERAL (SELECT EXISTS (
        SELECT FROM pg_index JOIN pg_attribute AS part
            ON part.attrelid = leaf.oid AND part.attnum = ANY (indkey::int2[])
        WHERE indrelid = leaf.oid AND part.attname = pg_attribute.attname
          AND CASE leaf.relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident
              ELSE false END) AS has_target) AS key
$$;

CREATE FUNCTION clairon.doctor()
    RETURNS TABLE (check_name text, ok boolean, detail text, hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT check_name, ok, detail, CASE WHEN NOT ok THEN hint END
    FROM (SELECT * FROM clairon.doctor_settings()
          UNION ALL SELECT * FROM clairon.doctor_slots()
          UNION ALL SELECT * FROM clairon.doctor_rules()) AS checks (check_name, ok, detail, hint)
$$;
