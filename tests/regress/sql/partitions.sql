-- A rule on a root applies to all partitions, including later partitions; a rule on a leaf applies only to the leaf.
CREATE TABLE root (region text, id int, who text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE leaf_a PARTITION OF root FOR VALUES IN ('a');
SELECT clairon.watch('root', 'USER', 'who');
INSERT INTO root VALUES ('a', 1, 'u1');
-- another column order, a dropped column
CREATE TABLE leaf_b (junk int, who text, id int NOT NULL, region text NOT NULL);
ALTER TABLE leaf_b DROP COLUMN junk;
ALTER TABLE root ATTACH PARTITION leaf_b FOR VALUES IN ('b');
INSERT INTO root VALUES ('b', 2, 'u2');
CREATE TABLE middle PARTITION OF root FOR VALUES IN ('c', 'd') PARTITION BY LIST (region);
CREATE TABLE leaf_c PARTITION OF middle FOR VALUES IN ('c');
INSERT INTO root VALUES ('c', 3, 'u3');
SELECT clairon.watch('leaf_c', 'ALL', name => 'leaf');
SELECT clairon.watch('middle', 'ROLE', 'who', columns => '{id}');
INSERT INTO root VALUES ('c', 4, 'u4');
ALTER TABLE root DETACH PARTITION leaf_b;
INSERT INTO leaf_b (region, id, who) VALUES ('b', 5, 'alone');
SELECT * FROM notes();
-- a row that moves between partitions is a delete and a create
UPDATE root SET region = 'c' WHERE id = 1;
SELECT source, operation, targets FROM notes();
DELETE FROM clairon.rule;
SELECT clairon.watch('root', 'ALL', operations => '{truncate}');
TRUNCATE root;
TRUNCATE leaf_a;
TRUNCATE middle;
TRUNCATE middle, leaf_a;
SELECT source, operation, targets FROM notes();
DELETE FROM clairon.rule;
INSERT INTO root VALUES ('a', 1, 'u1');
SELECT source, operation FROM notes('include_tables', 'public.root');
INSERT INTO root VALUES ('a', 2, 'u1');
SELECT source, operation FROM notes('include_tables', 'public.leaf*');
-- the rule does not apply to a partition after DETACH or DETACH CONCURRENTLY, until the partition is attached again
SELECT clairon.watch('root', 'ALL');
INSERT INTO leaf_a VALUES ('a', 10, 'attached');
ALTER TABLE root DETACH PARTITION leaf_a CONCURRENTLY;
INSERT INTO leaf_a VALUES ('a', 11, 'detached');
ALTER TABLE root ATTACH PARTITION leaf_a FOR VALUES IN ('a');
UPDATE leaf_a SET who = 'attached again' WHERE id = 11;
BEGIN;
ALTER TABLE root DETACH PARTITION middle;
INSERT INTO middle VALUES ('c', 12, 'detached');
ROLLBACK;
INSERT INTO middle VALUES ('c', 13, 'attached');
CREATE TABLE leaf_d PARTITION OF middle DEFAULT;
INSERT INTO root VALUES ('d', 14, 'by default');
SELECT source, payload FROM notes();
-- the replica identity is the leaf's; a column added to the root is added to the leaf
ALTER TABLE leaf_d REPLICA IDENTITY FULL;
ALTER TABLE root ADD COLUMN later int DEFAULT 5;
UPDATE root SET who = 'x' WHERE region IN ('c', 'd');
ALTER TABLE root DROP COLUMN who;
DELETE FROM root;
SELECT source, payload FROM notes();
DROP TABLE root, leaf_b;
SELECT count(*) FROM clairon.rule;
