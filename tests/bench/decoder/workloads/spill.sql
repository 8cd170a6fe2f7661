-- 3M narrow rows inserted by one transaction, spilled by logical_decoding_work_mem = 64MB
\set some_columns '{id,owner}'
SELECT (3000000 * :scale)::int AS n \gset
CREATE TABLE t (id bigint, owner text NOT NULL, amount int NOT NULL);
-- Less memory, so that a smaller load spills as often.
SELECT (65536 * :scale)::int AS kb \gset
ALTER DATABASE bench SET logical_decoding_work_mem = :kb;
\ir begin.sql
INSERT INTO t SELECT i, 'u' || i % 1000, i % 777 FROM generate_series(1, :n) i;
