-- The table of receipts: rules on it, pruning, privileges.
\set VERBOSITY terse
SET client_min_messages = warning;

\d clairon.receipt
SELECT relreplident FROM pg_class WHERE oid = 'clairon.receipt'::regclass;

-- Rules on it may not require acknowledgements; other tables of clairon are rejected.
SELECT clairon.watch('clairon.receipt', 'USER', 'emitter', ack_required => true);
SELECT clairon.watch('clairon.member', 'USER', 'user_id');
SELECT clairon.watch('clairon.receipt', 'USER', 'emitter', live => true);
SELECT name, targets, live FROM clairon.rules WHERE relation = 'clairon.receipt'::regclass;

INSERT INTO clairon.receipt VALUES
    ('018f0000-0000-7000-8000-000000000001', 'u1', 'acked', 1, now() - interval '3 days', now(), 0, 'app', 's', 't', NULL, NULL),
    ('018f0000-0000-7000-8000-000000000001', '', 'acked', 1, now(), NULL, 0, 'app', 's', 't', 1, 1);
INSERT INTO clairon.receipt VALUES ('018f0000-0000-7000-8000-000000000001', 'u1', 'acked', 1, now());

-- Pruning.
SELECT clairon.prune_receipts(NULL);
SELECT clairon.prune_receipts('-1 day');
SELECT clairon.prune_receipts('100000 years');
SELECT clairon.prune_receipts('1 day');
SELECT user_id, acked, recipients FROM clairon.receipt;

-- Erasure.
SELECT clairon.forget(NULL);
SELECT clairon.forget('');
INSERT INTO clairon.receipt VALUES
    ('018f0000-0000-7000-8000-000000000002', 'u1', 'forgotten', 1, now(), NULL, 0, 'app', 's', 't', NULL, NULL),
    ('018f0000-0000-7000-8000-000000000003', 'u2', 'acked', 1, now(), NULL, 0, 'u1', 's', 't', NULL, NULL);
SELECT clairon.forget('u1');
SELECT clairon.forget('u1');
SELECT user_id, emitter FROM clairon.receipt ORDER BY user_id;

-- Privileges.
CREATE ROLE receipts_app IN ROLE clairon_app;
CREATE ROLE receipts_relay IN ROLE clairon_relay;
CREATE ROLE receipts_other;
SELECT role, array_agg(privilege ORDER BY privilege) FILTER (WHERE has_table_privilege(role, 'clairon.receipt', privilege)) AS granted,
       has_function_privilege(role, 'clairon.prune_receipts(interval)', 'EXECUTE') AS prunes,
       has_function_privilege(role, 'clairon.forget(text)', 'EXECUTE') AS forgets
FROM unnest('{receipts_app,receipts_relay,receipts_other}'::text[]) AS role,
     unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE}'::text[]) AS privilege
GROUP BY role ORDER BY role;

-- The rows are part of dumps.
SELECT 'clairon.receipt'::regclass = ANY (extconfig) AS is_dumped FROM pg_extension WHERE extname = 'clairon';

DELETE FROM clairon.receipt;
SELECT clairon.unwatch('clairon.receipt');
DROP ROLE receipts_app, receipts_relay, receipts_other;
