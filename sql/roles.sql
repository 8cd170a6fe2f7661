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

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA clairon FROM PUBLIC;
GRANT USAGE ON SCHEMA clairon TO PUBLIC;
-- These functions check that the caller owns the table.
GRANT EXECUTE ON FUNCTION clairon.watch, clairon.unwatch, clairon.show_condition TO PUBLIC;
-- The view clairon.rules calls these functions as the current user.
GRANT EXECUTE ON FUNCTION clairon.show_columns, clairon.join_parts TO PUBLIC;
-- clairon.snapshot() reveals no more than pg_current_snapshot().
GRANT EXECUTE ON FUNCTION clairon.snapshot TO PUBLIC;
-- The view lists the rules on the current user's tables.
GRANT SELECT ON clairon.rules TO PUBLIC;
GRANT EXECUTE ON FUNCTION clairon.notify, clairon.once TO clairon_app;
GRANT EXECUTE ON FUNCTION clairon.utf8, clairon.rows, clairon.live_rows, clairon.report_denials TO clairon_relay;
GRANT SELECT ON clairon.rule, clairon.rules, clairon.status, clairon.member TO clairon_relay;
GRANT EXECUTE ON FUNCTION
    clairon.denial_report, clairon.denials, clairon.doctor_accounts,
    clairon.doctor, clairon.doctor_settings, clairon.doctor_standby, clairon.doctor_replay,
    clairon.doctor_physical_slots, clairon.doctor_extension, clairon.doctor_roles,
    clairon.allowed_plugins, clairon.doctor_awaited, clairon.doctor_slots,
    clairon.doctor_leaves, clairon.json_within, clairon.missing_in_old_row, clairon.doctor_rules,
    clairon.live_key, clairon.deciding_columns, clairon.live_faults, clairon.live_unindexed,
    clairon.live_foreign_leaves, clairon.source_conflict,
    clairon.where_written, clairon.is_warning, clairon.version TO clairon_relay;
