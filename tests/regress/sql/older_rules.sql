-- Tables of an older release work with a newer library, and rules are unchanged.
\set SHOW_CONTEXT never
CREATE TABLE t (id int PRIMARY KEY, owner text, v text);
SELECT clairon.watch('t', 'USER', 'owner', operations => '{create}', only_when => 'id < 10', topic => 'older', ack_required => true);

ALTER EVENT TRIGGER clairon_update_renamed DISABLE;
ALTER EVENT TRIGGER clairon_delete_dropped DISABLE;

-- clairon.rule without its newest four columns, three columns, and one column
CREATE FUNCTION without(VARIADIC columns text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE (SELECT format('CREATE TABLE clairon.older WITH (user_catalog_table = true) AS SELECT %s FROM clairon.rule',
                           string_agg(quote_ident(attname), ', ' ORDER BY attnum))
             FROM pg_attribute
             WHERE attrelid = 'clairon.rule'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> ALL (columns));
    ALTER TABLE clairon.rule RENAME TO newer;
    ALTER TABLE clairon.older RENAME TO rule;
END $$;
CREATE FUNCTION restored() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DROP TABLE clairon.rule;
    ALTER TABLE clairon.newer RENAME TO rule;
END $$;
SELECT without('ack_timeout', 'emitter_column', 'target_columns', 'live');
INSERT INTO t VALUES (1, 'u1', 'of 19'), (11, 'u1', 'not sent');
UPDATE clairon.rule SET topic = 'changed';
INSERT INTO t VALUES (2, 'u2', 'by the changed rule');
SELECT * FROM lines();
SELECT restored();
SELECT without('emitter_column', 'target_columns', 'live');
INSERT INTO t VALUES (3, 'u3', 'of 20');
SELECT * FROM lines();
SELECT restored();
SELECT without('live');
INSERT INTO t VALUES (7, 'u3', 'of 22');
SELECT * FROM lines();
SELECT restored();

-- a clairon.rule of no known release is not read
SELECT without('ack_timeout', 'emitter_column', 'target_columns', 'live', 'column_names');
INSERT INTO t VALUES (4, 'u4', 'not read');
SELECT * FROM lines();
SELECT restored();
SELECT without('ack_timeout', 'emitter_column', 'target_columns', 'live', 'column_numbers');
INSERT INTO t VALUES (5, 'u5', 'not read');
SELECT * FROM lines();
SELECT restored();
INSERT INTO t VALUES (6, 'u6', 'of now');
SELECT * FROM lines();

ALTER EVENT TRIGGER clairon_update_renamed ENABLE ALWAYS;
ALTER EVENT TRIGGER clairon_delete_dropped ENABLE ALWAYS;

DROP FUNCTION without, restored;
DROP TABLE t;
