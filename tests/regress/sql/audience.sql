-- Targets from columns and literals, and updates that change them.
CREATE TABLE doc (id int PRIMARY KEY, readers text[], owner int, body text);
ALTER TABLE doc REPLICA IDENTITY FULL;
SELECT clairon.watch('doc', 'USER', 'readers');
INSERT INTO doc VALUES (1, '{a,b,NULL,"",a}', 7, 'x'), (2, NULL, 8, 'nobody'), (3, '{}', NULL, 'nobody');
UPDATE doc SET readers = '{b,c}', body = 'y' WHERE id = 1;
UPDATE doc SET readers = NULL WHERE id = 1;
UPDATE doc SET readers = '[5:6]={c,d}' WHERE id = 1;
DELETE FROM doc WHERE id = 1;
SELECT * FROM notes();

-- each notification is sent only if the rule includes its operation
SELECT clairon.watch('doc', 'USER', 'readers', operations => '{delete}');
INSERT INTO doc VALUES (1, '{a,b}', 7, 'x');
UPDATE doc SET readers = '{b,c}' WHERE id = 1;
SELECT * FROM notes();

-- targets from a column of another type, and from a literal
SELECT clairon.unwatch('doc');
SELECT clairon.watch('doc', 'STRUCTURE', 'owner');
SELECT clairon.watch('doc', 'ROLE', '= admin ,é\,"x"', name => 'literal');
SELECT clairon.watch('doc', 'ROLE', '= , ', name => 'no target left');
UPDATE doc SET owner = 9 WHERE id = 1;
SELECT * FROM notes();
SELECT clairon.unwatch('doc');

-- a user loses a row through one group and keeps it through another: a live rule sends an update after the delete, even if none of its columns changed
SELECT clairon.watch('doc', 'ROLE', 'readers', columns => '{id,body}');
SELECT clairon.watch('doc', 'ROLE', 'readers', name => 'live', columns => '{id,body}', live => true);
SELECT clairon.watch('doc', 'USER', 'readers', name => 'users', columns => '{id,body}', live => true);
INSERT INTO doc VALUES (4, '{a,b}', 7, 'x');
UPDATE doc SET readers = '{b}' WHERE id = 4;
UPDATE doc SET readers = '{b,c}' WHERE id = 4;
DELETE FROM doc WHERE id = 4;
SELECT * FROM notes();
SELECT clairon.unwatch('doc');

-- old targets are not in the WAL: updates are sent to the new targets, deletes are denied
ALTER TABLE doc REPLICA IDENTITY DEFAULT;
SELECT clairon.watch('doc', 'USER', 'owner');
UPDATE doc SET owner = 10 WHERE id = 1;
DELETE FROM doc WHERE id = 1;
SELECT * FROM notes();
-- a target column within the key is always in the WAL
SELECT clairon.watch('doc', 'USER', 'id');
UPDATE doc SET body = 'z' WHERE id = 2;
UPDATE doc SET id = 20 WHERE id = 2;
DELETE FROM doc WHERE id = 20;
SELECT * FROM notes();

-- a TRUNCATE is sent to ALL and to literal targets, never to column targets
SELECT clairon.watch('doc', 'USER', 'owner', operations => '{truncate}');
SELECT clairon.watch('doc', 'USER', '=u1', name => 'literal', operations => '{truncate}');
TRUNCATE doc;
SELECT * FROM notes();
SELECT clairon.unwatch('doc');

-- a rule follows a renamed target column, and denies delivery after the column is dropped
SELECT clairon.watch('doc', 'USER', 'owner');
ALTER TABLE doc RENAME owner TO boss;
INSERT INTO doc VALUES (1, NULL, 7, 'x');
SELECT * FROM notes();
ALTER TABLE doc DROP COLUMN boss;
INSERT INTO doc VALUES (2, NULL, 'y');
SELECT * FROM notes();
SELECT targets FROM clairon.rules;

-- text mode never prints members
INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'u1');
DELETE FROM clairon.member;
SELECT count(*) FROM notes('include_tables', '*.*');
DROP TABLE doc;
DELETE FROM clairon.rule;
