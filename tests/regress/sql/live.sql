-- watch rejects live rules that cannot work, and doctor reports live rules that later changes of a table break.
CREATE TABLE l (id int PRIMARY KEY, owner text, state text, body text);
-- the old row must contain the targets and the columns of the condition
SELECT clairon.watch('l', 'USER', 'owner', live => true);
SELECT clairon.watch('l', 'USER', '=u1', only_when => $$state = 'open'$$, live => true);
SELECT clairon.watch('l', 'STRUCTURE+ROLE', 'owner+=admin', live => true);
SELECT clairon.watch('l', 'USER', 'id', name => 'by key', live => true);
SELECT clairon.watch('l', 'USER', '=u1', name => 'literal', only_when => 'id > 0', live => true);
SELECT clairon.watch('l', 'ALL', name => 'all', live => true);
ALTER TABLE l REPLICA IDENTITY FULL;
SELECT clairon.watch('l', 'USER', 'owner', only_when => $$state = 'open'$$, live => true);
SELECT clairon.watch('l', 'STRUCTURE+ROLE', 'owner+=admin', name => 'composite', live => true);
SELECT clairon.watch('l', 'USER', 'owner', name => 'not live');
-- a live list needs every change and the key of each row
SELECT clairon.watch('l', 'ALL', operations => '{create,truncate}', live => true);
SELECT clairon.watch('l', 'ALL', columns => '{owner}', live => true);
SELECT clairon.watch('l', 'ALL', columns => '{id,owner}', name => 'columns', live => true);
SELECT clairon.watch('l', 'ALL', live => NULL);
SELECT name, live FROM clairon.rules ORDER BY name COLLATE "C";
SELECT clairon.watch('l', 'ALL', name => 'all', live => false);
SELECT live FROM clairon.rules WHERE name = 'all';

-- a live rule needs a key that is not deferrable and whose old values are in the WAL
CREATE TABLE k (id int NOT NULL, v text);
SELECT clairon.watch('k', 'ALL', live => true);
ALTER TABLE k REPLICA IDENTITY FULL;
SELECT clairon.watch('k', 'ALL', live => true);
ALTER TABLE k ADD PRIMARY KEY (id) DEFERRABLE;
SELECT clairon.watch('k', 'ALL', live => true);
ALTER TABLE k DROP CONSTRAINT k_pkey;
CREATE UNIQUE INDEX k_id ON k (id) INCLUDE (v);
ALTER TABLE k REPLICA IDENTITY USING INDEX k_id;
SELECT clairon.watch('k', 'USER', 'id', live => true);
-- an INCLUDE column of the index is not in the old row
SELECT clairon.watch('k', 'USER', 'v', live => true);
ALTER TABLE k REPLICA IDENTITY NOTHING;
SELECT clairon.watch('k', 'ALL', live => true);
ALTER TABLE k ADD PRIMARY KEY (id);
SELECT clairon.watch('k', 'ALL', live => true);
SELECT clairon_internal.live_key('l'), clairon_internal.live_key('k');

-- each partition and child table is checked
CREATE TABLE p (region text, id int, owner text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE p_a PARTITION OF p FOR VALUES IN ('a');
SELECT clairon.watch('p', 'USER', 'owner', live => true);
ALTER TABLE p_a REPLICA IDENTITY FULL;
SELECT clairon.watch('p', 'USER', 'owner', live => true);
CREATE UNLOGGED TABLE p_u PARTITION OF p FOR VALUES IN ('u');
ALTER TABLE p_u REPLICA IDENTITY FULL;
SELECT clairon.watch('p', 'USER', 'owner', live => true);
DROP TABLE p_u;
CREATE TABLE p_b PARTITION OF p FOR VALUES IN ('b');
CREATE TABLE parent (id int PRIMARY KEY, owner text);
CREATE TABLE child () INHERITS (parent);
ALTER TABLE parent REPLICA IDENTITY FULL;
ALTER TABLE child REPLICA IDENTITY FULL;
SELECT clairon.watch('parent', 'USER', 'owner', live => true);
ALTER TABLE child ADD PRIMARY KEY (id);
SELECT clairon.watch('parent', 'USER', 'owner', live => true);

-- doctor warns about later changes of the tables
ALTER TABLE l REPLICA IDENTITY DEFAULT;
ALTER TABLE child DROP CONSTRAINT child_pkey;
SELECT check_name, ok, detail, hint FROM clairon.doctor() WHERE check_name LIKE 'live rule %' ORDER BY check_name, detail;
SET ROLE clairon_relay;
SELECT count(*) FROM clairon.doctor() WHERE check_name LIKE 'live rule %';
RESET ROLE;
ALTER TABLE l DROP CONSTRAINT l_pkey;
SELECT check_name, detail FROM clairon.doctor() WHERE check_name LIKE 'live rule % on public.l' ORDER BY check_name, detail;
ALTER TABLE l ADD PRIMARY KEY (id), REPLICA IDENTITY FULL;
DROP TABLE p_b, parent, child;
SELECT count(*) FROM clairon.doctor() WHERE check_name LIKE 'live rule %';
-- a dropped key is reported in whatever way it is dropped, unless it is replaced or another key than the list's
CREATE TABLE d (id int PRIMARY KEY, code int NOT NULL UNIQUE, other int UNIQUE);
CREATE UNIQUE INDEX d_code ON d (code);
SELECT clairon.watch('d', 'ALL', live => true);
ALTER TABLE d DROP CONSTRAINT d_code_key;
ALTER TABLE d DROP CONSTRAINT d_pkey, ADD PRIMARY KEY (id);
BEGIN;
ALTER TABLE d DROP id;
ROLLBACK;
ALTER TABLE d REPLICA IDENTITY USING INDEX d_code;
ALTER TABLE d DROP CONSTRAINT d_pkey;
DROP INDEX d_code;
SELECT clairon.unwatch('d');
ALTER TABLE d DROP CONSTRAINT d_other_key;
DROP TABLE d;

-- a restored rule has other column numbers
CREATE TABLE moved (gone int, id int PRIMARY KEY, owner text, state text);
ALTER TABLE moved DROP gone, REPLICA IDENTITY FULL;
SELECT clairon.watch('moved', 'USER', 'owner', columns => '{id,owner}', only_when => $$state = 'open'$$, live => true);
SELECT ARRAY(SELECT attname FROM pg_attribute WHERE attrelid = 'moved'::regclass
             AND attnum = ANY (clairon_internal.deciding_columns('moved', 'default')) ORDER BY attnum);
CREATE TABLE dumped AS SELECT * FROM clairon.rule WHERE relation = 'moved'::regclass;
DROP TABLE moved;
CREATE TABLE moved (id int PRIMARY KEY, owner text, state text);
UPDATE dumped SET relation = 'moved'::regclass;
INSERT INTO clairon.rule SELECT * FROM dumped;
SELECT ARRAY(SELECT attname FROM pg_attribute WHERE attrelid = 'moved'::regclass
             AND attnum = ANY (clairon_internal.deciding_columns('moved', 'default')) ORDER BY attnum);
SELECT detail FROM clairon.doctor() WHERE check_name = 'live rule default on moved';
DROP TABLE moved, dumped, p, k, l;
DELETE FROM clairon.rule;
SELECT count(*) FROM notes();
