-- The rows that live rules address to a user: clairon.rows() and clairon.live_rows().
\set SHOW_CONTEXT never
SET client_min_messages = warning;
-- Received notifications. Each rule has its name as emitter.
CREATE TABLE sent (place int GENERATED ALWAYS AS IDENTITY, rule text, operation text, id text, targets jsonb, after text);
CREATE FUNCTION receive() RETURNS void LANGUAGE sql AS $$
    INSERT INTO sent (rule, operation, id, targets, after)
    SELECT line #>> '{metadata,emitter}', line #>> '{metadata,operation}',
           coalesce(line #>> '{payload,after,id}', line #>> '{payload,before,id}'), line #> '{routing,audience,targets}', line #>> '{payload,after}'
    FROM (SELECT data::json AS line FROM pg_logical_slot_get_changes('regress', NULL, NULL)) AS lines
$$;
-- Returns the rows that differ from the last payload.after that the rule sent to the user. Both must agree byte for byte.
CREATE FUNCTION differences(relation regclass, user_id text, rule text DEFAULT 'default', groups jsonb DEFAULT '{}')
    RETURNS TABLE (id text, read text, sent text) LANGUAGE sql AS $$
    SELECT id, rows.after, last.after
    FROM (SELECT row ->> 'id', row::text FROM clairon.rows(relation, user_id, rule, groups) AS row) AS rows (id, after)
    FULL JOIN (SELECT id, after FROM (
                   SELECT DISTINCT ON (id) id, after FROM sent
                   WHERE sent.rule = differences.rule AND targets ? user_id ORDER BY id, place DESC) AS latest
               WHERE after IS NOT NULL) AS last USING (id)
    WHERE rows.after IS DISTINCT FROM last.after
$$;

-- rows contain values of all kinds
CREATE TYPE mood AS ENUM ('sad', 'it''s "ok"');
CREATE TYPE pair AS (a int, "b c" text, c timestamptz);
CREATE DOMAIN amount AS numeric(20, 4) CHECK (VALUE IS NULL OR VALUE <> 13);
CREATE TABLE v (gone text, id int PRIMARY KEY, owner text, i2 int2, i8 int8, f4 float4, f8 float8, n numeric, am amount,
    bo bool, tx text, vc varchar(40), ch char(5), by bytea, da date, ti time, tz timetz, ts timestamp, tt timestamptz,
    iv interval, js json, jb jsonb, uu uuid, en mood, co pair, ar int[], at text[], ap pair[], ra int4range, mr int4multirange,
    ip inet, mo money, bi bit(3), na name, xm xml, vec int2vector, oids oidvector, re regclass, pt point, tsv tsvector,
    gen text GENERATED ALWAYS AS (upper(tx)) STORED, mid int);
ALTER TABLE v DROP gone, DROP mid, ADD late int DEFAULT 7, REPLICA IDENTITY FULL;
ALTER TABLE v ALTER tx SET STORAGE EXTERNAL;
SELECT clairon.watch('v', 'USER', 'owner', emitter => 'default', live => true);
INSERT INTO v VALUES (1, 'u1', -5, 9007199254740993, 1.5, 'NaN', 'NaN', 1.5, true, 'é😀"\/' || E'\n\x01', 'vc', 'ch', '\x00ff10',
    '2024-02-29', '12:34:56.7', '12:00+02', '0044-03-15 BC', '2020-06-01 12:00:00+02', '1 mon 2 days 03:04:05.6',
    '{"a" : 1, "a": [ "x y" ]}', '{"b": [1, null, "z"], "a": 1.50}', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'it''s "ok"',
    (1, 'x"y', '2020-01-01 00:00:00+09'), '[2:3]={1,NULL}', '{a,NULL,"b \"c"}', ARRAY[(1, 'x', NULL)::pair, NULL], '[1,5)',
    '{[1,2],[5,9)}', '10.0.0.1/8', 12345.67, B'101', 'n', '<a>b</a>', '1 2', '3 4', 'pg_class', '(1,2.5)', 'a:1 b');
INSERT INTO v (id, owner) VALUES (2, 'u1'), (3, 'u2'), (4, NULL);
INSERT INTO v VALUES (5, 'u1', 3, 3, '-Infinity', 'Infinity', 'Infinity', 2, false, repeat('large é', 5000), '', '',
    '', 'infinity', '24:00', NULL, '-infinity', 'infinity', '-1 day', 'null', '"s"', NULL, NULL, NULL, '{}', '{{a},{b}}', '{}',
    'empty', '{}');
INSERT INTO v (id, owner, tx) VALUES (6, 'u1', repeat('more than max_value_bytes', 50000));
SELECT receive();
SELECT count(*) FROM sent;
SELECT * FROM differences('v', 'u1');
SELECT row -> 'id' AS id, length(row::text), row -> 'gen' IS NOT NULL AS generated, row -> 'late' AS late FROM clairon.rows('v', 'u1') AS row;
SELECT row FROM clairon.rows('v', 'u1') AS row WHERE row ->> 'id' = '1';
-- an unchanged TOASTed value, and other session settings
UPDATE v SET n = n + 1;
SET timezone = 'Asia/Tokyo'; SET datestyle = 'German'; SET intervalstyle = 'postgres'; SET extra_float_digits = -5;
SET bytea_output = 'escape'; SET lc_monetary = 'C'; SET search_path = pg_temp, public; SET quote_all_identifiers = on;
SET xmlbinary = hex; SET row_security = off;
SELECT count(*) AS other_settings FROM differences('v', 'u1');
SELECT receive();
SELECT * FROM differences('v', 'u1');
SELECT current_setting('timezone') AS kept;
RESET ALL;
\set SHOW_CONTEXT never
SET client_min_messages = warning;
UPDATE v SET owner = 'u2' WHERE id = 1;
DELETE FROM v WHERE id = 2;
ALTER TABLE v RENAME vc TO "v c";
UPDATE v SET i2 = 1;
SELECT receive();
SELECT id FROM sent WHERE operation = 'delete' ORDER BY id;
SELECT row ->> 'id' AS id, row ->> 'v c' AS "v c" FROM clairon.rows('v', 'u1') AS row;
SELECT count(*) FROM clairon.rows('v', 'u2') AS row;
SELECT count(*) FROM clairon.rows('v', 'nobody') AS row;
SELECT count(*) FROM clairon.rows('v', '') AS row;
DROP TABLE v;
TRUNCATE sent;

-- target columns of each type: indexes are used, and values are compared by their text output
CREATE TABLE k (id int PRIMARY KEY, owner text, i int, b bigint, u uuid, n numeric, e mood, c char(5), vc varchar, o oid, d amount,
    ts timestamptz, na name, ta text[], ia int[], va varchar[], ua uuid[], ea mood[], da amount[], vec oidvector, co pair, flag bool);
ALTER TABLE k REPLICA IDENTITY FULL;
INSERT INTO k (id, i, b, u, n, e, c, vc, o, d, ts, na, ta, ia, va, ua, ea, da, vec, co, flag) VALUES
    (1, 7, 7, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 1.50, 'sad', 'x', 'x', 7, 2, '2020-01-01 00:00:00+09', 'x', '{x,y}', '{7,NULL}',
     '{x}', '{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}', '{sad}', '{2}', '7 8', (1, 'x', NULL), true),
    (2, 8, 8, NULL, 1.5, 'it''s "ok"', 'y', 'y', 8, 3, 'infinity', 'y', '{{y},{z}}', '{}', NULL, NULL, NULL, NULL, NULL, NULL, false);
INSERT INTO k VALUES (3);
CREATE FUNCTION found(wanted text, VARIADIC users text[]) RETURNS TABLE (target text, user_id text, ids text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clairon.watch('k', 'USER', wanted, live => true);
    FOREACH user_id IN ARRAY users LOOP
        target := wanted;
        ids := (SELECT string_agg(row ->> 'id', ' ') FROM clairon.rows('k', found.user_id) AS row);
        RETURN NEXT;
    END LOOP;
END $$;
SELECT * FROM found('i', '7', '07', 'x', '', '99999999999999') UNION ALL
SELECT * FROM found('b', '8', ' 8') UNION ALL
SELECT * FROM found('u', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'x') UNION ALL
SELECT * FROM found('n', '1.50', '1.5', '1.500') UNION ALL
SELECT * FROM found('e', 'sad', 'it''s "ok"', 'x') UNION ALL
SELECT * FROM found('c', 'x', 'x    ') UNION ALL
SELECT * FROM found('vc', 'x', 'x ') UNION ALL
SELECT * FROM found('o', '7', 'x') UNION ALL
SELECT * FROM found('d', '2.0000', '2', '13') UNION ALL
SELECT * FROM found('ts', '2019-12-31 15:00:00+00', '2020-01-01 00:00:00+09', 'infinity') UNION ALL
SELECT * FROM found('na', 'x', repeat('x', 64)) UNION ALL
SELECT * FROM found('ta', 'x', 'y', 'z', 'NULL') UNION ALL
SELECT * FROM found('ia', '7', '07', 'NULL') UNION ALL
SELECT * FROM found('va', 'x', 'y') UNION ALL
SELECT * FROM found('ua', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'x') UNION ALL
SELECT * FROM found('ea', 'sad', 'x') UNION ALL
SELECT * FROM found('da', '2.0000', '2') UNION ALL
SELECT * FROM found('vec', '7', '8', '9') UNION ALL
SELECT * FROM found('co', '(1,x,)', 'x') UNION ALL
SELECT * FROM found('flag', 't', 'true', 'f');
-- targets of more than 255 bytes are left out
UPDATE k SET owner = repeat('x', 256) WHERE id = 1;
UPDATE k SET owner = repeat('x', 255) WHERE id = 2;
SELECT * FROM found('owner', repeat('x', 256));
SELECT ids FROM found('owner', repeat('x', 255));
DROP TABLE k;

-- target columns of domains; an index on a domain is used
CREATE DOMAIN dtext AS text;
CREATE DOMAIN dchar AS char(5);
CREATE DOMAIN dvar AS varchar(9) CHECK (VALUE <> 'never');
CREATE DOMAIN dint AS int;
CREATE DOMAIN dbit AS bit(3);
CREATE DOMAIN dmood AS mood;
CREATE DOMAIN dtwice AS dmood;
CREATE DOMAIN dtexts AS text[];
CREATE DOMAIN dints AS int[];
CREATE DOMAIN dmoods AS mood[];
CREATE DOMAIN ddmoods AS dmood[];
CREATE TABLE k (id int PRIMARY KEY, t dtext, c dchar, v dvar, i dint, b dbit, m dmood, w dtwice, at dtext[], ac dchar[], ai dint[],
    am dmood[], dt dtexts, di dints, dm dmoods, dd ddmoods);
ALTER TABLE k REPLICA IDENTITY FULL;
CREATE INDEX ON k (m);
INSERT INTO k VALUES
    (1, 'x', 'xy', 'xy', 7, '101', 'sad', 'sad', '{x,y}', '{xy}', '{7}', '{sad,NULL}', '{x}', '{7}', '{sad}', '{sad}'),
    (2, 'y', 'y', 'y', 8, '110', 'it''s "ok"', 'it''s "ok"', '{y}', '{y}', '{8}', '{"it''s \"ok\""}', '{y}', '{8}', '{}', '{}');
SELECT * FROM found('t', 'x', 'y', 'z') UNION ALL
SELECT * FROM found('c', 'xy', 'xy   ', 'x') UNION ALL
SELECT * FROM found('v', 'xy', 'never', 'x') UNION ALL
SELECT * FROM found('i', '7', '07', 'x') UNION ALL
SELECT * FROM found('b', '101', '1') UNION ALL
SELECT * FROM found('m', 'sad', 'it''s "ok"', 'x') UNION ALL
SELECT * FROM found('w', 'sad', 'x') UNION ALL
SELECT * FROM found('at', 'x', 'y', 'z') UNION ALL
SELECT * FROM found('ac', 'xy   ', 'xy') UNION ALL
SELECT * FROM found('ai', '7', '9') UNION ALL
SELECT * FROM found('am', 'sad', 'x') UNION ALL
SELECT * FROM found('dt', 'x', 'z') UNION ALL
SELECT * FROM found('di', '7', '9') UNION ALL
SELECT * FROM found('dm', 'sad', 'x') UNION ALL
SELECT * FROM found('dd', 'sad', 'x');
INSERT INTO clairon.member VALUES ('MOODS', 'sad', 'u1'), ('MOODS', 'it''s "ok"', 'u1');
SELECT clairon.watch('k', 'MOODS', 'm', live => true);
SELECT row ->> 'id' AS id FROM clairon.rows('k', 'u1') AS row;
DELETE FROM clairon.member WHERE audience = 'MOODS';
SELECT clairon.watch('k', 'USER', 'm', live => true);
SET enable_seqscan = off;
BEGIN;
SELECT seq_scan AS seq_before, idx_scan AS idx_before FROM pg_stat_xact_user_tables WHERE relid = 'k'::regclass \gset
SELECT count(*) FROM clairon.rows('k', 'sad');
SELECT seq_scan - :seq_before AS seq_scans, idx_scan > :idx_before AS by_index
FROM pg_stat_xact_user_tables WHERE relid = 'k'::regclass;
COMMIT;
RESET enable_seqscan;
DROP TABLE k;
DROP DOMAIN dtext, dchar, dvar, dint, dbit, dtexts, dints, dmoods, ddmoods, dtwice, dmood;

-- partitions with other column orders, inheritance, a composite key
CREATE TABLE p (region text, id int, owner text, body text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE p_a PARTITION OF p FOR VALUES IN ('a');
CREATE TABLE p_b (body text, gone int, owner text, id int NOT NULL, region text NOT NULL);
ALTER TABLE p_b DROP gone;
ALTER TABLE p ATTACH PARTITION p_b FOR VALUES IN ('b');
ALTER TABLE p_a REPLICA IDENTITY FULL;
ALTER TABLE p_b REPLICA IDENTITY FULL;
SELECT clairon.watch('p', 'USER', 'owner', emitter => 'default', live => true);
SELECT clairon.watch('p_b', 'USER', 'owner', name => 'leaf', emitter => 'leaf', live => true);
INSERT INTO p SELECT CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END, i, 'u' || i % 3, 'body' FROM generate_series(1, 9) AS i;
SELECT receive();
SELECT * FROM differences('p', 'u1');
SELECT * FROM clairon.rows('p', 'u1');
SELECT * FROM differences('p_b', 'u1', 'leaf');
SELECT count(*) FROM clairon.rows('p_b', 'u1', 'leaf');
SELECT line FROM clairon.live_rows('p', 'default', 'u1', '{}', 10, 1000) AS line OFFSET 1;
SELECT line::json -> 'key' AS key, line::json -> 'audience' AS audience, line::json ->> 'snapshot' = clairon.snapshot() AS same
FROM clairon.live_rows('p_b', 'leaf', 'u1', '{}', 10, 1000) AS line LIMIT 1;
CREATE TABLE parent (id int PRIMARY KEY, owner text);
CREATE TABLE child (extra int, PRIMARY KEY (id)) INHERITS (parent);
ALTER TABLE parent REPLICA IDENTITY FULL;
ALTER TABLE child REPLICA IDENTITY FULL;
SELECT clairon.watch('parent', 'USER', 'owner', emitter => 'default', live => true);
INSERT INTO parent VALUES (1, 'u1');
INSERT INTO child VALUES (0, 'u1', 5), (2, 'u1', 5);
TRUNCATE sent;
SELECT receive();
SELECT count(*), count(*) FILTER (WHERE after IS NOT NULL) AS after FROM sent;
SELECT * FROM differences('parent', 'u1');
SELECT * FROM clairon.rows('parent', 'u1');
-- rows of a foreign table are not in the WAL
CREATE FOREIGN DATA WRAPPER nothing;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;
CREATE FOREIGN TABLE remote () INHERITS (parent) SERVER nowhere;
SELECT * FROM clairon.rows('parent', 'u1');
DROP FOREIGN DATA WRAPPER nothing CASCADE;
DROP TABLE p, parent, child;
TRUNCATE sent;

-- literals, ALL, groups from clairon.member and from a token, composite audiences, columns, conditions
CREATE TABLE g (id int PRIMARY KEY, structure text, roles text[], state text, secret text);
ALTER TABLE g REPLICA IDENTITY FULL;
INSERT INTO g VALUES (1, 's1', '{admin,tutor}', 'open', 'x'), (2, 's2', '{admin}', 'open', 'x'), (3, 's+1\', '{a+b}', 'closed', 'x'), (4, NULL, NULL, NULL, NULL);
INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'u1'), ('STRUCTURE', 's+1\', 'u2'), ('ROLE', 'admin', 'u1'), ('ROLE', 'a+b', 'u2'),
    ('USERS', 'u9', 'u1');
CREATE FUNCTION ids(rule text, user_id text, groups jsonb DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(row ->> 'id', ' '), '-') FROM clairon.rows('g', user_id, rule, groups) AS row $$;
SELECT clairon.watch('g', 'ALL', name => 'all', columns => '{id,state}', live => true);
SELECT clairon.watch('g', 'USER', '=u1,u\,2', name => 'users', live => true);
SELECT clairon.watch('g', 'STRUCTURE', '=s1', name => 'group', live => true);
SELECT clairon.watch('g', 'STRUCTURE', 'structure', name => 'column', live => true);
SELECT clairon.watch('g', 'ROLE', 'roles', name => 'array', live => true);
SELECT clairon.watch('g', 'STRUCTURE+ROLE', 'structure+roles', name => 'composite', live => true);
SELECT clairon.watch('g', 'STRUCTURE+ROLE', 'structure+=admin', name => 'constant', live => true);
SELECT clairon.watch('g', 'STRUCTURE+ROLE', '=s1+admin,s\+1\\+a\+b', name => 'both', live => true);
SELECT clairon.watch('g', 'ALL', name => 'open', only_when => $$state = 'open'$$, live => true);
SELECT * FROM clairon.rows('g', 'anybody', 'all');
SELECT rule, ids(rule, 'u1') AS u1, ids(rule, 'u2') AS u2, ids(rule, 'u9') AS u9,
       ids(rule, 'u9', '{"STRUCTURE": ["s2", "s1"], "ROLE": ["admin"]}') AS token,
       ids(rule, 'u9', '{"STRUCTURE+ROLE": ["s1+admin"], "ROLE": ["s1"], "STRUCTURE": ["admin"]}') AS tricks
FROM unnest('{all,users,group,column,array,composite,constant,both,open}'::text[]) AS rule;
SELECT ids('users', 'u,2') AS comma, ids('users', 'u\,2') AS escaped;
-- memberships are read with the statement's snapshot
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT ids('group', 'late') AS before;
SELECT 1 AS done FROM dblink_connect('other', 'dbname=' || current_database());
SELECT dblink_exec('other', $$INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'late')$$);
SELECT dblink_exec('other', $$INSERT INTO g VALUES (5, 's1')$$);
SELECT ids('group', 'late') AS repeatable, ids('column', 'u1') AS rows;
COMMIT;
SELECT ids('group', 'late') AS later, ids('column', 'u1') AS rows;
SELECT dblink_disconnect('other') AS done;
DELETE FROM g WHERE id = 5;

-- for an unknown live rule, rows() raises an error and live_rows() returns no header; a user whom a rule does not address also receives no header
SELECT clairon.watch('g', 'ALL', name => 'not live');
SELECT count(*) FROM clairon.rows('g', 'u9', 'users');
SELECT * FROM clairon.rows('g', 'u1', 'none');
SELECT * FROM clairon.rows('g', 'u1', 'not live');
SELECT * FROM clairon.rows(12345, 'u1');
SELECT count(*) AS lines FROM clairon.live_rows('g', 'users', 'u9', '{}', 10, 1000);
SELECT count(*) AS lines FROM clairon.live_rows('g', 'none', 'u9', '{}', 10, 1000);
SELECT count(*) AS lines FROM clairon.live_rows('g', 'not live', 'u9', '{}', 10, 1000);
SELECT count(*) AS lines FROM clairon.live_rows('g', 'group', 'u9', '{}', 10, 1000);
SELECT count(*) AS lines FROM clairon.live_rows('public.g', 'all', 'u9', '{}', 10, 1000);
SELECT count(*) - 1 AS rows FROM clairon.live_rows('g', 'column', 'u9', '{}', 10, 1000);
-- the header contains the audience
SELECT name, line::json ->> 'audience' AS audience
FROM unnest('{all,users,column}'::text[]) AS name, clairon.live_rows('g', name, 'u1', '{}', 10, 1000) AS line
WHERE line LIKE '{"key"%';
-- a group without a kind does not match the user
SELECT count(*) AS lines FROM clairon.live_rows('g', 'users', 'u9', '{"": ["u1"]}', 10, 1000);
SELECT * FROM clairon.live_rows('g', 'all', 'u1', '{}', 3, 1000);
SELECT * FROM clairon.live_rows('g', 'all', 'u1', '{}', 10, 91);
SELECT * FROM clairon.rows('g', 'u1', 'all', max_rows => 3);
\set VERBOSITY sqlstate
SELECT * FROM clairon.live_rows('g', 'all', 'u1', '{}', 3, 1000);
SELECT * FROM clairon.live_rows('g', 'all', 'u1', '{}', 10, 91);
SELECT * FROM clairon.rows('g', 'u1', 'all', max_rows => 3);
\set VERBOSITY default
SELECT line FROM clairon.live_rows('g', 'all', 'u1', '{}', 4, 92) AS line OFFSET 1;
SELECT * FROM clairon.rows('g', 'u1', 'all', max_rows => -1);
SELECT * FROM clairon.rows('g', NULL, 'all');
SELECT * FROM clairon.rows('g', 'u1', 'all', groups => NULL);
SELECT * FROM clairon.live_rows(NULL, 'all', 'u1', '{}', 10, 1000);
SELECT * FROM clairon.live_rows('g', 'all', 'u1', '{}', 10, -1);
SELECT groups, ids('all', 'u1', groups) FROM unnest('{"{\"A\": []}", "{\"A\": [\"\"]}", "{}"}'::jsonb[]) AS groups;
SELECT ids('all', 'u1', '[]');
SELECT ids('all', 'u1', '{"A": "x"}');
SELECT ids('all', 'u1', '{"A": [1]}');
SELECT ids('all', 'u1', '{"A": [["x"]]}');
SELECT ids('all', 'u1', '{"A": {"x": ["y"]}}');
SELECT ids('all', 'u1', '"x"');

-- live_rows() finds a table by a source that contains a schema and dots
CREATE SCHEMA "s.x";
CREATE TABLE "s.x"."t.y" (id int PRIMARY KEY);
CREATE TABLE "s.x.t.y" (id int PRIMARY KEY);
SELECT clairon.watch('"s.x"."t.y"', 'ALL', live => true);
INSERT INTO "s.x"."t.y" VALUES (1);
SELECT operation, source FROM notes() WHERE source LIKE 's.x%';
SELECT line FROM clairon.live_rows('s.x.t.y', 'default', 'u1', '{}', 10, 1000) AS line OFFSET 1;
-- watch rejects a table whose source is ambiguous, and so does ALTER TABLE RENAME
SELECT clairon.watch('"s.x.t.y"', 'ALL', live => true);
CREATE SCHEMA s;
CREATE TABLE s."x.z" (id int PRIMARY KEY);
SELECT clairon.watch('s."x.z"', 'ALL', live => true);
SELECT check_name, ok, detail, hint FROM clairon.doctor() WHERE check_name LIKE 'source of rule %';
CREATE TABLE s.t (id int PRIMARY KEY);
CREATE TABLE forged (id int PRIMARY KEY);
SELECT clairon.watch('s.t', 'ALL', live => true);
SELECT clairon.watch('forged', 'ALL', live => true);
ALTER TABLE forged RENAME TO "s.t";
ALTER TABLE s.t RENAME TO "t.u";
-- allowed, because no schema t exists
ALTER TABLE s."t.u" SET SCHEMA public;
DROP TABLE "t.u";
SELECT clairon.unwatch('forged');
ALTER TABLE forged RENAME TO "s.t";
DROP TABLE "s.t";
DROP SCHEMA s, "s.x" CASCADE;
DROP TABLE "s.x.t.y";

-- watch rejects a table if one that had rules before its schema existed has the same source
CREATE TABLE "later.t" (id int PRIMARY KEY);
SELECT clairon.watch('"later.t"', 'ALL', live => true);
CREATE SCHEMA later;
CREATE TABLE later.t (id int PRIMARY KEY);
CREATE TABLE later.u (id int PRIMARY KEY);
SELECT clairon.watch('later.t', 'ALL', live => true);
SELECT clairon.watch('later.u', 'ALL', live => true);
SELECT clairon.unwatch('"later.t"');
SELECT clairon.watch('later.t', 'ALL', live => true);
DROP TABLE "later.t";
DROP SCHEMA later CASCADE;

-- rules that deny all or some rows
SELECT clairon.watch('g', 'ROLE', 'roles', name => 'dropped', live => true);
SELECT clairon.watch('g', 'ALL', name => 'fails', only_when => '10 / (id - 2) > 0', live => true);
SELECT ids('fails', 'u1');
ALTER TABLE g DROP roles;
SELECT ids('dropped', 'u1');
SELECT clairon.unwatch('g', 'column');
ALTER TABLE g DROP CONSTRAINT g_pkey;
SELECT ids('all', 'u1');

-- only members of clairon_relay may call rows() and live_rows()
SET ROLE clairon_app;
SELECT * FROM clairon.rows('g', 'u1', 'all');
SELECT * FROM clairon.live_rows('g', 'all', 'u1', '{}', 10, 1000);
RESET ROLE;
ALTER TABLE g ADD PRIMARY KEY (id);
SET ROLE clairon_relay;
SELECT count(*) FROM clairon.rows('g', 'u1', 'all');
SELECT count(*) FROM clairon.live_rows('g', 'group', 'u1', '{}', 10, 1000);
SELECT count(*) FROM g;
RESET ROLE;
-- repeated calls in one query
SELECT user_id, row ->> 'id' AS id FROM unnest('{u1,u9}'::text[]) AS user_id, clairon.rows('g', user_id, 'users') AS row;
SELECT clairon.rows('g', 'u1', 'open') ->> 'id' AS id;
-- a read assigns no transaction id
BEGIN;
SELECT count(*) FROM clairon.rows('g', 'u1', 'fails');
SELECT pg_current_xact_id_if_assigned() IS NULL AS unassigned;
COMMIT;

DROP TABLE g;
DELETE FROM clairon.member;

-- indexes on target columns are used
CREATE TABLE i (id int PRIMARY KEY, who varchar(20), many text[], kind text);
CREATE INDEX ON i (who);
CREATE INDEX ON i USING gin (many);
ALTER TABLE i REPLICA IDENTITY FULL;
INSERT INTO i SELECT n, 'u' || n, ARRAY['u' || n, 'x'], 'g' || n FROM generate_series(1, 1000) AS n;
INSERT INTO clairon.member SELECT 'G', 'u' || n, 'u1' FROM generate_series(1, 3) AS n;
ANALYZE i;
SELECT clairon.watch('i', 'USER', 'who', name => 'one', live => true);
SELECT clairon.watch('i', 'USER', 'many', name => 'array', live => true);
SELECT clairon.watch('i', 'G', 'who', name => 'group', live => true);
SELECT clairon.watch('i', 'G+G', 'many+who', name => 'composite', live => true);
SELECT clairon.watch('i', 'USER', 'kind', name => 'none', live => true);
CREATE FUNCTION scans(rule text) RETURNS TABLE (ids text, seq_scans bigint, by_index boolean) LANGUAGE plpgsql AS $$
DECLARE
    before record;
BEGIN
    SELECT seq_scan, idx_scan INTO before FROM pg_stat_xact_user_tables WHERE relid = 'i'::regclass;
    ids := (SELECT string_agg(row ->> 'id', ' ') FROM clairon.rows('i', 'u1', rule) AS row);
    SELECT seq_scan - before.seq_scan, idx_scan > before.idx_scan INTO seq_scans, by_index
    FROM pg_stat_xact_user_tables WHERE relid = 'i'::regclass;
    RETURN NEXT;
END $$;
SET enable_seqscan = off;
SELECT rule, s.* FROM unnest('{one,array,group,composite,none}'::text[]) AS rule, scans(rule) AS s;
RESET enable_seqscan;
-- doctor names the tables that need an index
SELECT clairon.watch('i', 'G+G', 'kind+=x', name => 'constant', live => true);
CREATE TABLE parted (id int, many text[], PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (1) TO (2);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (2) TO (3);
ALTER TABLE parted_1 REPLICA IDENTITY FULL;
ALTER TABLE parted_2 REPLICA IDENTITY FULL;
SELECT clairon.watch('parted', 'USER', 'many', live => true);
CREATE INDEX ON parted_1 USING gin (many);
SELECT check_name, ok, detail, hint FROM clairon.doctor() WHERE check_name LIKE 'index of live rule %' ORDER BY check_name COLLATE "C";
CREATE INDEX ON parted USING gin (many);
CREATE INDEX ON i USING hash (kind);
SELECT count(*) FROM clairon.doctor() WHERE check_name LIKE 'index of live rule %';
DROP TABLE i, parted;
DROP FUNCTION scans(text);
DELETE FROM clairon.member;

-- rows are rejected while the WAL lacks changes, or columns of old rows, that lists need
CREATE TABLE w (id int PRIMARY KEY, owner text NOT NULL, state int NOT NULL) PARTITION BY RANGE (id);
CREATE TABLE w_1 PARTITION OF w FOR VALUES FROM (1) TO (10);
ALTER TABLE w_1 REPLICA IDENTITY FULL;
INSERT INTO w VALUES (1, 'u1', 1);
SELECT clairon.watch('w', 'USER', 'owner', only_when => 'state > 0', live => true);
ALTER TABLE w_1 REPLICA IDENTITY DEFAULT;
SELECT row FROM clairon.rows('w', 'u1') AS row;
SELECT row FROM clairon.live_rows('w', 'default', 'u1', '{}', 10, 1000) AS row;
CREATE UNIQUE INDEX w_some ON w_1 (id, owner);
ALTER TABLE w_1 REPLICA IDENTITY USING INDEX w_some;
SELECT row FROM clairon.rows('w', 'u1') AS row;
CREATE UNIQUE INDEX w_all ON w_1 (id, owner, state);
ALTER TABLE w_1 REPLICA IDENTITY USING INDEX w_all;
SELECT row FROM clairon.rows('w', 'u1') AS row;
CREATE TABLE w_2 PARTITION OF w FOR VALUES FROM (10) TO (20);
SELECT row FROM clairon.rows('w', 'u1') AS row;
ALTER TABLE w_2 REPLICA IDENTITY NOTHING;
SELECT row FROM clairon.rows('w', 'u1') AS row;
DROP TABLE w_2;
ALTER TABLE w_1 SET UNLOGGED;
SELECT row FROM clairon.rows('w', 'u1') AS row;
ALTER TABLE w_1 SET LOGGED;
SELECT row FROM clairon.rows('w', 'u1') AS row;
DROP TABLE w;
-- the rows of a table with a temporary child table, whose changes are not in the WAL
CREATE TABLE v (id int PRIMARY KEY, owner text NOT NULL);
ALTER TABLE v REPLICA IDENTITY FULL;
INSERT INTO v VALUES (1, 'u1');
SELECT clairon.watch('v', 'USER', 'owner', live => true);
CREATE TEMPORARY TABLE v_1 () INHERITS (v);
SELECT row FROM clairon.rows('v', 'u1') AS row;
DROP TABLE v CASCADE;
DROP FUNCTION receive(), differences(regclass, text, text, jsonb), found(text, text[]), ids(text, text, jsonb);
DROP TABLE sent;
DROP TYPE pair, mood, amount;
RESET client_min_messages;
SELECT count(*) FROM notes();
