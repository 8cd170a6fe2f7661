-- 300k updates of a row of 20 mixed columns, REPLICA IDENTITY FULL, 1000 a transaction
\set some_columns '{id,owner,status,amount,quantity,changed_at}'
SELECT (300 * :scale)::int AS n \gset
CREATE TABLE t (id bigint PRIMARY KEY, owner text NOT NULL, status varchar(20) NOT NULL,
    amount numeric(12,2), price float8, quantity int, grade int2, active boolean, hidden boolean,
    made_at timestamptz, changed_at timestamp, day date, clock time, ref uuid, doc jsonb,
    tags text[], address inet, note text, code char(8), span interval);
ALTER TABLE t REPLICA IDENTITY FULL;
INSERT INTO t SELECT i, 'u' || i % 1000, 'new', i * 1.25, i / 7.0, i, i % 100, i % 2 = 0, NULL,
        timestamptz '2026-01-01' + i * interval '1 s', timestamp '2026-01-01', date '2026-01-01' + i % 365,
        time '12:00' + i * interval '1 s', md5(i::text)::uuid,
        jsonb_build_object('id', i, 'name', md5(i::text), 'list', jsonb_build_array(1, 2, i)),
        ARRAY['a' || i, 'b', NULL], '10.0.0.0'::inet + i, 'a note with "quotes" and a
line break ' || md5(i::text), 'c' || i % 1000, i * interval '1 minute'
    FROM generate_series(1, 10000) i;
CREATE PROCEDURE load(n int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 0 .. n - 1 LOOP
        UPDATE t SET amount = amount + 1, quantity = quantity + 1, active = NOT active,
            changed_at = changed_at + interval '1.25 s', status = 'step ' || i
            WHERE id BETWEEN i % 10 * 1000 + 1 AND i % 10 * 1000 + 1000;
        COMMIT;
    END LOOP;
END $$;
\ir begin.sql
CALL load(:n);
