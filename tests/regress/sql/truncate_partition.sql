-- The TRUNCATE of a partition or child table is never sent as a TRUNCATE of the rule's table.
CREATE TABLE root (region text, id int, who text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE leaf_a PARTITION OF root FOR VALUES IN ('a');
CREATE TABLE middle PARTITION OF root FOR VALUES IN ('b', 'c') PARTITION BY LIST (region);
CREATE TABLE leaf_b PARTITION OF middle FOR VALUES IN ('b');
CREATE TABLE leaf_c PARTITION OF middle FOR VALUES IN ('c');
SELECT clairon.watch('root', 'ALL', operations => '{create,truncate}');
INSERT INTO root VALUES ('a', 1, 'u1'), ('b', 2, 'u2');
SELECT source, operation FROM notes();
-- the TRUNCATE is denied, and counted once for the topmost table
TRUNCATE leaf_a;
SELECT source, operation FROM notes();
TRUNCATE middle;
SELECT source, operation FROM notes();
TRUNCATE leaf_b, leaf_c;
SELECT source, operation FROM notes();
-- the root itself, with or without a partition
TRUNCATE root;
TRUNCATE leaf_a, root;
SELECT source, operation FROM notes();
-- a rule on the partition applies
SELECT clairon.watch('leaf_a', 'ALL', name => 'leaf', operations => '{truncate}');
SELECT clairon.watch('middle', 'ROLE', '=r', operations => '{truncate}');
TRUNCATE leaf_a, leaf_b;
SELECT source, operation, targets FROM notes();
TRUNCATE middle;
SELECT source, operation, targets FROM notes();
TRUNCATE root;
SELECT source, operation, targets FROM notes() ORDER BY source;
DROP TABLE root;

CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child () INHERITS (parent);
SELECT clairon.watch('parent', 'USER', '=u1', operations => '{truncate}');
TRUNCATE child;
SELECT source, operation FROM notes();
TRUNCATE parent;
SELECT source, operation FROM notes();
DROP TABLE child, parent;
SELECT count(*) FROM clairon.rule;
