-- A clairon.rule with columns of a newer release is read; one that lacks a column is not.
\set SHOW_CONTEXT never
CREATE TABLE t (id int PRIMARY KEY, owner text, v text);
SELECT clairon.watch('t', 'USER', 'owner', operations => '{create}', only_when => 'id < 10', topic => 'altered', ack_required => true);

ALTER EVENT TRIGGER clairon_update_renamed DISABLE;
ALTER EVENT TRIGGER clairon_delete_dropped DISABLE;

ALTER TABLE clairon.rule ADD COLUMN newer text DEFAULT 'of a newer release';
INSERT INTO t VALUES (1, 'u1', 'the row is older than the column'), (11, 'u1', 'not sent');
UPDATE clairon.rule SET topic = 'changed', newer = 'changed';
INSERT INTO t VALUES (2, 'u2', 'the row has the column');
SELECT * FROM lines();
ALTER TABLE clairon.rule DROP COLUMN newer;

-- a clairon.rule without a column is not read
ALTER TABLE clairon.rule RENAME TO complete;
CREATE TABLE clairon.rule WITH (user_catalog_table = true) AS SELECT * FROM clairon.complete;
ALTER TABLE clairon.rule DROP COLUMN ack_timeout;
INSERT INTO t VALUES (3, 'u3', 'not read');
SELECT * FROM lines();
DROP TABLE clairon.rule;
ALTER TABLE clairon.complete RENAME TO rule;
INSERT INTO t VALUES (4, 'u4', 'read again');
SELECT * FROM lines();

ALTER EVENT TRIGGER clairon_update_renamed ENABLE ALWAYS;
ALTER EVENT TRIGGER clairon_delete_dropped ENABLE ALWAYS;

DROP TABLE t;
