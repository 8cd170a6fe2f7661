-- 100k small transactions: an insert, an update and a delete each
\set some_columns '{id,owner,amount}'
SELECT (100000 * :scale)::int AS n \gset
CREATE TABLE t (owner text, id bigint, amount int NOT NULL, at timestamptz NOT NULL,
    PRIMARY KEY (owner, id));
INSERT INTO t SELECT 'u' || i % 1000, i, i, timestamptz '2026-01-01' + i * interval '1 s'
    FROM generate_series(-:n, 0) i;
CREATE PROCEDURE load(n int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n LOOP
        INSERT INTO t VALUES ('u' || i % 1000, i, i, timestamptz '2026-01-01' + i * interval '1 s');
        UPDATE t SET amount = amount + 1 WHERE (owner, id) = ('u' || (-i) % 1000, -i);
        DELETE FROM t WHERE (owner, id) = ('u' || (-i) % 1000, -i);
        COMMIT;
    END LOOP;
END $$;
\ir begin.sql
CALL load(:n);
