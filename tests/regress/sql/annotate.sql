-- clairon.annotate sets metadata of the notifications of rows that follow in the transaction.
\set SHOW_CONTEXT never
CREATE FUNCTION metadata() RETURNS TABLE (n text, operation text, emitter text, parent text, data text) LANGUAGE sql AS $$
    SELECT coalesce(line #>> '{payload,after,n}', line #>> '{payload,before,n}', line #>> '{payload,n}'), line #>> '{metadata,operation}',
           line #>> '{metadata,emitter}', substr(line #>> '{metadata,traceparent}', 37, 16), line #>> '{metadata,data}'
    FROM (SELECT data::json AS line FROM pg_logical_slot_get_changes('regress', NULL, NULL)) AS lines
$$;
CREATE FUNCTION parent(n int) RETURNS text LANGUAGE sql AS
    $$SELECT format('00-4bf92f3577b34da6a3ce929d0e0e4736-%s-01', lpad(n::text, 16, '0'))$$;
CREATE TABLE acts (n int PRIMARY KEY, who text);
ALTER TABLE acts REPLICA IDENTITY FULL;
SELECT clairon.watch('acts', 'ALL', ttl => '1 day', operations => '{create,update,delete,truncate}');

-- the order of the fields, all kinds of changes, and the end of the transaction
BEGIN;
INSERT INTO acts VALUES (1, 'before');
SELECT clairon.annotate('teacher "é"', parent(1), '{"request": {"id": 7}, "text": "a\"b é"}');
INSERT INTO acts VALUES (2, 'x');
COMMIT;
SELECT * FROM lines();
BEGIN;
SELECT clairon.annotate(NULL, parent(2));
UPDATE acts SET who = 'y' WHERE n = 2;
DELETE FROM acts WHERE n = 2;
SELECT clairon.annotate(data => '{"n": 1}');
TRUNCATE acts;
COMMIT;
INSERT INTO acts VALUES (3, 'without');
SELECT * FROM metadata();

-- a later call replaces all values; without values it ends the annotation
BEGIN;
SELECT clairon.annotate('a', parent(3), '{"n": 1}');
INSERT INTO acts VALUES (4, '');
SELECT clairon.annotate(data => '{}');
INSERT INTO acts VALUES (5, '');
SELECT clairon.annotate();
INSERT INTO acts VALUES (6, '');
COMMIT;
SELECT * FROM metadata();

-- subtransactions: rolled back, released, nested, of an exception
BEGIN;
SELECT clairon.annotate('top');
INSERT INTO acts VALUES (10, '');
SAVEPOINT a;
SELECT clairon.annotate('a');
INSERT INTO acts VALUES (11, '');
SAVEPOINT b;
SELECT clairon.annotate('b');
RELEASE b;
INSERT INTO acts VALUES (12, '');
ROLLBACK TO a;
INSERT INTO acts VALUES (13, '');
SELECT clairon.annotate('a again');
SAVEPOINT c;
INSERT INTO acts VALUES (14, '');
ROLLBACK TO c;
INSERT INTO acts VALUES (15, '');
SAVEPOINT d;
SELECT clairon.annotate('d');
RELEASE a;
INSERT INTO acts VALUES (16, '');
DO $$
BEGIN
    PERFORM clairon.annotate('undone');
    INSERT INTO acts VALUES (17, '');
    RAISE EXCEPTION 'undone';
EXCEPTION WHEN raise_exception THEN
    INSERT INTO acts VALUES (18, '');
END $$;
COMMIT;
BEGIN;
SELECT clairon.annotate('rolled back');
INSERT INTO acts VALUES (19, '');
ROLLBACK;
INSERT INTO acts VALUES (20, '');
BEGIN;
SELECT clairon.annotate('prepared');
INSERT INTO acts VALUES (21, '');
PREPARE TRANSACTION 'annotated';
INSERT INTO acts VALUES (22, '');
COMMIT PREPARED 'annotated';
SELECT * FROM metadata();

-- a rule with an emitter of its own, or of a column; each rule of a table; clairon.notify keeps its own values
SELECT clairon.watch('acts', 'ALL', name => 'own', emitter => '","source":"');
SELECT clairon.watch('acts', 'USER', 'who', name => 'column', emitter => ':who');
BEGIN;
INSERT INTO acts VALUES (30, 'someone');
SELECT clairon.annotate(traceparent => parent(4), data => '{"n": 30}');
INSERT INTO acts VALUES (31, 'someone');
SELECT clairon.annotate('","timestamp":"', parent(5), '{"n": 31}');
INSERT INTO acts VALUES (32, 'someone');
SELECT clairon.notify('ALL', NULL, '{"n": 33}', emitter => 'its own') IS NOT NULL;
SET LOCAL clairon.traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
SELECT clairon.notify('ALL', NULL, '{"n": 34}', emitter => 'its own') IS NOT NULL;
COMMIT;
SELECT * FROM metadata() ORDER BY n, emitter;
SELECT clairon.unwatch('acts', 'own'), clairon.unwatch('acts', 'column');

-- The frame of an annotated row has the flag 8 (FRAME_TRACED) if it has a traceparent.
BEGIN;
SELECT clairon.annotate('e', NULL, '{"n": 40}');
INSERT INTO acts VALUES (40, '');
SELECT clairon.annotate('e', parent(6));
INSERT INTO acts VALUES (41, '');
COMMIT;
WITH RECURSIVE frame (data) AS (
    SELECT string_agg(data, ''::bytea) FROM pg_logical_slot_get_binary_changes('regress', NULL, NULL, 'mode', 'framed')
    UNION ALL SELECT substr(data, 1 + ('x' || encode(substr(data, 1, 4), 'hex'))::bit(32)::int) FROM frame WHERE data <> '')
SELECT chr(get_byte(data, 4)) AS kind, get_byte(data, 7) & 8 AS traced FROM frame WHERE data <> '';

-- member names in data are not mistaken for those of metadata, for which the relay searches
BEGIN;
SELECT clairon.annotate(data => '{"a": {}, "payload": 1, "expiration": "x", "traceparent": ",\"payload\":", "b": [{"z": {}, "payload": {"c": 1, "payload": 2}}]}');
INSERT INTO acts VALUES (42, '');
COMMIT;
SELECT regexp_count(data, ',"payload":') AS payloads, regexp_count(data, ',"expiration":') AS expirations,
       regexp_count(data, ',"traceparent":') AS traceparents, substring(data FROM '"data":.*},"payload"') AS data, data::jsonb #> '{metadata,data}' AS read
FROM pg_logical_slot_get_changes('regress', NULL, NULL);

-- bounds
BEGIN;
SELECT clairon.annotate(repeat('é', 127), parent(7), jsonb_build_object('d', repeat('x', 4096 - 8)));
INSERT INTO acts VALUES (50, '');
COMMIT;
SELECT length(emitter), length(data) FROM metadata();
SELECT clairon.annotate(repeat('é', 128));
SELECT clairon.annotate('');
SELECT clairon.annotate(traceparent => '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7');
SELECT clairon.annotate(traceparent => '');
SELECT clairon.annotate(data => jsonb_build_object('d', repeat('x', 4096 - 7)));
SELECT clairon.annotate(data => '[1]');
SELECT clairon.annotate(data => 'null');

-- other roles than members of clairon_app cannot set an emitter
CREATE ROLE annotates;
GRANT INSERT ON acts TO annotates;
SET ROLE annotates;
SELECT clairon.annotate('me');
BEGIN;
SELECT clairon.annotate(NULL, parent(8), '{"n": 60}');
INSERT INTO acts VALUES (60, '');
COMMIT;
RESET ROLE;
GRANT clairon_app TO annotates;
SET ROLE annotates;
BEGIN;
SELECT clairon.annotate('me');
INSERT INTO acts VALUES (61, '');
COMMIT;
RESET ROLE;
SELECT * FROM metadata();
REVOKE ALL ON acts FROM annotates;
DROP ROLE annotates;

-- forged messages, and those of notify, are ignored
CREATE EXTENSION pgcrypto;
CREATE FUNCTION annotation(tag text, forged boolean) RETURNS void LANGUAGE sql AS $$
    SELECT pg_logical_emit_message(true, 'clairon.annotate', translate(encode('\x01' || substr(hmac(int4send(txid_current()::int) || rest,
               CASE WHEN forged THEN '\x00' ELSE secret END, 'sha256'), 1, 16) || rest, 'base64'), E'\n', ''))
    FROM clairon.secret, (SELECT convert_to(tag, 'UTF8') || '\x000100000000' || 'x') AS rests (rest)
$$;
BEGIN;
SELECT annotation('annotate', false);
INSERT INTO acts VALUES (70, '');
COMMIT;
BEGIN;
SELECT annotation('annotate', true);
INSERT INTO acts VALUES (71, '');
COMMIT;
BEGIN;
SELECT annotation('01234567', false);
SELECT pg_logical_emit_message(true, 'clairon.annotate', 'AQ') IS NOT NULL;
INSERT INTO acts VALUES (72, '');
COMMIT;
SELECT * FROM metadata();
DROP FUNCTION annotation(text, boolean);
DROP EXTENSION pgcrypto;

-- a streamed transaction has the same lines and frames
SET logical_decoding_work_mem = '64kB';
CREATE TABLE many (n int PRIMARY KEY, v text);
SELECT clairon.watch('many', 'ALL', emitter => ':v', columns => '{n}');
BEGIN;
INSERT INTO many SELECT i, repeat('v', 200) FROM generate_series(1, 1000) AS i;
SELECT clairon.annotate('top', parent(9), '{"at": "top"}');
INSERT INTO many SELECT i, repeat('v', 200) FROM generate_series(1001, 2000) AS i;
SAVEPOINT a;
SELECT clairon.annotate('a', parent(10));
INSERT INTO many SELECT i, repeat('v', 200) FROM generate_series(2001, 3000) AS i;
SAVEPOINT b;
SELECT clairon.annotate('b', data => '{"at": "b"}');
INSERT INTO many SELECT i, repeat('v', 200) FROM generate_series(3001, 4000) AS i;
RELEASE b;
INSERT INTO many SELECT i, repeat('v', 200) FROM generate_series(4001, 5000) AS i;
ROLLBACK TO a;
INSERT INTO many SELECT i, repeat('v', 200) FROM generate_series(5001, 6000) AS i;
SAVEPOINT c;
SELECT clairon.annotate('c');
RELEASE c;
INSERT INTO many SELECT i, repeat('v', 200) FROM generate_series(6001, 7000) AS i;
COMMIT;
INSERT INTO many VALUES (7001, '');
SELECT FROM pg_stat_reset_replication_slot('regress');
CREATE TABLE plain AS SELECT data FROM pg_logical_slot_peek_changes('regress', NULL, NULL, 'streaming', 'off');
CREATE TABLE frames AS SELECT string_agg(data, ''::bytea) AS data
    FROM pg_logical_slot_peek_binary_changes('regress', NULL, NULL, 'mode', 'framed', 'streaming', 'off');
SELECT string_agg(b.data, ''::bytea) = (SELECT data FROM frames) AS same
    FROM pg_logical_slot_peek_binary_changes('regress', NULL, NULL, 'mode', 'framed') AS b;
CREATE TABLE streamed AS SELECT data FROM pg_logical_slot_get_changes('regress', NULL, NULL);
SELECT count(*) FROM (TABLE plain EXCEPT TABLE streamed UNION ALL (TABLE streamed EXCEPT TABLE plain)) AS differences;
SELECT ((data::json #>> '{payload,after,n}')::int - 1) / 1000 AS thousand, left(data::json #>> '{metadata,emitter}', 10) AS emitter,
       right(data::json #>> '{metadata,traceparent}', 5) AS parent, data::json #>> '{metadata,data}' AS data, count(*)
FROM streamed GROUP BY 1, 2, 3, 4 ORDER BY 1;
SELECT stream_txns > 0 AS streamed FROM pg_stat_replication_slots WHERE slot_name = 'regress';
RESET logical_decoding_work_mem;
DROP TABLE acts, many, plain, frames, streamed;
DROP FUNCTION metadata(), parent(int);
SELECT count(*) FROM notes();
