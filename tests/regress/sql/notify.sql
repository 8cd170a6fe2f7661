-- Functions notify, once and prune.
\set SHOW_CONTEXT never
SELECT clairon.notify('USER', '{u2,u1,NULL,"",u2}', '{"b": 1, "a": {"x": [1.50, null, "é\"\n"]}}') IS NOT NULL;
SELECT clairon.notify('ALL', NULL, '{}', 'SYSTEM', 'HIGH', source => 'so"urce', topic => 'own.topic',
                      emitter => 'me', ttl => '1 day', ack_required => true, retry_limit => 3,
                      backoff => 'FIXED') IS NOT NULL;
-- a rollback discards notifications
BEGIN;
SELECT clairon.notify('USER', '{u1}', '{"rolled": "back"}') IS NOT NULL;
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT clairon.notify('USER', '{u1}', '{"rolled": "back too"}') IS NOT NULL;
ROLLBACK TO s;
SELECT clairon.notify('USER', '{u1}', '{"stays": true}') IS NOT NULL;
COMMIT;
SELECT clairon.notify('USER', '{}', '{"to": "nobody"}') IS NOT NULL;
SELECT * FROM lines();

-- a repeated key returns the first id and sends no notification
SELECT clairon.notify('USER', '{u1}', '{"n": 1}', idempotency_key => 'k1') AS first \gset
SELECT clairon.notify('USER', '{u1}', '{"n": 2}', idempotency_key => 'k1') = :'first';
BEGIN;
SELECT clairon.notify('USER', '{u1}', '{"n": 3}', idempotency_key => 'k2') IS NOT NULL;
ROLLBACK;
SELECT clairon.notify('USER', '{u1}', '{"n": 4}', idempotency_key => 'k2') IS NOT NULL;
SELECT * FROM notes();

-- ids are UUIDs of version 7
SELECT substr(:'first', 15, 1);

SELECT clairon.notify('USER', '{u1}', '[1]');
SELECT clairon.notify('USER', '{u1}', NULL);
SELECT clairon.notify('ALL', '{u1}', '{}');
SELECT clairon.notify('USER', '{u1}', '{}', 'LOUD');
SELECT clairon.notify('USER', '{u1}', '{}', source => '');
SELECT clairon.notify('USER', '{u1}', '{}', idempotency_key => '');
SELECT clairon.notify('USER', '{u1}', '{}', ttl => '292270 years -105216200 days');
SELECT clairon.notify('USER', ARRAY[repeat('x', 2000)], '{}');
SELECT clairon.notify('USER', '{u1}', jsonb_build_object('x', repeat('x', 1100000)));

-- a forged message is rejected, and so is a copy of a valid one
SELECT pg_logical_emit_message(true, 'clairon', 'forged') IS NOT NULL;
SELECT pg_logical_emit_message(true, 'clairon', decode(repeat('01', 200), 'hex')) IS NOT NULL;
SELECT pg_logical_emit_message(true, 'other', 'not ours') IS NOT NULL;
SELECT pg_logical_emit_message(false, 'clairon', 'not transactional') IS NOT NULL;
SELECT clairon.notify('USER', '{u1}', '{"still": "works"}') IS NOT NULL;
SELECT * FROM notes();
SELECT slot_name FROM pg_create_logical_replication_slot('spy', 'test_decoding');
SELECT clairon.notify('USER', '{u1}', '{"to be": "copied"}') IS NOT NULL;
SELECT pg_logical_emit_message(true, 'clairon', substr(data, position('content:' IN data) + 8))
           IS NOT NULL AS copied
FROM pg_logical_slot_get_binary_changes('spy', NULL, NULL, 'force-binary', 'on')
WHERE position('clairon' IN data) > 0;
SELECT pg_drop_replication_slot('spy');
SELECT * FROM notes();

-- once returns true for the first call with a key
SELECT clairon.once('order', '1'), clairon.once('order', '2'), clairon.once('bill', '1');
SELECT clairon.once('order', '1');
BEGIN;
SELECT clairon.once('order', '3');
ROLLBACK;
SELECT clairon.once('order', '3');
-- concurrent calls: the second waits for the first
SELECT dblink_connect('other', 'dbname=' || current_database());
BEGIN;
SELECT clairon.once('order', '4');
SELECT dblink_send_query('other', $$SELECT clairon.once('order', '4')$$);
ROLLBACK;
SELECT * FROM dblink_get_result('other') AS t (first boolean);
SELECT dblink_disconnect('other');
SELECT clairon.once('number', 7), clairon.once('number', '7'), clairon.once('number', 7::smallint);
SELECT clairon.once('number', 7), clairon.once('number', '7'), clairon.once('number', 7::smallint);
SELECT clairon.once(NULL, '1');
SELECT clairon.once('order', '');

UPDATE clairon.once_key SET created_at = now() - interval '40 days' WHERE entity = 'order' AND key = '1';
SET client_min_messages = warning; -- the NOTICE contains a time
SELECT clairon.prune('30 days');
RESET client_min_messages;
SELECT clairon.once('order', '1');
SELECT clairon.prune('-1 day');
SELECT clairon.prune('100000 years');
SELECT count(*) FROM lines();

-- a group whose name is probably a mistake
SELECT clairon.notify('USERS', '{u1}', '{}') IS NOT NULL AS sent;
SELECT clairon.notify('alls', '{u1}', '{}') IS NOT NULL AS sent;
SELECT clairon.notify('ROLE', '{admin}', '{}') IS NOT NULL AS sent;
SELECT count(*) FROM notes();

-- a group without members, of a kind with members
INSERT INTO clairon.member VALUES ('ROLE', 'teacher', 'u1');
SELECT clairon.notify('ROLE', '{teacher}', '{}') IS NOT NULL AS sent;
SELECT clairon.notify('ROLE', '{teacher,admni,"tea cher"}', '{}', idempotency_key => 'admni') IS NOT NULL AS sent;
SELECT clairon.notify('ROLE', '{teacher,admni}', '{}', idempotency_key => 'admni') IS NOT NULL AS sent;
SELECT clairon.notify('ROLE', ARRAY(SELECT 'r' || n FROM generate_series(1, 11) AS n), '{}') IS NOT NULL AS sent;
DELETE FROM clairon.member;
SELECT count(*) FROM notes();
