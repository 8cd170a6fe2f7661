-- A stored only_when follows the renames of the objects in it, as PostgreSQL's own stored expressions do.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE ROLE renamer IN ROLE clairon_app;
GRANT CREATE ON DATABASE regression TO renamer;
CREATE SCHEMA own AUTHORIZATION renamer;
CREATE EXTENSION citext SCHEMA own;
CREATE FUNCTION own.longer(text, text) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'text_gt';
CREATE FUNCTION own.longer(int, int) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'int4gt';
ALTER FUNCTION own.longer(text, text) OWNER TO renamer;
ALTER FUNCTION own.longer(int, int) OWNER TO renamer;
CREATE FUNCTION sent() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$
    SELECT string_agg(line #>> '{payload,after,id}' || ' ' || (line #>> '{metadata,topic}') ||
                      CASE json_array_length(line #> '{routing,audience,targets}') WHEN 0 THEN ''
                           ELSE ' ' || json_array_length(line #> '{routing,audience,targets}') END, ', ')
    FROM (SELECT data::json AS line FROM pg_logical_slot_get_changes('regress', NULL, NULL)) AS lines
$$;
SET ROLE renamer;
CREATE TYPE own.mood AS ENUM ('draft', 'done');
CREATE TYPE own.pair AS (a int, b int);
CREATE DOMAIN own.word AS text;
CREATE OPERATOR own.>>> (FUNCTION = pg_catalog.text_gt, LEFTARG = text, RIGHTARG = text);
CREATE COLLATION own.order_of_mine FROM "C";
CREATE TABLE own."a ""table""" ();
CREATE TABLE own.t (gone int, id int PRIMARY KEY, m own.mood, p own.pair, v text, c own.citext, r regclass, f regprocedure);
ALTER TABLE own.t DROP COLUMN gone;
SELECT count(clairon.watch('own.t', 'ALL', name => rule, topic => rule, columns => '{id}', only_when => condition)) FROM (VALUES
    ('label', $$m = 'draft' AND m = ANY ('{done,draft}')$$),
    ('attribute', $$(p).a > 0$$),
    ('function', $$own.longer(v, 'a')$$),
    ('overloaded', $$own.longer(id, 0) AND own.longer(v, 'a')$$),
    ('operator', $$v OPERATOR(own.>>>) 'a'$$),
    ('collation', $$v COLLATE own.order_of_mine > 'a'$$),
    ('domain', $$v::own.word = 'z'$$),
    ('extension', $$c OPERATOR(own.=) 'Z'::own.citext$$),
    ('constants', $$r = 'own."a ""table"""'::regclass AND f = 'own.longer(text, text)'::regprocedure$$),
    ('long', $$m = 'draft' AND id IN ($$ || repeat('0, ', 3000) || '1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)')) AS t (rule, condition);
SELECT clairon.watch('own.t', 'STRUCTURE', '=' || (SELECT string_agg('s' || i, ',') FROM generate_series(1, 1000) AS i),
    name => 'targets', topic => 'targets', columns => '{id}', only_when => $$m = 'draft'$$);
INSERT INTO own.t VALUES (1, 'draft', (1, 2), 'z', 'z', 'own."a ""table"""', 'own.longer(text, text)');
SELECT sent();
ALTER TYPE own.mood RENAME VALUE 'draft' TO 'it''s "a" sketch';
ALTER TYPE own.pair RENAME ATTRIBUTE a TO "first one";
INSERT INTO own.t VALUES (2, 'it''s "a" sketch', (1, 2), 'z', 'z', 'own."a ""table"""', 'own.longer(text, text)');
SELECT sent();
ALTER TYPE own.mood RENAME TO humour;
ALTER DOMAIN own.word RENAME TO "a word";
ALTER COLLATION own.order_of_mine RENAME TO ordering;
ALTER FUNCTION own.longer(text, text) RENAME TO greater;
ALTER TABLE own."a ""table""" RENAME TO by_table;
ALTER INDEX own.by_table RENAME TO "other.table";
INSERT INTO own.t VALUES (3, 'it''s "a" sketch', (1, 2), 'z', 'z', 'own."other.table"', 'own.greater(text, text)');
SELECT sent();
CREATE SCHEMA other;
ALTER TYPE own.humour SET SCHEMA other;
ALTER DOMAIN own."a word" SET SCHEMA other;
ALTER COLLATION own.ordering SET SCHEMA other;
ALTER FUNCTION own.greater(text, text) SET SCHEMA other;
ALTER OPERATOR own.>>> (text, text) SET SCHEMA other;
RESET ROLE;
ALTER EXTENSION citext SET SCHEMA other;
SET ROLE renamer;
INSERT INTO own.t VALUES (4, 'it''s "a" sketch', (1, 2), 'z', 'z', 'own."other.table"', 'other.greater(text, text)');
SELECT sent();
ALTER SCHEMA own RENAME TO mine;
ALTER SCHEMA other RENAME TO "an other";
ALTER TABLE mine.t RENAME COLUMN m TO mood;
INSERT INTO mine.t VALUES (5, 'it''s "a" sketch', (1, 2), 'z', 'z', 'mine."other.table"', '"an other".greater(text, text)');
SELECT sent();
SELECT name, CASE name WHEN 'long' THEN right(only_when, 20) ELSE only_when END FROM clairon.rules ORDER BY name;
-- each change is judged by the condition as of its WAL position
BEGIN;
INSERT INTO mine.t VALUES (6, 'it''s "a" sketch', (0, 2), 'a', 'a');
ALTER TYPE "an other".humour RENAME VALUE 'it''s "a" sketch' TO 'draft';
INSERT INTO mine.t VALUES (7, 'draft', (0, 2), 'a', 'a');
ALTER TYPE "an other".humour RENAME TO mood;
ALTER TYPE "an other".mood SET SCHEMA mine;
INSERT INTO mine.t VALUES (8, 'draft', (0, 2), 'a', 'a');
SAVEPOINT a;
ALTER TYPE mine.mood RENAME VALUE 'draft' TO 'gone';
INSERT INTO mine.t VALUES (9, 'gone', (0, 2), 'a', 'a');
ROLLBACK TO a;
INSERT INTO mine.t VALUES (10, 'draft', (0, 2), 'a', 'a');
COMMIT;
SELECT sent();
BEGIN;
ALTER TYPE mine.mood RENAME VALUE 'draft' TO 'gone';
ROLLBACK;
INSERT INTO mine.t VALUES (11, 'draft', (0, 2), 'a', 'a');
SELECT sent();
-- a failed command, and a condition that was invalid before
ALTER TYPE mine.mood RENAME VALUE 'draft' TO 'done';
DROP FUNCTION "an other".greater(text, text);
ALTER SCHEMA "an other" RENAME TO other;
SELECT only_when FROM clairon.rules WHERE name IN ('function', 'operator') ORDER BY name;
-- the name in conditions on tables of another owner
RESET ROLE;
CREATE TABLE foreign_owner (id int PRIMARY KEY, m mine.mood);
SELECT count(clairon.watch('foreign_owner', 'ALL', name => 'rule ' || i, only_when => $$m = 'draft'$$)) FROM generate_series(1, 51) AS i;
SET ROLE renamer;
ALTER TYPE mine.mood RENAME VALUE 'draft' TO 'sketch';
-- a column with the name of the type, and a constraint
ALTER TABLE mine.t RENAME COLUMN mood TO m;
ALTER TABLE mine.t RENAME CONSTRAINT t_pkey TO mood;
RESET ROLE;
SELECT relation, count(*) FILTER (WHERE only_when LIKE '%sketch%') AS renamed, count(*) FILTER (WHERE only_when LIKE '%denies%') AS invalid
FROM clairon.rules WHERE only_when LIKE '%draft%' OR only_when LIKE '%sketch%' GROUP BY relation ORDER BY relation::text;
DROP TABLE foreign_owner;
-- by a superuser, and by a member of the owner
ALTER TYPE mine.mood RENAME VALUE 'sketch' TO 'by superuser';
SELECT only_when FROM clairon.rules WHERE name = 'label';
CREATE ROLE migrator IN ROLE renamer;
SET ROLE migrator;
ALTER TYPE mine.mood RENAME VALUE 'by superuser' TO 'by member';
SELECT only_when FROM clairon.rules WHERE name = 'label';
RESET ROLE;
DROP ROLE migrator;
-- a rule from a dump of an older version, replaced by the same rule
UPDATE clairon.rule SET used_names = NULL WHERE name IN ('label', 'long');
SELECT check_name, ok, detail, hint FROM clairon.doctor() WHERE check_name LIKE 'renames of%' ORDER BY 1;
SET ROLE renamer;
SELECT clairon.watch('mine.t', 'ALL', name => 'label', only_when => $$m = 'by member'$$);
ALTER TYPE mine.mood RENAME VALUE 'by member' TO 'followed';
SELECT only_when FROM clairon.rules WHERE name = 'label';
-- a type of the user with a name like regclass
CREATE TYPE mine.regular AS RANGE (subtype = text);
SELECT clairon.watch('mine.t', 'ALL', name => 'regular', only_when => format('v <@ ''[%s,)''::mine.regular',
                     (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) AS i)));
ALTER TYPE mine.regular RENAME TO irregular;
SELECT right(only_when, 20) FROM clairon.rules WHERE name = 'regular';
RESET ROLE;
DROP FUNCTION sent;
DROP SCHEMA mine, other CASCADE;
REVOKE CREATE ON DATABASE regression FROM renamer;
DROP ROLE renamer;
SELECT count(*) FROM lines();
