-- A rule on a table applies to its child tables, with the columns of the parent.
CREATE TABLE animal (id int PRIMARY KEY, keeper text, name text);
-- keys are not inherited; the child's columns are in another order, after a dropped column
CREATE TABLE dog (junk int, breed text, name text, keeper text, id int PRIMARY KEY);
ALTER TABLE dog DROP COLUMN junk;
ALTER TABLE dog INHERIT animal;
CREATE TABLE stray () INHERITS (animal);
SELECT clairon.watch('animal', 'USER', 'keeper');
INSERT INTO animal VALUES (1, 'u1', 'any');
INSERT INTO dog (id, keeper, name, breed) VALUES (2, 'u2', 'Rex', 'pug');
INSERT INTO stray VALUES (3, 'u3', 'Tom');
UPDATE animal SET name = upper(name);
SELECT * FROM notes();
SELECT check_name, detail FROM clairon.doctor() WHERE check_name LIKE 'key of %' AND NOT ok;
-- a rule on only the child table, then also a rule on the parent
ALTER TABLE stray REPLICA IDENTITY FULL;
SELECT clairon.unwatch('animal');
SELECT clairon.watch('dog', 'ALL');
UPDATE animal SET name = lower(name);
SELECT clairon.watch('animal', 'ROLE', '=vet', columns => '{id,name}', only_when => 'id > 1');
UPDATE animal SET name = upper(name);
DELETE FROM animal WHERE id > 1;
SELECT * FROM notes();

-- a table that inherits from another both directly and through a parent: each rule applies once
CREATE TABLE pet (owner text);
CREATE TABLE puppy () INHERITS (dog, pet, animal);
SELECT clairon.watch('pet', 'USER', 'owner');
INSERT INTO puppy (id, keeper, name, owner, breed) VALUES (4, 'u4', 'Bo', 'o1', 'pug');
SELECT * FROM notes();
-- inheritance applies within its transaction; a rollback reverts it
BEGIN;
ALTER TABLE puppy NO INHERIT pet;
INSERT INTO puppy (id, owner) VALUES (5, 'o2');
ALTER TABLE puppy INHERIT pet;
INSERT INTO puppy (id, owner) VALUES (6, 'o3');
SAVEPOINT s;
ALTER TABLE puppy NO INHERIT pet;
ROLLBACK TO s;
INSERT INTO puppy (id, owner) VALUES (7, 'o4');
COMMIT;
ALTER TABLE pet RENAME owner TO master;
ALTER TABLE pet ADD COLUMN since int DEFAULT 2025;
INSERT INTO puppy (id, master) VALUES (8, 'o5');
ALTER TABLE pet DROP COLUMN master;
DELETE FROM puppy;
SELECT source, payload, targets FROM notes() WHERE source = 'pet';

-- a truncated parent is sent once; a child table that is truncated separately is denied
DELETE FROM clairon.rule;
SELECT clairon.watch(t, 'ALL', operations => '{truncate}') FROM unnest('{animal,pet}'::regclass[]) AS t;
TRUNCATE animal;
SELECT source, operation FROM notes();
TRUNCATE ONLY animal;
TRUNCATE stray;
TRUNCATE ONLY pet, stray;
SELECT source, operation FROM notes();
SELECT clairon.watch('dog', 'ALL', operations => '{truncate}');
SELECT clairon.unwatch('animal');
TRUNCATE ONLY animal, puppy;
TRUNCATE ONLY animal, ONLY pet, dog;
SELECT source, operation FROM notes();

-- patterns match the child table's name; an excluded table sends no notification
DELETE FROM clairon.rule;
INSERT INTO puppy (id) VALUES (9);
SELECT source, operation FROM notes('include_tables', 'public.dog');
INSERT INTO puppy (id) VALUES (9);
SELECT source, operation FROM notes('include_tables', '*', 'exclude_tables', 'public.pet');
SELECT clairon.watch(t, 'ALL') FROM unnest('{dog,pet,puppy}'::regclass[]) AS t;
INSERT INTO puppy (id) VALUES (9);
SELECT source, operation FROM notes('include_tables', 'public.puppy', 'exclude_tables', 'public.pet');
INSERT INTO puppy (id) VALUES (9);
SELECT source, operation FROM notes('exclude_tables', 'public.puppy');
DELETE FROM clairon.rule;
-- child tables whose rows are not in the WAL, and a dropped child table
SELECT clairon.watch('animal', 'ALL');
CREATE TEMP TABLE guest () INHERITS (animal);
INSERT INTO guest VALUES (10, 'u10', 'Zoe');
DROP TABLE puppy;
INSERT INTO animal VALUES (11, 'u11', 'Ada');
SELECT source, payload FROM notes();
SELECT check_name FROM clairon.doctor() WHERE check_name LIKE 'key of %' AND NOT ok;
ALTER TABLE stray SET UNLOGGED;
SELECT check_name, detail, hint FROM clairon.doctor() WHERE check_name LIKE 'rule %' AND NOT ok;
DROP TABLE guest, stray, dog, animal, pet;
SELECT count(*) FROM clairon.rule;
