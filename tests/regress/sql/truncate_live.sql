-- A TRUNCATE that a live rule does not send as a notification has one reload frame per rule.
CREATE SCHEMA s;
CREATE VIEW reloads AS
    SELECT kind, number(frame, 16, 8) >> 16 AS change, number(frame, 16, 8) & 65535 AS sub,
           CASE kind WHEN 'R' THEN number(frame, 24, 8) END AS xid,
           CASE kind WHEN 'R' THEN texts(frame, 36, number(frame, 32, 2)::int)
                     ELSE texts(frame, (104 + number(frame, 64, 2))::int, number(frame, 66, 2)::int) END AS source,
           CASE kind WHEN 'R' THEN texts(frame, (36 + number(frame, 32, 2))::int, 255) END AS rule,
           CASE kind WHEN 'N' THEN number(frame, 58, 1) END AS operation
    FROM frames('topic_prefix', '')
    -- without the reload frames of rule changes and DDL, see reload_ddl.sql
    WHERE kind <> 'C' AND NOT (kind = 'R' AND number(frame, 16, 8) & 65535 = 0);
CREATE TABLE s."é l" (id int PRIMARY KEY, owner text);
ALTER TABLE s."é l" REPLICA IDENTITY FULL;
SELECT clairon.watch('s."é l"', 'USER', 'owner', live => true);
SELECT clairon.watch('s."é l"', 'USER', 'owner', name => E'b "\\\n', live => true, only_when => 'id > 1');
SELECT clairon.watch('s."é l"', 'USER', 'owner', name => 'not live');
SELECT clairon.watch('s."é l"', 'ALL', name => 'sent', live => true, operations => '{create,update,delete,truncate}');
SELECT clairon.watch('s."é l"', 'ALL', name => 'silent', live => true);
TRUNCATE s."é l";
SELECT kind, change, sub, source, rule, operation FROM reloads;
-- text mode has no reload frames
TRUNCATE s."é l";
SELECT source, operation, targets FROM notes();
-- frames are in order with the surrounding changes and contain the id of the top-level transaction; a rolled back TRUNCATE sends none
SELECT clairon.unwatch('s."é l"', name) FROM unnest(ARRAY[E'b "\\\n', 'not live', 'sent', 'silent']) AS name;
CREATE TABLE xids (xid text);
BEGIN;
INSERT INTO xids SELECT pg_current_xact_id();
INSERT INTO s."é l" VALUES (1, 'u1');
SAVEPOINT a;
TRUNCATE s."é l";
ROLLBACK TO a;
SAVEPOINT b;
TRUNCATE s."é l";
RELEASE b;
INSERT INTO s."é l" VALUES (2, 'u1');
COMMIT;
BEGIN;
TRUNCATE s."é l";
ROLLBACK;
SELECT kind, source, rule, xid::text = (SELECT xid FROM xids) AS of_first FROM reloads;
-- the rule as of the WAL position applies: it is live only for the second TRUNCATE
BEGIN;
SELECT clairon.watch('s."é l"', 'USER', 'owner');
TRUNCATE s."é l";
SELECT clairon.watch('s."é l"', 'USER', 'owner', live => true);
TRUNCATE s."é l";
SELECT clairon.watch('s."é l"', 'USER', 'owner');
TRUNCATE s."é l";
COMMIT;
SELECT kind, count(*) FROM reloads GROUP BY kind;
-- a large, streamed transaction
SELECT clairon.watch('s."é l"', 'USER', 'owner', live => true);
SET logical_decoding_work_mem = '64kB';
BEGIN;
INSERT INTO s."é l" SELECT i, 'u1' FROM generate_series(1, 3000) AS i;
TRUNCATE s."é l";
INSERT INTO s."é l" SELECT i, 'u1' FROM generate_series(1, 3000) AS i;
COMMIT;
SELECT FROM pg_stat_reset_replication_slot('regress');
SELECT count(*), count(DISTINCT output) AS distinct
FROM (SELECT string_agg(data, ''::bytea) FROM pg_logical_slot_peek_binary_changes('regress', NULL, NULL, 'mode', 'framed', 'streaming', 'off')
      UNION ALL
      SELECT string_agg(data, ''::bytea) FROM pg_logical_slot_peek_binary_changes('regress', NULL, NULL, 'mode', 'framed')) AS ways (output);
SELECT stream_txns > 0 AS streamed FROM pg_stat_replication_slots WHERE slot_name = 'regress';
SELECT count(*) AS lines FROM pg_logical_slot_peek_changes('regress', NULL, NULL);
SELECT kind, count(*), min(rule) AS rule, min(change) AS first, max(change) AS last FROM reloads GROUP BY kind ORDER BY kind;
RESET logical_decoding_work_mem;
-- once a transaction; above 100 rules of an owner in a second, one frame for all rules of the table
SELECT count(clairon.watch('s."é l"', 'USER', 'owner', name => 'r' || i, live => true)) FROM generate_series(1, 149) AS i;
BEGIN;
TRUNCATE s."é l";
TRUNCATE s."é l";
COMMIT;
SELECT kind, count(*), count(DISTINCT rule) AS rules, count(*) FILTER (WHERE rule = '') AS of_all FROM reloads GROUP BY kind;
DROP TABLE s."é l", xids;

-- partitions: the rows leave the list of the root
CREATE TABLE root (region text, id int, who text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE leaf_a PARTITION OF root FOR VALUES IN ('a');
CREATE TABLE middle PARTITION OF root FOR VALUES IN ('b') PARTITION BY LIST (region);
CREATE TABLE leaf_b PARTITION OF middle FOR VALUES IN ('b');
SELECT clairon.watch('root', 'USER', 'region', live => true);
SELECT clairon.watch('root', 'ALL', name => 'all', live => true, operations => '{create,update,delete,truncate}');
SELECT clairon.watch('leaf_a', 'USER', 'region', name => 'leaf', live => true);
TRUNCATE leaf_a;
SELECT kind, change, source, rule, operation FROM reloads;
TRUNCATE middle;
SELECT kind, change, source, rule, operation FROM reloads;
TRUNCATE root, leaf_b;
SELECT kind, change, source, rule, operation FROM reloads;
DROP TABLE root;

-- inheritance: the list of the parent contains the rows of its child tables
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);
SELECT clairon.watch('parent', 'ALL', live => true, operations => '{create,update,delete,truncate}');
TRUNCATE child;
SELECT kind, source, rule, operation FROM reloads;
TRUNCATE ONLY parent;
SELECT kind, source, rule, operation FROM reloads;
DROP TABLE child, parent;
DROP VIEW reloads;
DROP SCHEMA s;
DELETE FROM clairon.rule;
SELECT count(*) FROM notes();
