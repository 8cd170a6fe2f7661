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
DROP TABLE again;
-- each object has a comment
SELECT count(*) FROM pg_proc WHERE pronamespace = 'clairon'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL;
SELECT attrelid::regclass, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relnamespace = 'clairon'::regnamespace AND attnum > 0 AND col_description(attrelid, attnum) IS NULL
  AND (relkind = 'v' OR relname = 'member');
SELECT relname FROM pg_class WHERE relnamespace = 'clairon'::regnamespace AND relkind IN ('r', 'v')
                               AND obj_description(oid, 'pg_class') IS NULL;
SELECT proname FROM pg_proc WHERE pronamespace = 'clairon'::regnamespace
                              AND obj_description(oid, 'pg_proc') NOT LIKE 'internal%' ORDER BY 1;
DROP TABLE plain, parts;
