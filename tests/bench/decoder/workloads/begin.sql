-- Runs between creating a workload's table and loading it: creates the rule, the publication, and the
-- slot that every run copies. Needs :columns (on: the rule names some columns) and :some_columns.
\if :columns
SELECT clairon.watch('t', 'USER', 'owner', columns => :'some_columns');
\else
SELECT clairon.watch('t', 'USER', 'owner');
\endif
CREATE PUBLICATION bench FOR ALL TABLES;
CHECKPOINT;
SELECT pg_create_logical_replication_slot('bench', 'test_decoding');
