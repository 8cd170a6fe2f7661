-- watch warns about changes that would not be delivered. Errors name the parameter and omit the PL/pgSQL context.
\set VERBOSITY default
CREATE TABLE plain (id int PRIMARY KEY, owner text, state text);
-- target and condition columns that are not in the old row
SELECT clairon.watch('plain', 'USER', 'owner');
SELECT clairon.watch('plain', 'USER', 'owner', operations => '{create}');
SELECT clairon.watch('plain', 'USER', 'id');
SELECT clairon.watch('plain', 'USER', '=u1', only_when => $$state = 'open' AND id > 0$$);
SELECT clairon.watch('plain', 'ALL', columns => '{id,owner}');
ALTER TABLE plain REPLICA IDENTITY FULL;
SELECT clairon.watch('plain', 'USER', 'owner', only_when => $$state = 'open'$$);
CREATE TABLE parts (region text, id int, owner text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
SELECT clairon.watch('parts', 'USER', 'owner');
CREATE TABLE part_a PARTITION OF parts FOR VALUES IN ('a');
SELECT clairon.watch('parts', 'USER', 'owner');
-- a partition or child table has a separate replica identity
CREATE TABLE part_b PARTITION OF parts FOR VALUES IN ('b') PARTITION BY RANGE (id);
CREATE TABLE part_c (LIKE parts INCLUDING ALL);
CREATE TABLE part_d (LIKE parts INCLUDING ALL);
ALTER TABLE part_d REPLICA IDENTITY FULL;
ALTER TABLE parts ATTACH PARTITION part_c FOR VALUES IN ('c');
ALTER TABLE parts ATTACH PARTITION part_d FOR VALUES IN ('d');
CREATE TABLE part_b1 PARTITION OF part_b FOR VALUES FROM (1) TO (2);
CREATE TABLE child () INHERITS (plain);
CREATE TABLE stranger (LIKE plain);
ALTER TABLE stranger INHERIT plain;
SELECT clairon.watch('plain', 'USER', 'owner', operations => '{create}');
CREATE TABLE without_deletes () INHERITS (plain);
DROP TABLE child, stranger, without_deletes;
-- a condition that is stored in several parts
SELECT clairon.watch('plain', 'ALL', only_when => 'id IN (' || repeat('1000000,', 1000) || $$1) AND state = 'open'$$);
CREATE TABLE child () INHERITS (plain);
DROP TABLE child;
-- kinds of groups that are probably mistakes
SELECT clairon.watch('plain', 'USERS', 'owner');
SELECT clairon.watch('plain', 'SCHOOL+USR', 'owner+=x');
SELECT clairon.watch('plain', 'ALLL', 'owner');
SELECT clairon.watch('plain', 'HALL', 'owner');
SELECT clairon.watch('plain', 'HALL', 'owner');
INSERT INTO clairon.member VALUES ('SCHOOL', 's1', 'u1'), ('USERS', 's1', 'u1');
SELECT clairon.watch('plain', 'USERS', 'owner');
SELECT clairon.watch('plain', 'SCHOOL', 'owner', ttl => '10');
DELETE FROM clairon.member WHERE audience IN ('SCHOOL', 'USERS');
-- the old row does not have the INCLUDE columns of the index
CREATE TABLE included (id int NOT NULL, owner text);
CREATE UNIQUE INDEX included_id ON included (id) INCLUDE (owner);
ALTER TABLE included REPLICA IDENTITY USING INDEX included_id;
SELECT clairon.watch('included', 'USER', 'owner');
DROP TABLE included;
-- rules that never fire
SELECT clairon.watch('plain', 'USER', '= , ');
SELECT clairon.watch('plain', 'USER', 'owner', operations => '{truncate}');
-- errors of calls from SQL, from PL/pgSQL, and caught in PL/pgSQL
SELECT clairon.watch('plain', 'USER', 'u1');
SELECT clairon.watch('plain', 'USER', 'it''s');
SELECT clairon.watch('plain', 'user', 'owner');
SELECT clairon.watch('plain', 'ÉCOLE', 'owner');
SELECT clairon.watch('plain', 'USER', 'owner', only_when => 'no_such > 1');
SELECT clairon.unwatch(NULL);
SELECT clairon.notify('USER', NULL, '{}');
SELECT clairon.notify('USER', '{u1}', '[]');
SELECT clairon.once('', 'key');
SELECT clairon.prune(NULL);
DO $$
BEGIN
    PERFORM clairon.notify('USER', '{u1}', '{}', source => '');
END $$;
DO $$
BEGIN
    PERFORM clairon.notify('USER', '{u1}', '{}', source => '');
EXCEPTION WHEN invalid_parameter_value THEN
    RAISE NOTICE 'caught: %', SQLERRM;
END $$;
SELECT count(*) FROM notes();
-- an identical rule raises no NOTICE, a different rule does
CREATE TABLE again (id int PRIMARY KEY, owner text);
ALTER TABLE again REPLICA IDENTITY FULL;
SELECT clairon.watch('again', 'USER', 'owner', only_when => 'id > 0', ttl => '1 day');
SELECT clairon.watch('again', 'USER', 'owner', only_when => 'id > 0', ttl => '24 hours');
SELECT clairon.watch('again', 'USER', 'owner', name => 'second');
SELECT clairon.watch('again', 'USER', 'owner', only_when => 'id > 1', ttl => '1 day');
SELECT clairon.watch('again', 'USER', 'owner', name => 'second', live => true, columns => '{id,owner}');
SELECT clairon.watch('again', 'USER', 'owner', name => 'second', ack_required => true);
-- a rule that does not exist
SELECT clairon.unwatch('again', 'third');
SELECT clairon.unwatch('plain'), clairon.unwatch('plain');
SELECT clairon.unwatch('plain', 'default');
-- the rules of dropped tables
BEGIN;
CREATE TABLE copy (LIKE again INCLUDING ALL);
DROP TABLE again;
ALTER TABLE copy RENAME TO again;
COMMIT;
SELECT count(*) FROM clairon.rules WHERE relation = 'again'::regclass;
CREATE SCHEMA many;
SET client_min_messages = warning;
DO $$
BEGIN
    FOR i IN 10 .. 22 LOOP
        EXECUTE format('CREATE TABLE many.t%s (id int)', i);
        PERFORM clairon.watch(format('many.t%s', i)::regclass, 'ALL');
    END LOOP;
END $$;
RESET client_min_messages;
DROP SCHEMA many CASCADE;
DROP TABLE again;
-- each object has a comment
SELECT count(*) FROM pg_proc WHERE pronamespace = 'clairon'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL;
SELECT attrelid::regclass, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relnamespace = 'clairon'::regnamespace AND attnum > 0 AND col_description(attrelid, attnum) IS NULL
  AND (relkind = 'v' OR relname = 'member');
SELECT relname FROM pg_class WHERE relnamespace = 'clairon'::regnamespace AND relkind IN ('r', 'v')
                               AND obj_description(oid, 'pg_class') IS NULL;
SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'clairon'::regnamespace
                              AND obj_description(oid, 'pg_proc') NOT LIKE 'internal%' ORDER BY 1;
DROP TABLE plain, parts;
