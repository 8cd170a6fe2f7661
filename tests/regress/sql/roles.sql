-- No function needs a superuser at run time.
\set SHOW_CONTEXT never
CREATE ROLE an_app IN ROLE clairon_app;
CREATE ROLE a_relay IN ROLE clairon_relay;
CREATE ROLE an_owner;
CREATE ROLE a_stranger;
CREATE ROLE a_keeper IN ROLE pg_read_all_data, pg_write_all_data;
GRANT CREATE ON SCHEMA public TO an_owner;
SET ROLE an_owner;
CREATE TABLE owned (id int PRIMARY KEY);
SELECT clairon.watch('owned', 'USER', 'id');
SELECT clairon.notify('ALL', NULL, '{}');
SET ROLE a_stranger;
SELECT clairon.watch('owned', 'ALL', name => 'mine');
SELECT clairon.unwatch('owned');
SELECT clairon.once('a', 'b');
SELECT clairon_internal.set_rule('public', false, 'owned', 'ALL', NULL, 'mine', 'REALTIME', 'NORMAL', '{create}', NULL, NULL,
                        NULL, NULL, NULL, false, 0, 'FIXED', NULL, false, 'none', NULL, NULL, NULL);
SELECT clairon_internal.remove_rules('owned', NULL);
SELECT clairon_internal.show_condition('owned', 'default');
INSERT INTO clairon.rule SELECT * FROM clairon.rule;
SELECT * FROM clairon.secret;
SELECT clairon_internal.emit(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
-- the current user is checked, not the superuser who owns an index or a function
RESET ROLE;
GRANT CREATE ON SCHEMA public TO a_stranger;
SET ROLE a_stranger;
CREATE FUNCTION public.sneaks(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM clairon.watch('public.owned', 'ALL', name => 'sneaked');
    RETURN 'set';
EXCEPTION WHEN insufficient_privilege THEN
    RETURN SQLERRM;
END $$;
CREATE FUNCTION public.sneaks_for_others() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT public.sneaks(1)';
CREATE TABLE strange (i int);
INSERT INTO strange VALUES (1);
CREATE INDEX ON strange (sneaks(i));
RESET ROLE;
ANALYZE strange;
SET ROLE an_owner;
SELECT sneaks_for_others();
CREATE FUNCTION public.owner_watches() RETURNS void LANGUAGE sql SECURITY DEFINER AS
    $$SELECT clairon.watch('public.owned', 'USER', 'id', name => 'by its owner')$$;
SET ROLE an_app;
SELECT owner_watches();
RESET ROLE;
SELECT name FROM clairon.rules WHERE relation = 'owned'::regclass ORDER BY name;
SELECT clairon.unwatch('owned', 'by its owner');
DROP TABLE strange;
DROP FUNCTION owner_watches(), sneaks_for_others(), sneaks(int);
REVOKE CREATE ON SCHEMA public FROM a_stranger;
SET ROLE an_app;
SELECT clairon.notify('ALL', NULL, '{}', emitter => NULL) IS NOT NULL, clairon.once('a', 'b');
SELECT * FROM clairon.secret;
SELECT * FROM clairon.notify_key;
-- pg_read_all_data and pg_write_all_data do not allow forged messages
SET ROLE a_keeper;
SELECT count(*) FROM clairon.secret;
INSERT INTO clairon.secret VALUES (decode(repeat('00', 32), 'hex'));
SET ROLE a_relay;
SELECT count(*) FROM clairon.rules;
SELECT count(*) FROM clairon.member;
SELECT slot_name, active, retained_wal_bytes > 0 AS retains, lag_bytes >= 0 AS lags FROM clairon.status;
SELECT check_name, ok FROM clairon.doctor() WHERE check_name ~ '^(wal_level|slot|rule)' ORDER BY 1;
SELECT * FROM clairon.secret;
RESET ROLE;
SELECT hint FROM clairon.doctor() WHERE check_name = 'max_slot_wal_keep_size';
DROP TABLE owned;
SELECT check_name, ok, detail FROM clairon.doctor() WHERE check_name LIKE 'rule %';
DELETE FROM clairon.rule;
REVOKE CREATE ON SCHEMA public FROM an_owner;
DROP ROLE an_app, a_relay, an_owner, a_stranger, a_keeper;
SELECT count(*) FROM lines();
SELECT pg_drop_replication_slot('regress');
