-- A streamed transaction has the same lines, ordinals and ids as a transaction that is decoded at its commit.
SET logical_decoding_work_mem = '64kB';
SET client_min_messages = error;
CREATE TABLE ways (way text, number bigint, lsn pg_lsn, xid xid, data text);
-- Reads the slot with and without streaming, and returns the number of lines and of differences.
CREATE FUNCTION both_ways(OUT lines bigint, OUT ids bigint, OUT differ bigint, OUT frames_differ boolean,
                          OUT streamed boolean)
LANGUAGE plpgsql AS $$
DECLARE
    frames bytea;
BEGIN
    PERFORM pg_stat_reset_replication_slot('regress');
    SELECT string_agg(data, ''::bytea) INTO frames
        FROM pg_logical_slot_peek_binary_changes('regress', NULL, NULL, 'mode', 'framed', 'streaming', 'off');
    SELECT frames IS DISTINCT FROM string_agg(data, ''::bytea) INTO frames_differ
        FROM pg_logical_slot_peek_binary_changes('regress', NULL, NULL, 'mode', 'framed');
    DELETE FROM ways;
    INSERT INTO ways SELECT 'off', row_number() OVER (), c.*
        FROM pg_logical_slot_peek_changes('regress', NULL, NULL, 'streaming', 'off') AS c;
    INSERT INTO ways SELECT 'on', row_number() OVER (), c.*
        FROM pg_logical_slot_get_changes('regress', NULL, NULL) AS c;
    SELECT count(*), count(DISTINCT ways.data::json #>> '{metadata,id}') INTO lines, ids FROM ways WHERE way = 'on';
    SELECT count(*) INTO differ
        FROM (SELECT number, lsn, xid, data FROM ways WHERE way = 'on') AS a
        FULL JOIN (SELECT number, lsn, xid, data FROM ways WHERE way = 'off') AS b USING (number, lsn, xid, data)
        WHERE a.data IS NULL OR b.data IS NULL;
    SELECT stream_txns > 0 INTO streamed FROM pg_stat_replication_slots WHERE slot_name = 'regress';
END $$;

CREATE TABLE big (id int PRIMARY KEY, who text, v text);
CREATE TABLE other (id int, who text[], v text);
CREATE TABLE unwatched (id int, v text);
-- with every setting that notifications contain
SELECT clairon.watch('big', 'USER', 'who', priority => 'HIGH', emitter => ':who', topic => 'own', ttl => '1 day', ack_required => true,
                     retry_limit => 7, backoff => 'LINEAR', ack_timeout => '9 s', receipts => 'user', escalate_after => '{10 min,1 h}');
SELECT clairon.watch('big', 'STRUCTURE', '=s1,é', name => 'z', only_when => 'id % 2 = 0', live => true,
                     type => 'NOTIFICATION', web_push => '{"title":":v"}');
SELECT clairon.watch('other', 'USER', 'who', operations => '{create,update,delete,truncate}');

-- rows of an unwatched table also count in the ordinals
BEGIN;
INSERT INTO unwatched SELECT i, repeat('x', 100) FROM generate_series(1, 3000) AS i;
INSERT INTO other VALUES (1, '{a,b}', 'one');
COMMIT;
SELECT * FROM both_ways();

-- every kind of change, and rollbacks: in a block, across blocks, within a committed savepoint, of the transaction
BEGIN;
INSERT INTO big SELECT i, 'u' || i % 7, repeat(md5(i::text), 3) FROM generate_series(1, 3000) AS i;
INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'streamed');
SELECT clairon.notify('USER', '{u1}', '{"n": 1}', ttl => '1 hour') IS NOT NULL AS sent;
SAVEPOINT a;
UPDATE big SET who = 'lost' WHERE id % 3 = 0;
SELECT clairon.notify('USER', '{u1}', '{"n": "lost"}') IS NOT NULL AS sent;
INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'lost');
SAVEPOINT b;
DELETE FROM big WHERE id > 1500;
RELEASE b;
ROLLBACK TO a;
UPDATE big SET who = 'moved' WHERE id % 3 = 0;
SAVEPOINT c;
INSERT INTO other SELECT i, ARRAY['x' || i, 'y'], repeat('z', 200) FROM generate_series(1, 500) AS i;
SAVEPOINT d;
INSERT INTO other SELECT i, '{lost}', repeat('z', 200) FROM generate_series(1, 500) AS i;
ROLLBACK TO d;
TRUNCATE other;
RELEASE c;
DELETE FROM big WHERE id <= 100;
SELECT clairon.notify('ROLE', '{r}', '{"n": 2}', ack_required => true) IS NOT NULL AS sent;
DELETE FROM clairon.member WHERE user_id = 'streamed';
COMMIT;
BEGIN;
UPDATE big SET v = 'undone';
ROLLBACK;
SELECT * FROM both_ways();

-- a savepoint for each row, most of them rolled back
DO $$
BEGIN
    FOR i IN 10000 .. 12999 LOOP
        BEGIN
            INSERT INTO big VALUES (i, 'u', repeat('p', 100));
            IF i % 10 <> 0 THEN
                RAISE EXCEPTION 'undone';
            END IF;
        EXCEPTION WHEN raise_exception THEN
            NULL;
        END;
    END LOOP;
END $$;
SELECT * FROM both_ways();

-- TOASTed values larger than the memory limit; unchanged values, and values that are too large
ALTER TABLE big ALTER v SET STORAGE EXTERNAL;
BEGIN;
INSERT INTO big SELECT i, 'u', repeat(md5(i::text), 5000) FROM generate_series(20000, 20009) AS i;
UPDATE big SET who = 'w' WHERE id >= 20000;
INSERT INTO big VALUES (20010, 'u', repeat('y', 2000000));
SAVEPOINT a;
UPDATE big SET v = v || 'lost' WHERE id >= 20000;
ROLLBACK TO a;
UPDATE big SET v = v || '!' WHERE id >= 20000;
COMMIT;
SELECT * FROM both_ways();
SELECT count(*) FILTER (WHERE data LIKE '%"unchanged":["v"]%') > 0 AS unchanged,
       count(*) FILTER (WHERE data LIKE '%"truncated":["v"]%') > 0 AS truncated FROM ways WHERE way = 'on';

-- the catalog and the rules change within the transaction, and change back
BEGIN;
INSERT INTO big SELECT i, 'u', repeat('a', 100) FROM generate_series(30000, 30999) AS i;
ALTER TABLE big ADD COLUMN late int DEFAULT 5;
INSERT INTO big SELECT i, 'u', repeat('b', 100) FROM generate_series(31000, 31999) AS i;
SAVEPOINT a;
ALTER TABLE big RENAME v TO w;
SELECT clairon.watch('big', 'ALL', name => 'z');
CREATE TABLE passing (id int, v text);
SELECT clairon.watch('passing', 'ALL');
INSERT INTO passing SELECT i, repeat('p', 100) FROM generate_series(1, 1000) AS i;
INSERT INTO big SELECT i, 'u', repeat('c', 100) FROM generate_series(32000, 32999) AS i;
ROLLBACK TO a;
INSERT INTO big SELECT i, 'u', repeat('d', 100) FROM generate_series(33000, 33999) AS i;
SELECT clairon.unwatch('big', 'z');
INSERT INTO big SELECT i, 'u', repeat('e', 100) FROM generate_series(34000, 34999) AS i;
ALTER TABLE big ALTER late TYPE text USING 'text';
SELECT clairon.watch('big', 'ALL', name => 'y');
INSERT INTO big SELECT i, 'u', repeat('f', 100) FROM generate_series(35000, 35999) AS i;
CREATE TYPE mood AS ENUM ('calm');
CREATE TABLE fresh (id int, m mood);
SELECT clairon.watch('fresh', 'ALL');
INSERT INTO fresh SELECT i, 'calm' FROM generate_series(1, 1000) AS i;
COMMIT;
SELECT * FROM both_ways();
SELECT left(data::json #>> '{payload,after,v}', 1) AS phase, data::json #>> '{routing,audience,type}' AS audience,
       data::json #>> '{payload,after,late}' AS late, data::json #>> '{payload,after,m}' AS m, count(*)
FROM ways WHERE way = 'on' GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;

-- a prepared transaction is sent at COMMIT PREPARED, and never after ROLLBACK PREPARED
BEGIN;
INSERT INTO big SELECT i, 'prepared', repeat('a', 100) FROM generate_series(40000, 41999) AS i;
SAVEPOINT a;
INSERT INTO big SELECT i, 'lost', repeat('a', 100) FROM generate_series(42000, 43999) AS i;
ROLLBACK TO a;
PREPARE TRANSACTION 'kept';
BEGIN;
INSERT INTO other SELECT i, '{lost}', repeat('a', 100) FROM generate_series(1, 2000) AS i;
PREPARE TRANSACTION 'undone';
SELECT lines FROM both_ways();
COMMIT PREPARED 'kept';
ROLLBACK PREPARED 'undone';
-- more changes after the confirmed LSN, because the server selects a transaction to stream while it reads them
INSERT INTO unwatched SELECT i, repeat('x', 100) FROM generate_series(1, 3000) AS i;
SELECT * FROM both_ways();
SELECT data::json #>> '{routing,audience,targets,0}' AS target, count(*) FROM ways WHERE way = 'on' GROUP BY 1 ORDER BY 1;

-- warnings are raised at the commit, and not for rolled back changes
SELECT clairon.unwatch('big');
SELECT clairon.watch('big', 'USER', 'v', operations => '{update}', name => 'by v');
BEGIN;
SAVEPOINT a;
UPDATE big SET who = 'undone' WHERE id >= 20000 AND id < 20010;
ROLLBACK TO a;
INSERT INTO unwatched SELECT i, repeat('x', 100) FROM generate_series(1, 3000) AS i;
UPDATE big SET who = 'stands' WHERE id BETWEEN 20000 AND 20000;
COMMIT;
RESET client_min_messages;
SELECT data FROM pg_logical_slot_get_changes('regress', NULL, NULL);

-- A rule is replaced in a savepoint that is rolled back, and is removed later. PostgreSQL 15.18 keeps the
-- savepoint's change of the rule's row, so decoding would not find the rule in between. The transaction
-- is not streamed.
SELECT clairon.watch('big', 'USER', '=by rule', operations => '{create}', name => 'removed');
SELECT count(*) FROM pg_logical_slot_get_changes('regress', NULL, NULL);
SELECT FROM pg_stat_reset_replication_slot('regress');
BEGIN;
SAVEPOINT a;
SELECT clairon.watch('big', 'USER', '=lost', name => 'removed');
ROLLBACK TO a;
CREATE TABLE passing (id int);
INSERT INTO big SELECT i, 'u', repeat('a', 100) FROM generate_series(60000, 61999) AS i;
SELECT clairon.unwatch('big', 'removed');
INSERT INTO big SELECT i, 'u', repeat('b', 100) FROM generate_series(62000, 62999) AS i;
COMMIT;
SELECT data::json #>> '{routing,audience,targets,0}' AS target, count(*)
FROM pg_logical_slot_get_changes('regress', NULL, NULL) GROUP BY 1;
SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = 'regress';
DROP TABLE passing;

-- a debug setting of the server: each change is a separate block
\o /dev/null
SELECT set_config(name, 'immediate', false) FROM pg_settings
WHERE name IN ('debug_logical_replication_streaming', 'logical_replication_mode', 'logical_decoding_mode');
\o
SELECT clairon.watch('big', 'USER', '=u', name => 'by hand');
BEGIN;
INSERT INTO big SELECT i, 'u', repeat('x', 100) FROM generate_series(50000, 50999) AS i;
SAVEPOINT a;
INSERT INTO big VALUES (51000, 'lost');
SELECT clairon.watch('big', 'USER', '=lost', name => 'by hand');
INSERT INTO big VALUES (51001, 'lost');
ROLLBACK TO a;
INSERT INTO big VALUES (51002, 'u');
COMMIT;
SELECT * FROM both_ways();

DROP TABLE ways, big, other, unwatched, fresh;
DROP TYPE mood;
DROP FUNCTION both_ways();
DELETE FROM clairon.rule;
RESET logical_decoding_work_mem;
SELECT count(*) FROM notes();
