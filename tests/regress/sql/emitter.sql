-- The emitter of a rule: a string, or a column of the row.
\set SHOW_CONTEXT never
CREATE FUNCTION emitters() RETURNS TABLE (operation text, emitter text, targets text) LANGUAGE sql AS $$
    SELECT line #>> '{metadata,operation}', line #>> '{metadata,emitter}', line #>> '{routing,audience,targets}'
    FROM (SELECT data::json AS line FROM pg_logical_slot_get_changes('regress', NULL, NULL)) AS lines
$$;
CREATE TABLE post (id int PRIMARY KEY, owner text, author text, body text);
ALTER TABLE post REPLICA IDENTITY FULL;
SELECT clairon.watch('post', 'USER', 'owner', emitter => ':author', columns => '{id}', operations => '{create,update,delete}');
INSERT INTO post VALUES (1, 'a', 'alice', 'x'), (2, 'a', NULL, 'x'), (3, 'a', '', 'x'), (4, 'a', E'"é\\\n', 'x'),
    (5, 'a', repeat('x', 255), 'x'), (6, 'a', repeat('x', 256), 'x');
SELECT operation, left(emitter, 20), length(emitter), targets FROM emitters();
-- an update sends the new emitter to all users, a delete sends the last emitter
UPDATE post SET owner = 'b', author = 'bob' WHERE id = 1;
UPDATE post SET id = 10, author = 'carl' WHERE id = 1;
DELETE FROM post WHERE id = 10;
SELECT * FROM emitters();

-- the emitter is not in the key: the delete is sent with the default emitter
ALTER TABLE post REPLICA IDENTITY DEFAULT;
SELECT clairon.watch('post', 'ALL', emitter => ':author', operations => '{create,update,delete,truncate}');
INSERT INTO post VALUES (7, 'a', 'dora', 'x');
UPDATE post SET body = 'y' WHERE id = 7;
DELETE FROM post WHERE id = 7;
TRUNCATE post;
SELECT * FROM emitters();

-- a rule follows a renamed emitter column, and denies delivery after the column is dropped
ALTER TABLE post RENAME author TO writer;
INSERT INTO post VALUES (8, 'a', 'emil', 'x');
SELECT emitter FROM clairon.rules WHERE relation = 'post'::regclass;
ALTER TABLE post DROP COLUMN writer;
INSERT INTO post VALUES (9, 'a', 'x');
TRUNCATE post;
SELECT emitter FROM clairon.rules WHERE relation = 'post'::regclass;
SELECT * FROM emitters();

-- a literal that starts with a colon; other types; invalid values
SELECT clairon.watch('post', 'ALL', emitter => '::bot');
SELECT clairon.watch('post', 'ALL', name => 'number', emitter => ':id');
SELECT name, emitter FROM clairon.rules WHERE relation = 'post'::regclass ORDER BY name;
INSERT INTO post VALUES (11, 'a', 'x');
SELECT * FROM emitters();
SELECT clairon.watch('post', 'ALL', emitter => ':nosuch');
SELECT clairon.watch('post', 'ALL', emitter => ':');
DROP TABLE post;
DROP FUNCTION emitters();
