/* Roles and grants. Roles are shared by all databases of the cluster. */

DO $$
DECLARE
    wanted name;
BEGIN
    FOREACH wanted IN ARRAY '{clairon_app,clairon_relay}'::name[] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted) THEN
            EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', wanted);
        END IF;
    END LOOP;
END $$;

-- Creating a slot on a standby waits for the record that this function writes. PostgreSQL 15 has no
-- slots on standbys.
DO $$
BEGIN
    IF pg_catalog.to_regprocedure('pg_catalog.pg_log_standby_snapshot()') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION pg_catalog.pg_log_standby_snapshot() TO clairon_relay;
    END IF;
END $$;

-- ALTER DEFAULT PRIVILEGES may have granted more: a role that writes clairon.rule could read any table.
DO $$
DECLARE
    other oid;
BEGIN
    FOR other IN SELECT DISTINCT grantee
                 FROM (SELECT relnamespace, relowner, relacl FROM pg_catalog.pg_class
                       UNION ALL SELECT pronamespace, proowner, proacl FROM pg_catalog.pg_proc) AS object (space, owner, acl),
                      pg_catalog.aclexplode(acl)
                 WHERE space IN ('clairon'::pg_catalog.regnamespace, 'clairon_internal'::pg_catalog.regnamespace)
                   AND grantee <> owner AND grantee <> 0 LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON ALL TABLES IN SCHEMA clairon, clairon_internal FROM %s',
                                  other::pg_catalog.regrole);
        EXECUTE pg_catalog.format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clairon, clairon_internal FROM %s',
                                  other::pg_catalog.regrole);
    END LOOP;
END $$;
REVOKE ALL ON ALL TABLES IN SCHEMA clairon, clairon_internal FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clairon, clairon_internal FROM PUBLIC;
-- The functions of the view clairon.rules call others by name, as the current user.
GRANT USAGE ON SCHEMA clairon, clairon_internal TO PUBLIC;
-- These functions check that the caller owns the table.
GRANT EXECUTE ON FUNCTION clairon.watch, clairon.unwatch, clairon_internal.show_condition TO PUBLIC;
-- The view clairon.rules calls these functions as the current user.
GRANT EXECUTE ON FUNCTION clairon_internal.show_columns, clairon_internal.join_parts,
    clairon_internal.show_web_push, clairon_internal.web_push_members TO PUBLIC;
-- annotate allows only members of clairon_app to set an emitter.
GRANT EXECUTE ON FUNCTION clairon.annotate TO PUBLIC;
-- clairon.snapshot() reveals no more than pg_current_snapshot().
GRANT EXECUTE ON FUNCTION clairon.snapshot TO PUBLIC;
-- The view lists the rules on the current user's tables.
GRANT SELECT ON clairon.rules TO PUBLIC;
GRANT EXECUTE ON FUNCTION clairon.notify, clairon.once(text, text), clairon.once(text, bigint) TO clairon_app;
GRANT EXECUTE ON FUNCTION clairon.utf8, clairon.rows, clairon.live_rows, clairon.live_position,
    clairon.report_denials TO clairon_relay;
GRANT SELECT ON clairon.rule, clairon.rules, clairon.status, clairon.member TO clairon_relay;
GRANT SELECT, INSERT ON clairon.receipt TO clairon_relay;
GRANT SELECT ON clairon.receipt TO clairon_app;
GRANT EXECUTE ON FUNCTION
    clairon_internal.denial_report, clairon.denials, clairon_internal.doctor_accounts,
    clairon.doctor, clairon_internal.doctor_settings, clairon.doctor_standby, clairon_internal.doctor_replay,
    clairon_internal.doctor_physical_slots, clairon_internal.doctor_extension, clairon_internal.doctor_roles,
    clairon_internal.allowed_plugins, clairon_internal.doctor_awaited, clairon.doctor_hanging, clairon_internal.doctor_slots,
    clairon_internal.doctor_leaves, clairon_internal.json_within, clairon_internal.missing_in_old_row, clairon_internal.doctor_rules,
    clairon_internal.live_key, clairon_internal.deciding_columns, clairon_internal.live_faults, clairon_internal.live_unindexed,
    clairon_internal.live_unfiltered,
    clairon_internal.live_foreign_leaves, clairon_internal.source_conflict,
    clairon_internal.where_written, clairon_internal.is_warning, clairon.version TO clairon_relay;
