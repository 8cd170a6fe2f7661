-- Composite audiences: targets of several parts, from literals and from columns.
\set SHOW_CONTEXT never
CREATE TABLE task (id int PRIMARY KEY, structure text, role text[], body text);
ALTER TABLE task REPLICA IDENTITY FULL;
SELECT clairon.watch('task', 'STRUCTURE+ROLE', 'structure+role');
INSERT INTO task VALUES (1, 's1', '{admin,tutor}', 'x'), (2, NULL, '{admin}', 'nobody'), (3, 's1', '{}', 'nobody'),
    (4, 's1', '{"",NULL,admin}', 'y');
-- a plus sign or a backslash in a value does not split it
INSERT INTO task VALUES (5, 'a+b', '{c}', 'plus'), (6, 'a', E'{"b+c"}', 'plus'), (7, E'a\\', E'{"\\\\+b"}', 'backslash');
SELECT * FROM notes();

-- an update compares complete targets
UPDATE task SET structure = 's2' WHERE id = 1;
UPDATE task SET role = '{tutor,guest}' WHERE id = 1;
UPDATE task SET body = 'z' WHERE id = 1;
DELETE FROM task WHERE id = 1;
SELECT * FROM notes();

-- a live rule also sends an update to kept targets, even if none of its columns changed
SELECT clairon.watch('task', 'STRUCTURE+ROLE', 'structure+role', columns => '{id}', live => true);
UPDATE task SET role = '{c,d}' WHERE id = 5;
UPDATE task SET role = '{d}' WHERE id = 5;
UPDATE task SET role = '{d,e}' WHERE id = 5;
UPDATE task SET structure = 'b' WHERE id = 5;
SELECT * FROM notes();
SELECT clairon.watch('task', 'STRUCTURE+ROLE', 'structure+role');

-- too many combinations are denied
INSERT INTO task SELECT 8, 's', array_agg('r' || i) FROM generate_series(1, 10001) AS i;
SELECT * FROM notes();

-- a constant part; literals; escapes are kept
SELECT clairon.watch('task', 'STRUCTURE+ROLE', E'structure + =the\\+admin');
SELECT clairon.watch('task', 'STRUCTURE+ROLE', E'= s1 + admin ,s1+admin, a\\+b\\,c+d\\x', name => 'literal');
SELECT clairon.watch('task', 'A+B+C+D', 'structure+structure+role+=x', name => 'four');
SELECT name, audience, targets FROM clairon.rules WHERE relation = 'task'::regclass ORDER BY name;
INSERT INTO task VALUES (9, 's1', '{r}', 'x');
SELECT * FROM notes();
SELECT clairon.unwatch('task', 'four');

-- replica identity by key: old targets are known only if all target columns are in the key
SELECT clairon.unwatch('task', 'literal');
ALTER TABLE task REPLICA IDENTITY DEFAULT;
UPDATE task SET structure = 's3' WHERE id = 9;
DELETE FROM task WHERE id = 9;
SELECT * FROM notes();
ALTER TABLE task REPLICA IDENTITY FULL;

-- a rule follows renamed target columns, and denies delivery after a column is dropped
ALTER TABLE task RENAME structure TO place;
INSERT INTO task VALUES (10, 's1', '{r}', 'renamed');
SELECT targets FROM clairon.rules WHERE relation = 'task'::regclass;
ALTER TABLE task DROP COLUMN place;
INSERT INTO task VALUES (11, '{r}', 'denied');
SELECT targets FROM clairon.rules WHERE relation = 'task'::regclass;
SELECT * FROM notes();

-- notify accepts composite audiences
SELECT clairon.notify('STRUCTURE+ROLE', E'{s1+admin,"a\\\\+b+c"}', '{}') IS NOT NULL;
SELECT * FROM notes();

-- watch, notify and clairon.member reject invalid values
SELECT clairon.watch('task', 'STRUCTURE+ROLE', 'body');
SELECT clairon.watch('task', 'STRUCTURE+ROLE', 'body+role+id');
SELECT clairon.watch('task', 'STRUCTURE+ROLE', 'body+nosuch');
SELECT clairon.watch('task', 'STRUCTURE+ROLE', 'body+=');
SELECT clairon.watch('task', 'STRUCTURE+ROLE', '=s1');
SELECT clairon.watch('task', 'STRUCTURE+ROLE', '=s1+');
SELECT clairon.watch('task', 'STRUCTURE+ROLE', E'=s1\\+admin');
SELECT clairon.watch('task', 'STRUCTURE+ROLE');
SELECT clairon.watch('task', 'USER+ROLE', 'body+role');
SELECT clairon.watch('task', 'ROLE+all', 'body+role');
SELECT clairon.watch('task', 'A+', 'body+role');
SELECT clairon.watch('task', 'A+B+C+D+E', '=1+2+3+4+5');
SELECT clairon.notify('STRUCTURE+ROLE', '{s1+admin,s2}', '{}');
SELECT clairon.notify('STRUCTURE+ROLE', '{s1+admin+x}', '{}');
INSERT INTO clairon.member VALUES ('STRUCTURE+ROLE', 's1+admin', 'u1');
-- a plus sign in a target of a simple audience is literal
SELECT clairon.watch('task', 'STRUCTURE', '=s1+admin', name => 'simple');
INSERT INTO task VALUES (12, '{r}', 'simple');
SELECT targets FROM notes() WHERE payload LIKE '%simple%';
DROP TABLE task;
SELECT * FROM notes();
