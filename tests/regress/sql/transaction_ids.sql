-- Frames contain the id of the top-level transaction, the name of the rule, and whether the rule is live.
CREATE TABLE l (id int PRIMARY KEY, owner text, state text, body text);
ALTER TABLE l REPLICA IDENTITY FULL;
CREATE VIEW live_frames AS
    SELECT kind, frame,
           number(frame, CASE kind WHEN 'M' THEN 32 ELSE 80 END, 8) AS xid,
           CASE kind WHEN 'N' THEN
               texts(frame, (104 + number(frame, 64, 2) + number(frame, 66, 2))::int, number(frame, 92, 2)::int) END AS rule,
           number(frame, 6, 2) & 64 <> 0 AS live,
           CASE kind WHEN 'N' THEN
               texts(frame, (104 + number(frame, 64, 2) + number(frame, 66, 2) + number(frame, 92, 2) + number(frame, 68, 4))::int,
                     2000000)::json #> '{payload,after}' END AS after
    FROM frames() WHERE kind NOT IN ('C', 'R');
CREATE TABLE xids (id serial, xid text);
SELECT clairon.watch('l', 'USER', 'owner', columns => '{id}', live => true);
SELECT clairon.watch('l', 'ALL', columns => '{id}', name => 'not live');
SELECT clairon.watch('l', 'ALL', columns => '{id}', name => E'é "\\\n', live => true);
BEGIN;
INSERT INTO xids (xid) SELECT pg_current_xact_id();
SAVEPOINT a;
INSERT INTO l VALUES (1, 'u1');
ROLLBACK TO a;
SAVEPOINT b;
INSERT INTO l VALUES (2, 'u2');
INSERT INTO clairon.member VALUES ('ROLE', 'live', 'u2');
SELECT clairon.notify('USER', '{u2}', '{}') IS NOT NULL;
COMMIT;
DELETE FROM clairon.member WHERE target = 'live';
SELECT kind, rule, live, after, xid::text = (SELECT xid FROM xids) AS of_first, xid <> 0 FROM live_frames;
-- a rule stops being live between two rows of a transaction
BEGIN;
INSERT INTO l VALUES (3, 'u3');
SELECT clairon.watch('l', 'USER', 'owner', columns => '{id}');
INSERT INTO l VALUES (4, 'u4');
COMMIT;
SELECT rule, live, after FROM live_frames WHERE rule <> E'é "\\\n' ORDER BY after ->> 'id', rule;
-- a streamed transaction
SELECT clairon.watch('l', 'USER', 'owner', columns => '{id}', live => true);
DELETE FROM xids;
BEGIN;
INSERT INTO xids (xid) SELECT pg_current_xact_id();
SAVEPOINT a;
INSERT INTO l SELECT i, 'u1', '', repeat('b', 500) FROM generate_series(1000, 2999) AS i;
RELEASE a;
SAVEPOINT b;
INSERT INTO clairon.member VALUES ('ROLE', 'live', 'u2');
INSERT INTO l VALUES (3000, 'u1');
COMMIT;
SET logical_decoding_work_mem = '64kB';
SELECT kind, rule, live, count(*), bool_and(xid::text = (SELECT xid FROM xids)) FROM live_frames GROUP BY kind, rule, live ORDER BY kind, rule COLLATE "C";
SELECT stream_txns > 0 FROM pg_stat_replication_slots WHERE slot_name = 'regress';
RESET logical_decoding_work_mem;
DELETE FROM clairon.member WHERE target = 'live';
DELETE FROM clairon.rule;
DROP VIEW live_frames;
DROP TABLE l, xids;
SELECT count(*) FROM notes();
-- the outcomes of transactions, and a position, for barriers
SELECT clairon.live_position('') ~ '^[0-9]+:[0-9]+:$' AS position;
SELECT split_part(clairon.live_position(pg_current_xact_id() || ',1,18446744073709551615'), ':', 3) AS outcomes;
CREATE TABLE outcome AS SELECT pg_current_xact_id() AS xid;
SELECT split_part(clairon.live_position(xid::text), ':', 3) AS outcome FROM outcome;
SELECT clairon.live_position('5,x');
DROP TABLE outcome;
