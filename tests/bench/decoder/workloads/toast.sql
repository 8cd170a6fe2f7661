-- 200k updates that leave a TOASTed column of 20 kB unchanged, 1000 per transaction
\set some_columns '{id,owner,amount}'
SELECT (200 * :scale)::int AS n \gset
-- A fill factor with room for updates on the same page, so that they write no index entries.
CREATE TABLE t (owner text, id bigint, amount int NOT NULL, body text NOT NULL, at timestamptz,
    PRIMARY KEY (owner, id)) WITH (fillfactor = 40);
ALTER TABLE t ALTER body SET STORAGE EXTERNAL;
INSERT INTO t SELECT 'u' || i % 1000, i, i, repeat(md5(i::text), 640), timestamptz '2026-01-01'
    FROM generate_series(1, 1000) i;
CREATE PROCEDURE load(n int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n LOOP
        UPDATE t SET amount = amount + 1, at = at + interval '1 s';
        COMMIT;
    END LOOP;
END $$;
\ir begin.sql
CALL load(:n);
