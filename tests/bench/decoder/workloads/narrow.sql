-- 1M narrow rows inserted by one transaction
\set some_columns '{id,owner}'
SELECT (1000000 * :scale)::int AS n \gset
CREATE TABLE t (id bigint, owner text NOT NULL, amount int NOT NULL);
\ir begin.sql
INSERT INTO t SELECT i, 'u' || i % 1000, i % 777 FROM generate_series(1, :n) i;
