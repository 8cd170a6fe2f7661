-- DDL and changes of rules send a reload frame for each live rule whose rows they may change. A rename sends one
-- frame with the old name and one with the new name.
CREATE SCHEMA s;
CREATE FUNCTION reloads() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(
               texts(frame, 36, number(frame, 32, 2)::int) || ' ' ||
               texts(frame, (36 + number(frame, 32, 2))::int, 255), ', '
               ORDER BY number(frame, 16, 8))
    FROM frames('topic_prefix', '') WHERE kind = 'R'
$$;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TYPE pair AS (a int, m mood[]);
CREATE DOMAIN pairs AS pair[];
CREATE TABLE t (id int PRIMARY KEY, owner text, v int, w pairs);
CREATE TABLE other (id int PRIMARY KEY, v int);
ALTER TABLE t REPLICA IDENTITY FULL;
-- changes of rules
SELECT clairon.watch('t', 'USER', 'owner');
SELECT clairon.watch('t', 'ALL', name => 'not live', only_when => 'id > 1');
SELECT clairon.unwatch('t', 'not live');
SELECT reloads();
SELECT clairon.watch('t', 'USER', 'owner', live => true);
SELECT reloads();
SELECT clairon.watch('t', 'USER', 'owner', live => true);
SELECT reloads();
SELECT clairon.watch('t', 'USER', 'owner', live => true, columns => '{id,v}');
SELECT reloads();
SELECT clairon.watch('t', 'ALL', live => true, only_when => 'id > 1');
SELECT reloads();
SELECT clairon.watch('t', 'ALL');
SELECT reloads();
SELECT clairon.watch('t', 'ALL', live => true);
SELECT clairon.watch('t', 'USER', 'owner', name => 'mine', live => true);
SELECT reloads();
BEGIN;
SELECT clairon.unwatch('t', 'mine');
ROLLBACK;
SELECT reloads();
SELECT clairon.unwatch('t', 'mine');
SELECT reloads();
SELECT clairon.watch('t', 'USER', 'owner', name => 'mine', live => true);
SELECT reloads();
SELECT count(*) FROM clairon.reload;
-- a frame contains the id of the top-level transaction; text mode has no reload frames
BEGIN;
SAVEPOINT a;
ALTER TABLE t ADD n int DEFAULT 5;
RELEASE a;
CREATE TABLE xids AS SELECT pg_current_xact_id()::text AS xid;
COMMIT;
SELECT kind, number(frame, 24, 8)::text = xid AS of_transaction, number(frame, 16, 8) & 65535 AS sub
FROM frames() CROSS JOIN xids;
DROP TABLE xids;
ALTER TABLE t ALTER n SET DEFAULT 6;
SELECT count(*) FROM pg_logical_slot_get_changes('regress', NULL, NULL);
-- A publication FOR ALL TABLES needs a replica identity of each table whose rows are updated or deleted.
CREATE PUBLICATION everything FOR ALL TABLES;
SELECT relname FROM pg_class WHERE relnamespace = 'clairon'::regnamespace AND relkind = 'r' AND relreplident <> 'f'
    AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary);
SELECT clairon.watch('t', 'USER', 'owner', name => 'published', live => true, only_when => 'id > 0');
SELECT clairon.watch('t', 'USER', 'owner', name => 'published', live => true, only_when => 'id > 1');
ALTER TABLE t ALTER n SET DEFAULT 7;
SELECT clairon.unwatch('t', 'published');
INSERT INTO clairon.member VALUES ('ROLE', 'r', 'u');
UPDATE clairon.member SET user_id = 'v' WHERE target = 'r';
DELETE FROM clairon.member WHERE target = 'r';
SET client_min_messages = warning;
SELECT clairon.once('published', 1), clairon.notify('ALL', NULL, '{}', idempotency_key => 'published') IS NOT NULL, clairon.prune('0');
RESET client_min_messages;
SELECT reloads();
DROP PUBLICATION everything;
-- DDL on the table
ALTER TABLE t ALTER v TYPE text USING 'x' || v;
SELECT reloads();
ALTER TABLE t RENAME v TO vv;
SELECT reloads();
ALTER TABLE t DROP vv;
SELECT reloads();
ALTER TABLE other RENAME v TO vv;
ALTER TABLE other ADD n int DEFAULT 5;
CREATE TABLE copy AS SELECT FROM t;
DROP TABLE copy;
SELECT reloads();
ALTER TYPE mood RENAME VALUE 'bad' TO 'sad';
SELECT reloads();
ALTER TYPE pair ADD ATTRIBUTE z int;
DROP TYPE mood CASCADE;
SELECT reloads();
DROP DOMAIN pairs CASCADE;
SELECT reloads();
-- the names before and after a rename
ALTER TABLE t RENAME TO "é t";
SELECT reloads();
ALTER TABLE "é t" SET SCHEMA s;
SELECT reloads();
ALTER SCHEMA s RENAME TO s2;
SELECT reloads();
BEGIN;
ALTER SCHEMA s2 RENAME TO s;
ALTER TABLE s."é t" RENAME TO between;
ALTER TABLE s.between RENAME TO t;
COMMIT;
SELECT reloads();
DROP TABLE s.t;
SELECT reloads();
BEGIN;
CREATE TABLE t (id int PRIMARY KEY);
SELECT clairon.watch('t', 'ALL', live => true);
ALTER TABLE t RENAME TO u;
DROP TABLE u;
COMMIT;
SELECT reloads();

-- partitions
CREATE TABLE root (region text, id int, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE middle PARTITION OF root FOR VALUES IN ('b', 'c') PARTITION BY LIST (region);
CREATE TABLE leaf_a PARTITION OF root FOR VALUES IN ('a');
SELECT clairon.watch('root', 'ALL', live => true);
SELECT clairon.watch('leaf_a', 'ALL', name => 'leaf', live => true);
SELECT reloads();
CREATE TABLE leaf_b PARTITION OF middle FOR VALUES IN ('b');
CREATE TABLE leaf_c (LIKE root INCLUDING ALL);
SELECT reloads();
ALTER TABLE middle ATTACH PARTITION leaf_c FOR VALUES IN ('c');
SELECT reloads();
ALTER TABLE middle DETACH PARTITION leaf_c;
SELECT reloads();
ALTER TABLE leaf_b ADD CHECK (id > 0);
SELECT reloads();
ALTER TABLE root ADD v int DEFAULT 1;
SELECT reloads();
DROP TABLE leaf_b;
SELECT reloads();
ALTER TABLE root DETACH PARTITION leaf_a CONCURRENTLY;
SELECT reloads();
DROP TABLE leaf_c, leaf_a;
SELECT reloads();
DROP TABLE root;
SELECT reloads();

-- inheritance
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);
SELECT clairon.watch('parent', 'ALL', live => true);
SELECT reloads();
ALTER TABLE child NO INHERIT parent;
SELECT reloads();
ALTER TABLE child INHERIT parent;
SELECT reloads();
DROP TABLE child;
SELECT reloads();

-- a large, streamed transaction
SET logical_decoding_work_mem = '64kB';
BEGIN;
INSERT INTO parent SELECT generate_series(1, 3000);
ALTER TABLE parent ADD v int DEFAULT 5;
INSERT INTO parent SELECT generate_series(3001, 6000);
COMMIT;
SELECT count(*), count(DISTINCT output) AS distinct
FROM (SELECT string_agg(data, ''::bytea) FROM pg_logical_slot_peek_binary_changes('regress', NULL, NULL, 'mode', 'framed', 'streaming', 'off')
      UNION ALL
      SELECT string_agg(data, ''::bytea) FROM pg_logical_slot_peek_binary_changes('regress', NULL, NULL, 'mode', 'framed')) AS ways (output);
SELECT reloads();
RESET logical_decoding_work_mem;

-- the owner of a table needs no further privileges; DDL succeeds even if clairon.reload is damaged
CREATE ROLE reload_owner;
GRANT CREATE ON SCHEMA public TO reload_owner;
ALTER TABLE parent OWNER TO reload_owner;
SELECT reloads();
SET ROLE reload_owner;
INSERT INTO clairon.reload VALUES ('t', 'default');
SELECT clairon_internal.reload_lists('{}');
ALTER TABLE parent ADD w int;
RESET ROLE;
SELECT reloads();
ALTER TABLE clairon.reload ADD CHECK (source = 'none');
\set VERBOSITY terse
ALTER TABLE parent ADD x int;
\set VERBOSITY default
ALTER TABLE clairon.reload DROP CONSTRAINT reload_source_check;
INSERT INTO clairon.reload VALUES ('', ''), (repeat('x', 4000), 'long');
DELETE FROM clairon.reload;
SELECT reloads();
DROP TABLE parent, other;
DROP FUNCTION reloads;
DROP SCHEMA s CASCADE;
DROP TYPE pair;
REVOKE CREATE ON SCHEMA public FROM reload_owner;
DROP ROLE reload_owner;
DELETE FROM clairon.rule;
SELECT count(*) FROM notes();
