-- A rule's condition is checked by watch and evaluated for each row as of its WAL position.
\set SHOW_CONTEXT never
CREATE TYPE state AS ENUM ('draft', 'open', 'closed');
CREATE TABLE job (id int PRIMARY KEY, gone int, state state, size int, note text, due timestamptz);
ALTER TABLE job DROP COLUMN gone;
ALTER TABLE job REPLICA IDENTITY FULL;
SET timezone = 'Asia/Kolkata';
SELECT clairon.watch('job', 'ALL', only_when => $$state = 'open' AND size > 1$$);
SELECT only_when FROM clairon.rules;
INSERT INTO job VALUES (1, 'open', 5), (2, 'open', 1), (3, 'draft', 5), (4, NULL, 5);
UPDATE job SET size = 6 WHERE id = 1;           -- true to true
UPDATE job SET size = 1 WHERE id = 1;           -- true to false
UPDATE job SET size = 0 WHERE id = 1;           -- false to false
UPDATE job SET size = 7 WHERE id = 1;           -- false to true
DELETE FROM job WHERE id IN (2, 3);
DELETE FROM job WHERE id = 1;
SELECT operation, payload FROM notes();

-- each notification is sent only if the rule includes its operation
SELECT clairon.watch('job', 'ALL', only_when => 'size > 1', operations => '{update}');
INSERT INTO job VALUES (1, 'open', 5);
UPDATE job SET size = 6 WHERE id = 1;
UPDATE job SET size = 0 WHERE id = 1;
UPDATE job SET size = 6 WHERE id = 1;
SELECT operation, payload FROM notes();

-- with changed targets: old targets lose the row, new targets gain it
SELECT clairon.watch('job', 'USER', 'note', only_when => 'size > 1');
UPDATE job SET note = 'a', size = 1 WHERE id = 1;
UPDATE job SET note = 'b', size = 2 WHERE id = 1;
UPDATE job SET note = 'c', size = 3 WHERE id = 1;
UPDATE job SET note = 'd', size = 1 WHERE id = 1;
SELECT operation, targets FROM notes();

-- columns are stored by number; watch evaluates constants, so settings of the decoding session do not affect them
SELECT clairon.watch('job', 'ALL', only_when => $$due < '2025-03-05 00:30' AND note LIKE 'é$1%'$$);
ALTER TABLE job RENAME due TO deadline;
SELECT only_when FROM clairon.rules;
INSERT INTO job VALUES (10, NULL, NULL, 'é$1', '2025-03-05 00:29+00'), (11, NULL, NULL, 'é$1', '2025-03-05 00:31+00');
SELECT operation, payload FROM notes();

-- replica identity by key: the old row is unknown
ALTER TABLE job REPLICA IDENTITY DEFAULT;
SELECT clairon.watch('job', 'ALL', only_when => 'size > 1');
UPDATE job SET size = 2 WHERE id = 10;
UPDATE job SET size = 1 WHERE id = 10;
DELETE FROM job WHERE id = 10;
SELECT operation, payload FROM notes();
SELECT clairon.watch('job', 'ALL', only_when => 'id > 100');
UPDATE job SET id = 200 WHERE id = 11;
UPDATE job SET size = 9 WHERE id = 200;
UPDATE job SET id = 12 WHERE id = 200;
SELECT operation, payload FROM notes();

-- errors and changed columns deny the row; the slot advances
SELECT clairon.watch('job', 'ALL', only_when => '10 / size > 1');
INSERT INTO job VALUES (20, NULL, 0), (21, NULL, 2);
SELECT operation, payload FROM notes();
ALTER TABLE job ALTER size TYPE text;
INSERT INTO job VALUES (22, NULL, '2');
SELECT only_when FROM clairon.rules;
ALTER TABLE job DROP COLUMN size;
INSERT INTO job VALUES (23, NULL);
SELECT only_when FROM clairon.rules;
SELECT clairon.watch('job', 'ALL', only_when => 'id = 24');
INSERT INTO job VALUES (24, NULL);
SELECT operation, payload FROM notes();

-- an unchanged TOASTed value that is not in the WAL denies the row
ALTER TABLE job ALTER note SET STORAGE EXTERNAL;
SELECT clairon.watch('job', 'ALL', only_when => $$note LIKE 'x%'$$);
INSERT INTO job VALUES (30, NULL, repeat('x', 5000));
UPDATE job SET state = 'open' WHERE id = 30;
SELECT operation, length(payload) FROM notes();

-- a partition with another column order
CREATE TABLE root (a int, b text) PARTITION BY LIST (a);
CREATE TABLE leaf (b text, junk int, a int);
ALTER TABLE leaf DROP COLUMN junk;
ALTER TABLE root ATTACH PARTITION leaf FOR VALUES IN (1, 2);
SELECT clairon.watch('root', 'ALL', only_when => $$a = 2 AND b = 'yes'$$);
INSERT INTO root VALUES (1, 'yes'), (2, 'no'), (2, 'yes');
SELECT source, payload FROM notes();

-- SQL functions are inlined and constants folded by watch
CREATE FUNCTION own(int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 > 1';
CREATE FUNCTION looks(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 > 1; END';
CREATE FUNCTION fails(int) RETURNS boolean IMMUTABLE STRICT LANGUAGE sql AS 'SELECT count(*) > 1 FROM job';
SELECT clairon.watch('job', 'ALL', only_when => 'own(id)');
SELECT clairon.watch('job', 'ALL', name => 'round', only_when => 'round(id / 10.0) = trunc(id / 10.0) AND looks(5)');
SELECT name, only_when FROM clairon.rules WHERE relation = 'job'::regclass ORDER BY name;
CREATE OR REPLACE FUNCTION own(int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT false';
INSERT INTO job VALUES (501, NULL), (541, NULL), (549, NULL);
SELECT payload FROM notes();
SELECT clairon.unwatch('job', 'round');

-- a condition without columns needs no old row
CREATE TABLE keyless (v int);
SELECT clairon.watch('keyless', 'ALL', only_when => 'true');
SELECT clairon.watch('keyless', 'ALL', name => 'never', only_when => '1 > 2');
INSERT INTO keyless VALUES (1);
UPDATE keyless SET v = 2;
DELETE FROM keyless;
SELECT operation, payload FROM notes();
DROP TABLE keyless;

-- conditions that watch rejects
SELECT clairon.watch('job', 'ALL', only_when => 'nope > 1');
SELECT clairon.watch('job', 'ALL', only_when => 'id');
SELECT clairon.watch('job', 'ALL', only_when => 'id >');
SELECT clairon.watch('job', 'ALL', only_when => '');
SELECT clairon.watch('job', 'ALL', only_when => 'true FROM job');
SELECT clairon.watch('job', 'ALL', only_when => 'true; DROP TABLE job');
SELECT clairon.watch('job', 'ALL', only_when => 'id > $1');
SELECT clairon.watch('job', 'ALL', only_when => 'deadline < now()');
SELECT clairon.watch('job', 'ALL', only_when => 'random() > 0.5');
SELECT clairon.watch('job', 'ALL', only_when => 'id IN (SELECT 1)');
SELECT clairon.watch('job', 'ALL', only_when => 'count(*) > 1');
SELECT clairon.watch('job', 'ALL', only_when => 'job IS NOT NULL');
SELECT clairon.watch('job', 'ALL', only_when => 'ctid IS NOT NULL');
SELECT clairon.watch('job', 'ALL', only_when => 'public.looks(id)');
SELECT clairon.watch('job', 'ALL', only_when => 'fails(id)');
SELECT clairon.watch('job', 'ALL', only_when => repeat('id = 1 OR ', 9000) || 'id = 2');
DROP TABLE job, root;
DROP TYPE state;
DROP FUNCTION own(int), looks(int), fails(int);
RESET timezone;
SELECT count(*) FROM notes();
