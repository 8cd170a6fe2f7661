-- 1k transactions that watch a table, of 300 tables with 3000 rules, and insert a row
\set some_columns '{id,owner}'
SELECT (1000 * :scale)::int AS n \gset
CREATE TABLE t (id bigint, owner text NOT NULL);
CREATE PROCEDURE prepare() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 0 .. 299 LOOP
        EXECUTE format('CREATE TABLE t%s (id bigint, owner text NOT NULL)', i);
        FOR rule IN 1 .. 10 LOOP
            PERFORM clairon.watch(format('t%s', i)::regclass, 'USER', 'owner', name => 'rule' || rule);
        END LOOP;
        COMMIT;
    END LOOP;
END $$;
CALL prepare();
CREATE PROCEDURE load(n int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n LOOP
        PERFORM clairon.watch(format('t%s', i % 300)::regclass, 'USER', 'owner');
        EXECUTE format('INSERT INTO t%s VALUES (1, ''u1'')', i % 300);
        PERFORM clairon.unwatch(format('t%s', i % 300)::regclass, 'default');
        COMMIT;
    END LOOP;
END $$;
\ir begin.sql
CALL load(:n);
