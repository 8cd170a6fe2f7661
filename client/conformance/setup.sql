-- The table of the scenarios that need a database. Run it once, in the database of the relay, as a role that may create tables.
CREATE TABLE IF NOT EXISTS conformance_tasks (id int, owner text, title text, rank int, PRIMARY KEY (id, owner));
ALTER TABLE conformance_tasks REPLICA IDENTITY FULL;
SELECT clairon.watch('conformance_tasks', 'USER', 'owner', topic => 'conformance.tasks', live => true, filter_columns => '{rank}');
