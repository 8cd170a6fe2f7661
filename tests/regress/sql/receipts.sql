-- The receipts and escalations of rules and messages: valid values, errors that name the parameter, privileges.
\set SHOW_CONTEXT never
CREATE TABLE t (id int PRIMARY KEY, who text);
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, receipts => 'user', escalate_after => '{10 min,1 h}');
SELECT receipts, escalate_after FROM clairon.rules WHERE relation = 't'::regclass;
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, receipts => 'notification', escalate_after => '90 s');
SELECT receipts, escalate_after FROM clairon.rules WHERE relation = 't'::regclass;
SELECT clairon.watch('t', 'USER', 'who', ack_required => true);
SELECT receipts, escalate_after FROM clairon.rules WHERE relation = 't'::regclass;
-- without acknowledgements there are none
SELECT clairon.watch('t', 'USER', 'who', receipts => 'user');
SELECT clairon.watch('t', 'USER', 'who', escalate_after => '1 h');
SELECT clairon.notify('USER', '{u1}', '{}', receipts => 'notification');
SELECT clairon.notify('USER', '{u1}', '{}', escalate_after => '1 h');
-- invalid values
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, receipts => 'all');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, receipts => NULL);
SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, receipts => 'USER');
SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, receipts => NULL);
SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, escalate_after => 'soon');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, escalate_after => '0 s');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, escalate_after => '-1 min');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, escalate_after => '31 days');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, escalate_after => '{}');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, escalate_after => '{1 h,10 min}');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, escalate_after => '{1 h,1 h}');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, escalate_after => '{1 min,1 h,1 day}');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, escalate_after => '{1 h,NULL}');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, escalate_after => '{{1 min,1 h}}');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, escalate_after => '');
-- the frame of a notification
CREATE FUNCTION receipts_of(VARIADIC options text[]) RETURNS TABLE (flag boolean, receipts int, first bigint, second bigint)
    LANGUAGE sql AS $$
    SELECT get_byte(data, 7) & 128 <> 0, get_byte(data, 94), ('x' || encode(substr(data, 97, 4), 'hex'))::bit(32)::bigint,
           ('x' || encode(substr(data, 101, 4), 'hex'))::bit(32)::bigint
    FROM pg_logical_slot_get_binary_changes('regress', NULL, NULL, VARIADIC options) WHERE get_byte(data, 4) = ascii('N')
$$;
SELECT count(*) FROM pg_logical_slot_get_changes('regress', NULL, NULL);
SELECT clairon.watch('t', 'USER', 'who', ack_required => true, receipts => 'user', escalate_after => '{10 min,30 days}');
INSERT INTO t VALUES (1, 'u1');
SELECT * FROM receipts_of('mode', 'framed');
SELECT clairon.watch('t', 'USER', 'who', ack_required => true);
INSERT INTO t VALUES (2, 'u1');
SELECT * FROM receipts_of('mode', 'framed');
SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, escalate_after => '0.5 s') IS NOT NULL;
SELECT * FROM receipts_of('mode', 'framed');
SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, ack_timeout => '1 s', receipts => 'notification') IS NOT NULL;
SELECT * FROM receipts_of('mode', 'framed');
-- other tables of the extension cannot be watched, and an owner outside clairon_app cannot ask for receipts
SELECT clairon.watch('clairon.rule', 'ALL');
CREATE ROLE receipts_owner;
CREATE SCHEMA receipts AUTHORIZATION receipts_owner;
SET ROLE receipts_owner;
CREATE TABLE receipts.t (id int PRIMARY KEY, who text);
SELECT clairon.watch('receipts.t', 'USER', 'who', ack_required => true, receipts => 'none');
SELECT clairon.watch('receipts.t', 'USER', 'who', ack_required => true, receipts => 'user');
SELECT clairon.watch('receipts.t', 'USER', 'who', ack_required => true, escalate_after => '1 h');
RESET ROLE;
SELECT clairon.unwatch('receipts.t'), clairon.unwatch('t');
DROP SCHEMA receipts CASCADE;
DROP ROLE receipts_owner;
DROP TABLE t;
DROP FUNCTION receipts_of;
