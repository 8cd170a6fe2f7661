-- Each change is evaluated by the rules as of its WAL position.
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE FUNCTION went(VARIADIC options text[] DEFAULT '{}') RETURNS SETOF text LANGUAGE sql AS $$
    SELECT payload::json #>> '{after,v}' || ' to ' || targets FROM notes(VARIADIC options)
$$;

-- rows before, within and after a transaction that sets, changes and removes a rule
INSERT INTO t VALUES (1, 'no rule yet');
BEGIN;
INSERT INTO t VALUES (2, 'no rule yet');
SELECT clairon.watch('t', 'USER', '=first');
INSERT INTO t VALUES (3, 'first');
SELECT clairon.watch('t', 'USER', '=second');
INSERT INTO t VALUES (4, 'second');
SAVEPOINT s;
SELECT clairon.watch('t', 'USER', '=lost');
INSERT INTO t VALUES (5, 'rolled back');
ROLLBACK TO s;
INSERT INTO t VALUES (6, 'second');
SAVEPOINT s2;
SELECT clairon.watch('t', 'USER', '=third');
RELEASE s2;
INSERT INTO t VALUES (7, 'third');
COMMIT;
INSERT INTO t VALUES (8, 'third');
BEGIN;
SELECT clairon.unwatch('t');
INSERT INTO t VALUES (9, 'none');
ROLLBACK;
INSERT INTO t VALUES (10, 'third');
SELECT clairon.unwatch('t');
INSERT INTO t VALUES (11, 'none');
SELECT * FROM went();

-- interleaved: b starts before the rule, writes before and after the rule's commit, and commits last
SELECT dblink_connect('b', 'dbname=' || current_database());
SELECT dblink_exec('b', 'BEGIN');
SELECT dblink_exec('b', $$INSERT INTO t VALUES (20, 'b, before the rule')$$);
SELECT clairon.watch('t', 'USER', '=late');
INSERT INTO t VALUES (21, 'a, late');
SELECT dblink_exec('b', $$INSERT INTO t VALUES (22, 'b, late')$$);
SELECT clairon.watch('t', 'USER', '=later');
INSERT INTO t VALUES (23, 'a, later');
SELECT dblink_exec('b', $$INSERT INTO t VALUES (24, 'b, later')$$);
SELECT dblink_exec('b', 'COMMIT');
INSERT INTO t VALUES (25, 'a, later');
SELECT * FROM went();

-- an old transaction is decoded after a newer rule, and a newer transaction after the old one
SELECT dblink_exec('b', 'BEGIN');
SELECT dblink_exec('b', $$INSERT INTO t VALUES (30, 'b, later')$$);
SELECT clairon.watch('t', 'USER', '=newest');
INSERT INTO t VALUES (31, 'a, newest');
SELECT dblink_exec('b', 'COMMIT');
INSERT INTO t VALUES (32, 'a, newest');
SELECT * FROM went();

-- the transaction that sets a rule stays open while others write, and is then rolled back
SELECT dblink_exec('b', 'BEGIN');
SELECT * FROM dblink('b', $$SELECT clairon.watch('t', 'USER', '=never')::text$$) AS r (r text);
INSERT INTO t VALUES (40, 'a, newest');
SELECT dblink_exec('b', 'ROLLBACK');
INSERT INTO t VALUES (41, 'a, newest');
SELECT * FROM went();

-- plain SQL on clairon.rule also changes rules
UPDATE clairon.rule SET target_list = '{by hand}';
INSERT INTO t VALUES (50, 'by hand');
DELETE FROM clairon.rule;
INSERT INTO t VALUES (51, 'none');
SELECT * FROM went();

-- a rewrite of clairon.rule does not affect earlier changes
SELECT clairon.watch('t', 'USER', '=before');
INSERT INTO t VALUES (60, 'before');
VACUUM FULL clairon.rule;
REINDEX TABLE clairon.rule;
INSERT INTO t VALUES (61, 'before');
SELECT clairon.watch('t', 'USER', '=after');
VACUUM clairon.rule;
INSERT INTO t VALUES (62, 'after');
SELECT * FROM went();

-- the table definition as of the WAL position is also used
INSERT INTO t VALUES (70, 'after');
ALTER TABLE t ADD COLUMN w int DEFAULT 5;
ALTER TABLE t RENAME v TO renamed;
INSERT INTO t VALUES (71, 'after');
ALTER TABLE t RENAME TO u;
INSERT INTO u VALUES (72, 'after');
DROP TABLE u;
SELECT source, payload FROM notes();

-- the rules are not read again for each row of clairon.rule
CREATE TABLE many (id int PRIMARY KEY);
SELECT count(clairon.watch('many', 'ALL', name => 'rule ' || i, only_when => 'id = ' || i)) FROM generate_series(1, 200) AS i;
INSERT INTO many VALUES (7);
SELECT pg_stat_force_next_flush();
SELECT seq_scan AS scans_before FROM pg_stat_user_tables WHERE relid = 'clairon.rule'::regclass \gset
SELECT source, payload FROM notes();
SELECT pg_stat_force_next_flush();
SELECT seq_scan - :scans_before < 20 AS few_scans FROM pg_stat_user_tables WHERE relid = 'clairon.rule'::regclass;
DROP TABLE many;

-- the extension may be dropped and recreated while a slot exists: unread changes of other tables
-- are then not sent, and do not stop the slot
SELECT dblink_disconnect('b');
CREATE TABLE t (id int, v text);
SELECT clairon.watch('t', 'USER', '=x');
INSERT INTO t VALUES (80, 'with it');
SELECT * FROM went();
INSERT INTO t VALUES (81, 'unread when it went');
DROP EXTENSION clairon;
INSERT INTO t VALUES (82, 'without it');
CREATE EXTENSION clairon;
INSERT INTO t VALUES (83, 'again, no rule');
SELECT clairon.watch('t', 'USER', '=x');
INSERT INTO t VALUES (84, 'again, a rule');
SELECT * FROM went();
DROP TABLE t;
SELECT count(*) FROM clairon.rules;
DROP FUNCTION went(text[]);
