-- 500k rows of 8 columns by one COPY
\set some_columns '{id,owner,title,amount}'
SELECT (500000 * :scale)::int AS n \gset
CREATE TABLE t (id bigint PRIMARY KEY, owner text NOT NULL, title text NOT NULL, body text,
    amount numeric(12,2), done boolean, ref uuid, at timestamptz);
\set file :directory '/rows'
COPY (SELECT i, 'u' || i % 1000, 'Order ' || i || ' of "' || left(md5(i::text), 8) || '"',
        repeat(md5(i::text) || ' ', 3), i * 0.37, i % 3 = 0, md5(i::text)::uuid,
        timestamptz '2026-01-01' + i * interval '1.5 s'
    FROM generate_series(1, :n) i) TO :'file';
\ir begin.sql
COPY t FROM :'file';
