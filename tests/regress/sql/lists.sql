-- Lists of live rules: filter_columns of clairon.watch(), and filter, sort, after and limit of clairon.rows() and clairon.live_rows().
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- watch checks filter_columns
CREATE TYPE pair AS (a int, b text);
CREATE TYPE unordered AS (a int, b json);
CREATE TABLE f (id int PRIMARY KEY, gone text, a int, b text, c json, d point, e json[], f unordered, g pair, h int[]);
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE FUNCTION filters(wanted text[], columns text[] DEFAULT NULL, live boolean DEFAULT true) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    PERFORM clairon.watch('f', 'ALL', columns => filters.columns, live => filters.live, filter_columns => wanted);
    RETURN (SELECT filter_columns FROM clairon.rules WHERE relation = 'f'::regclass);
END $$;
SELECT filters('{a,nothing}');
SELECT filters('{a,NULL}');
SELECT filters('{}');
SELECT filters('{a,b}', '{id,a}');
SELECT filters('{a,b}', live => false);
SELECT filters('{c}');
SELECT filters('{a,d}');
SELECT filters('{e}');
SELECT filters('{f}');
SELECT filters('{ctid}');
SELECT clairon.unwatch('f');
CREATE TABLE wide (id int PRIMARY KEY);
DO $$
BEGIN
    FOR i IN 1..33 LOOP
        EXECUTE format('ALTER TABLE wide ADD c%s int', i);
    END LOOP;
END $$;
SELECT clairon.watch('wide', 'ALL', live => true, filter_columns => ARRAY(SELECT 'c' || n FROM generate_series(1, 33) AS n));
SELECT clairon.watch('wide', 'ALL', live => true, filter_columns => ARRAY(SELECT 'c' || n FROM generate_series(1, 32) AS n));
DROP TABLE wide;
-- the order is kept, duplicates are not; the NOTICE names the change
SELECT filters('{h,b,a,g,b}') AS given, filters('{a,b}', '{id,a,b}') AS with_columns, filters(NULL) AS none;
SET client_min_messages = notice;
SELECT filters('{b,gone,a}');
SET client_min_messages = warning;
-- renamed and dropped columns
ALTER TABLE f RENAME b TO "b ""c""";
ALTER TABLE f DROP gone;
SELECT filter_columns FROM clairon.rules WHERE relation = 'f'::regclass;
INSERT INTO f VALUES (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'y');
SELECT row ->> 'id' AS id FROM clairon.rows('f', 'u1', filter => '{"b \"c\"": "y"}', sort => '{-a}') AS row;
SELECT * FROM clairon.rows('f', 'u1', filter => '{"b": "y"}');
SELECT * FROM clairon.rows('f', 'u1', filter => '{"gone": "y"}');
-- a dump is restored into a table with other column numbers
CREATE TABLE restored (a int, "b ""c""" text, id int PRIMARY KEY);
ALTER TABLE restored REPLICA IDENTITY FULL;
INSERT INTO restored (id, a, "b ""c""") SELECT id, a, "b ""c""" FROM f;
CREATE TEMP TABLE dumped AS SELECT * FROM clairon.rule WHERE relation = 'f'::regclass;
UPDATE dumped SET relation = 'restored';
INSERT INTO clairon.rule SELECT * FROM dumped;
SELECT filter_columns FROM clairon.rules WHERE relation = 'restored'::regclass;
SELECT row FROM clairon.rows('restored', 'u1', filter => '{"b \"c\"": "y"}', sort => '{-a}') AS row;
DROP TABLE f, restored, dumped;

-- a value is what payload.after contains, or a text; PostgreSQL compares it
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN amount AS numeric(20, 4);
CREATE DOMAIN feeling AS mood;
CREATE TABLE v (id int PRIMARY KEY, i2 int2, i4 int, i8 bigint, f4 real, f8 float8, n numeric, am amount, bo boolean, tx text, tc text COLLATE "C",
    vc varchar(10), ch char(5), na name, by bytea, da date, ti time, tz timetz, ts timestamp, tt timestamptz, iv interval, uu uuid,
    en mood, fe feeling, ip inet, mo money, bi bit(3), ra int4range, rt tstzrange, oi oid, ar int[], jb jsonb, co pair, tv tsvector);
ALTER TABLE v REPLICA IDENTITY FULL;
INSERT INTO v SELECT n, nullif(n % 4, 0) - 2, nullif(n % 5, 0), CASE n % 3 WHEN 0 THEN 9007199254740990 + n WHEN 1 THEN -n END,
    (ARRAY['NaN', 'Infinity', '-Infinity', '1.5', '-0', NULL])[n % 6 + 1]::real, (ARRAY['NaN', 'Infinity', '-1e300', '1.5', '0.1', NULL])[n % 6 + 1]::float8,
    (ARRAY['NaN', '1.0', '1.00', '-5', '1e30', NULL])[n % 6 + 1]::numeric, nullif(n % 6, 0) / 3.0, nullif(n % 3, 0) = 1,
    (ARRAY['a', 'B', 'é', E'\\ "x', '', NULL])[n % 6 + 1], (ARRAY['a', 'B', 'é', '😀', 'ﬀ', NULL])[n % 6 + 1], nullif('v' || n % 4, 'v0'), nullif('c' || n % 4, 'c0'),
    nullif('n' || n % 4, 'n0'), decode(nullif(lpad(to_hex(n % 4), 2, '0'), '00') || 'ff', 'hex'),
    (ARRAY['infinity', '-infinity', '2024-02-29', '0044-03-15 BC', '12024-01-01', NULL])[n % 6 + 1]::date, nullif(n % 4, 0) * time '06:00' - time '00:00',
    (ARRAY['12:00+02', '11:00+01', '24:00-05:30', NULL])[n % 4 + 1]::timetz,
    (ARRAY['infinity', '-infinity', '2024-02-29 01:02:03.4', '0044-03-15 10:00 BC', '12024-01-01', NULL])[n % 6 + 1]::timestamp,
    (ARRAY['infinity', '-infinity', '2024-02-29 01:02:03.000004+09', '0044-03-15 10:00+00 BC', '12024-01-01+00', NULL])[n % 6 + 1]::timestamptz,
    (ARRAY['1 day', '24:00', '-1 mon 2 days', NULL])[n % 4 + 1]::interval, nullif(lpad(to_hex(n % 4), 32, 'A0'), repeat('A0', 15) || 'A0')::uuid,
    (enum_range(NULL::mood))[n % 4], (enum_range(NULL::mood))[n % 4]::feeling, (ARRAY['10.0.0.1', '10.0.0.1/8', '::1', NULL])[n % 4 + 1]::inet,
    nullif(n % 4, 0)::money, (ARRAY['101', '110', NULL])[n % 3 + 1]::bit(3), (ARRAY['[1,5)', 'empty', '(,3]', NULL])[n % 4 + 1]::int4range,
    (ARRAY['[2024-01-01+00,)', 'empty', '(,2024-01-01+05]', NULL])[n % 4 + 1]::tstzrange, nullif(n % 3, 0)::oid,
    (ARRAY['{1,NULL}', '{}', '{{1},{2}}', NULL])[n % 4 + 1]::int[], (ARRAY['{"a": 1}', '"s"', 'null', '[1.50]', NULL])[n % 5 + 1]::jsonb,
    (ARRAY['(1,"x""y")', '(,)', '(2,)', NULL])[n % 4 + 1]::pair, (ARRAY['a:1 b', 'c', NULL])[n % 3 + 1]::tsvector
FROM generate_series(1, 60) AS n;
DO $$
BEGIN
    PERFORM clairon.watch('v', 'ALL', live => true, filter_columns => ARRAY(
        SELECT attname FROM pg_attribute WHERE attrelid = 'v'::regclass AND attnum > 1 ORDER BY attnum LIMIT 32));
    PERFORM clairon.watch('v', 'ALL', name => 'last', live => true, filter_columns => '{tv}');
END $$;
CREATE VIEW columns AS SELECT attname::text AS name, CASE attname WHEN 'tv' THEN 'last' ELSE 'default' END AS rule,
    attname IN ('ar', 'jb', 'co') AS by_text, CASE attname WHEN 'fe' THEN '::mood' ELSE '' END AS base FROM pg_attribute WHERE attrelid = 'v'::regclass AND attnum > 1;
CREATE FUNCTION ids(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ids text;
BEGIN
    EXECUTE 'SELECT string_agg(id::text, '' '') FROM (' || query || ') AS q' INTO ids;
    RETURN ids;
END $$;
CREATE FUNCTION listed(rule text, filter jsonb, sort text[] DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(row ->> 'id', ' ') FROM clairon.rows('v', 'u1', rule, filter => filter, sort => sort) AS row $$;
-- returns the columns in which a value of a row, as in payload.after or as a text, does not find the same rows as PostgreSQL
SELECT name, given.kind, r.id FROM columns
CROSS JOIN (SELECT row ->> 'id' AS id, row FROM clairon.rows('v', 'u1') AS row WHERE (row ->> 'id')::int <= 24) AS r
CROSS JOIN LATERAL (VALUES ('json', (row -> name)::jsonb), ('text', to_jsonb(ids(format('SELECT %I AS id FROM v WHERE id = %s', name, r.id))))) AS given (kind, value)
WHERE NOT (by_text AND given.kind = 'json')
  AND listed(rule, jsonb_build_object(name, given.value)) IS DISTINCT FROM
      ids(format('SELECT v.id FROM v JOIN v AS given ON given.id = %s WHERE v.%I%s = given.%2$I%3$s OR v.%2$I IS NOT DISTINCT FROM NULL AND given.%2$I IS NOT DISTINCT FROM NULL ORDER BY v.id', r.id, name, base));
-- the same for ranges, lists and orders
SELECT name, r.id FROM columns
CROSS JOIN (SELECT row ->> 'id' AS id, row FROM clairon.rows('v', 'u1') AS row WHERE (row ->> 'id')::int <= 12) AS r
CROSS JOIN LATERAL (SELECT CASE WHEN by_text THEN to_jsonb(ids(format('SELECT %I AS id FROM v WHERE id = %s', name, r.id))) ELSE (row -> name)::jsonb END) AS given (value)
WHERE jsonb_typeof(value) <> 'null'
  AND (listed(rule, jsonb_build_object(name, jsonb_build_object('from', value)), ARRAY['-' || name]) IS DISTINCT FROM
       ids(format('SELECT v.id FROM v JOIN v AS given ON given.id = %s WHERE v.%I%s >= given.%2$I%3$s ORDER BY v.%2$I DESC, v.id', r.id, name, base))
    OR listed(rule, jsonb_build_object(name, jsonb_build_object('to', value)), ARRAY[name]) IS DISTINCT FROM
       ids(format('SELECT v.id FROM v JOIN v AS given ON given.id = %s WHERE v.%I%s < given.%2$I%3$s ORDER BY v.%2$I, v.id', r.id, name, base))
    OR listed(rule, jsonb_build_object(name, jsonb_build_array(value, NULL, value)), ARRAY['-' || name, '-id']) IS DISTINCT FROM
       ids(format('SELECT v.id FROM v JOIN v AS given ON given.id = %s WHERE v.%I%s = given.%2$I%3$s OR v.%2$I IS NOT DISTINCT FROM NULL ORDER BY v.%2$I DESC, v.id DESC', r.id, name, base)));
SELECT listed('default', '{"i4": [1, "2", 1], "bo": true}') AS list, listed('default', '{"i4": []}') AS nothing, listed('default', '{"i4": [null]}') AS nulls,
       listed('default', '{"i4": {"from": 1, "to": "3"}, "n": "1.000"}') AS range, listed('default', '{}') IS NOT DISTINCT FROM listed('default', NULL) AS all,
       listed('default', '{"ch": "c1", "vc": "v1 "}') AS blanks, listed('default', '{"ar": ["{}", "{{1},{2}}"], "co": ["(,)", "(2,)"]}') AS arrays;

-- paging by `after` returns exactly the rows of one answer, in each order
CREATE FUNCTION pages(rule text, sort text[], size int, filter jsonb DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    columns text[] := ARRAY(SELECT ltrim(c, '-') FROM unnest(sort) WITH ORDINALITY AS s (c, place) ORDER BY place);
    after jsonb;
    found text[] := '{}';
    page json[];
BEGIN
    IF columns = '{}' OR 'id' <> ALL (columns) THEN
        columns := columns || 'id'::text;
    END IF;
    LOOP
        page := ARRAY(SELECT row FROM clairon.rows('v', 'u1', rule, filter => pages.filter, sort => pages.sort, after => after, "limit" => size) AS row);
        EXIT WHEN cardinality(page) = 0;
        found := found || ARRAY(SELECT row ->> 'id' FROM unnest(page) WITH ORDINALITY AS p (row, place) ORDER BY place);
        after := (SELECT jsonb_agg(CASE WHEN name IN ('ar', 'jb', 'co') THEN coalesce(to_jsonb(ids(format('SELECT %I AS id FROM v WHERE id = %s', name, found[cardinality(found)]))), 'null')
                                        ELSE (page[cardinality(page)] -> name)::jsonb END ORDER BY place)
                  FROM unnest(columns) WITH ORDINALITY AS c (name, place));
    END LOOP;
    RETURN array_to_string(found, ' ');
END $$;
SELECT name, sort, size FROM columns
CROSS JOIN LATERAL (VALUES (ARRAY[name]), (ARRAY['-' || name]), (ARRAY['-' || name, '-id'])) AS o (sort)
CROSS JOIN unnest('{1,7}'::int[]) AS size
WHERE pages(rule, sort, size) IS DISTINCT FROM listed(rule, NULL, sort);
SELECT sort, filter, size
FROM unnest('{"{i4,-bo}","{-bo,i4,-tt}","{-tx,-i2,en,id}","{en,-id}","{id}","{-id}","{}"}'::text[]) AS s (given)
CROSS JOIN LATERAL (SELECT given::text[]) AS o (sort)
CROSS JOIN unnest(ARRAY[NULL, '{"i2": [-1, 1]}', '{"i2": [-1, null], "bo": true}', '{"i4": {"from": 2}, "i2": 1}', '{"bo": [true, false], "i2": [0, 1, -1]}']::jsonb[]) AS filter
CROSS JOIN unnest('{1,2,5}'::int[]) AS size
WHERE pages('default', sort, size, filter) IS DISTINCT FROM coalesce(listed('default', filter, sort), '');
-- without a limit, after also works
SELECT string_agg(row ->> 'id', ' ') FROM clairon.rows('v', 'u1', sort => '{-i4}', after => '[4, 39]') AS row;
SELECT string_agg(row ->> 'id', ' ') FROM clairon.rows('v', 'u1', sort => '{i4}', after => '[null, 45]') AS row;
SELECT string_agg(row ->> 'id', ' ') FROM clairon.rows('v', 'u1', sort => '{i4}', after => '[null, null]') AS row;

-- each fault: an error of rows() that names the column or the field
CREATE FUNCTION fault(filter jsonb DEFAULT NULL, sort text[] DEFAULT NULL, after jsonb DEFAULT NULL, "limit" int DEFAULT NULL, is_count boolean DEFAULT NULL,
    OUT rows text, OUT live_rows text) LANGUAGE plpgsql AS $$
BEGIN
    live_rows := (SELECT string_agg(line, E'\n') FROM clairon.live_rows('v', 'default', 'u1', '{}', 100, 100000, filter, sort, after, "limit", is_count) AS line);
    PERFORM FROM clairon.rows('v', 'u1', 'default', '{}', 100, filter, sort, after, "limit");
EXCEPTION WHEN OTHERS THEN
    rows := SQLSTATE || ' ' || SQLERRM;
END $$;
\x
SELECT * FROM fault('[1]');
SELECT * FROM fault('"i4"');
SELECT * FROM fault('{"nothing": 1}');
SELECT * FROM fault('{"tv": "a"}');
SELECT * FROM fault('{"id": 1}');
SELECT * FROM fault('{"ctid": "(0,1)"}');
SELECT * FROM fault('{"i4": "x"}');
SELECT * FROM fault('{"i4": 1.5}');
SELECT * FROM fault('{"i2": [1, 40000]}');
SELECT * FROM fault('{"i4": true}');
SELECT * FROM fault('{"en": "angry"}');
SELECT * FROM fault('{"n": [1, 1e100000]}');
SELECT * FROM fault('{"by": "$"}');
SELECT * FROM fault('{"by": "\\xabc"}');
SELECT * FROM fault('{"jb": "{"}');
SELECT * FROM fault('{"ar": "{1"}');
SELECT * FROM fault('{"ar": [[1]]}');
SELECT * FROM fault('{"i4": [1, {}]}');
SELECT * FROM fault('{"i4": {}}');
SELECT * FROM fault('{"i4": {"from": null}}');
SELECT * FROM fault('{"i4": {"from": 1, "to": null}}');
SELECT * FROM fault('{"i4": {"from": [1]}}');
SELECT * FROM fault('{"i4": {"from": 1, "until": 2}}');
SELECT * FROM fault('{"i4": {"from": "x"}}');
SELECT * FROM fault(sort => '{i4,NULL}');
SELECT * FROM fault(sort => '{i4,-i4}');
SELECT * FROM fault(sort => '{{i4},{i2}}');
SELECT * FROM fault(sort => '{--i4}');
SELECT * FROM fault(sort => '{""}');
SELECT * FROM fault(sort => '{-}');
SELECT * FROM fault(sort => '{tv}');
SELECT * FROM fault(after => '{}');
SELECT * FROM fault(after => '1');
SELECT * FROM fault(after => '[1, 2]');
SELECT * FROM fault(sort => '{i4}', after => '[1]');
SELECT * FROM fault(sort => '{i4}', after => '[1, [2]]');
SELECT * FROM fault(sort => '{i4}', after => '["x", 1]');
SELECT * FROM fault("limit" => 0);
SELECT * FROM fault("limit" => -1);
SELECT * FROM fault("limit" => 101);
SELECT live_rows FROM fault("limit" => 1, is_count => true);
SELECT live_rows FROM fault(after => '[1]', is_count => true);
SELECT live_rows FROM fault(sort => '{i4}', is_count => true);
SELECT live_rows FROM fault(json_build_object('i4', repeat('é', 600))::jsonb);
\x
-- a missing or unaddressed rule has no header, whatever the request
SELECT count(*) FROM clairon.live_rows('v', 'none', 'u1', '{}', 10, 1000, '{"i4": "x"}');

-- the header, the end and the count
CREATE FUNCTION page(filter jsonb, sort text[], "limit" int, max_bytes bigint DEFAULT 100000, is_count boolean DEFAULT NULL, rule text DEFAULT 'default')
    RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(CASE WHEN line LIKE '{"key"%' THEN regexp_replace(line, '"snapshot":"[^"]*"', '"snapshot":..') WHEN line = '' THEN 'rest' ELSE line::json ->> 'id' END, ' ')
    FROM clairon.live_rows('v', rule, 'u1', '{}', 60, max_bytes, filter, sort, NULL, "limit", is_count) AS line $$;
SELECT page('{"i4": 1}', '{-id}', 3);
SELECT page('{"i4": 1}', '{-id}', 11), page('{"i4": 1}', '{-id}', 12), page('{"i4": 1}', '{-id}', 13);
SELECT page('{"i4": 99}', NULL, 5), page('{"i4": []}', NULL, 5);
SELECT page('{"i4": 1}', NULL, NULL, is_count => true), page('{"i4": 99}', NULL, NULL, is_count => true), page(NULL, NULL, NULL, is_count => true);
-- max_bytes cuts an answer with a limit, but not before its first row
SELECT page('{"i4": 1}', NULL, 10, 2000), page('{"i4": 1}', NULL, 10, 0);
SELECT page('{"i4": 1}', NULL, NULL, 2000);
-- judge: columns whose values a client can compare, in the way of this request
SELECT page(NULL, NULL, 1, rule => 'last');
SELECT request, line::json ->> 'judge' AS judge
FROM (VALUES ('{"tx": "a", "vc": ["v1", null]}', NULL), ('{"tx": {"from": "a"}, "i4": {"from": 1}}', NULL), (NULL, '{tx,-i4,en}'), ('{"i4": "1", "i8": "5", "bo": "t"}', NULL),
             ('{"i8": "9007199254740993", "uu": "A0A0A0A0-a0a0-a0a0-a0a0-a0a0a0a0a0a1"}', NULL), ('{"i8": 9007199254740993, "bo": true, "en": "ok", "tx": 1}', NULL)) AS t (request, sort),
     LATERAL clairon.live_rows('v', 'default', 'u1', '{}', 60, 100000, request::jsonb, sort::text[], NULL, 1, NULL) AS line
WHERE line LIKE '{"key"%';

DROP VIEW columns;
DROP TABLE v;
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE v (id text COLLATE any_case PRIMARY KEY, name text COLLATE any_case);
ALTER TABLE v REPLICA IDENTITY FULL;
INSERT INTO v VALUES ('a', 'X'), ('B', 'x'), ('c', 'y'), ('D', NULL);
SELECT clairon.watch('v', 'ALL', live => true, filter_columns => '{name}');
SELECT page('{"name": "x"}', '{name}', 5), page('{"name": ["x", "X", "y"]}', '{-name}', 5);
SELECT pages('default', '{-name}', 1);
DROP TABLE v;
DROP COLLATION any_case;

-- targets: each user's own rows, by limit and after, as one answer has
CREATE TABLE v (id int PRIMARY KEY, owner text, price numeric, many text[], other text, i4 int, open boolean);
ALTER TABLE v REPLICA IDENTITY FULL;
INSERT INTO v SELECT n, 'g' || n % 5, (ARRAY[1.5, 1.50, 2])[n % 3 + 1], ARRAY['g' || n % 5, 'g' || n % 3], 'r' || n % 2, nullif(n % 4, 0), n % 10 = 0
FROM generate_series(1, 200) AS n;
INSERT INTO clairon.member SELECT 'G', 'g' || n, 'u1' FROM generate_series(1, 3) AS n;
INSERT INTO clairon.member VALUES ('P', '1.5', 'u1'), ('P', '1.50', 'u1'), ('R', 'r1', 'u1');
SELECT clairon.watch('v', 'G', 'owner', name => 'group', live => true, filter_columns => '{i4,open}');
SELECT clairon.watch('v', 'P', 'price', name => 'number', live => true, filter_columns => '{i4,open}');
SELECT clairon.watch('v', 'G', 'many', name => 'array', live => true, filter_columns => '{i4,open}');
SELECT clairon.watch('v', 'G+R', 'owner+other', name => 'composite', live => true, filter_columns => '{i4,open}');
SELECT clairon.watch('v', 'G', '=g1,g9', name => 'literal', live => true, filter_columns => '{i4,open}');
SELECT clairon.watch('v', 'G', 'owner', name => 'rare', only_when => 'open', live => true, filter_columns => '{i4,open}');
SELECT clairon.watch('v', 'G', '=g9', name => 'denied', live => true, filter_columns => '{i4,open}');
CREATE FUNCTION differences() RETURNS TABLE (rule text, sort text, filter jsonb) LANGUAGE sql AS $$
    SELECT rule, sort, filter FROM unnest('{group,number,array,composite,literal,rare,denied}'::text[]) AS rule, unnest('{"{}","{-i4}","{open,-id}"}'::text[]) AS sort,
         unnest(ARRAY[NULL, '{"i4": 2}', '{"i4": [1, 3, 1]}', '{"i4": [1, null]}', '{"i4": {"to": 3}}']::jsonb[]) AS filter, unnest('{1,8,50}'::int[]) AS size
    WHERE pages(rule, sort::text[], size, filter) IS DISTINCT FROM coalesce(listed(rule, filter, sort::text[]), '')
       OR page(filter, NULL, NULL, is_count => true, rule => rule) NOT LIKE '%"count":' || (SELECT count(*) FROM clairon.rows('v', 'u1', rule, filter => filter)) || '}' $$;
SELECT * FROM differences();
CREATE INDEX ON v (owner, i4, id);
CREATE INDEX ON v (price, i4);
ANALYZE v;
SET enable_seqscan = off;
SELECT * FROM differences();
RESET enable_seqscan;
SELECT rule, left(listed(rule, '{"i4": [1, 3]}', '{-i4}'), 30) AS ids FROM unnest('{group,number,array,composite,literal,rare,denied}'::text[]) AS rule;
SELECT page(NULL, NULL, NULL, is_count => true, rule => 'denied'), page('{"nothing": 1}', NULL, NULL, rule => 'denied');
DELETE FROM clairon.member;
DROP TABLE v;

-- an index on target, filter and order columns serves a list: one scan for each target and each value of a list
CREATE TABLE v (id int PRIMARY KEY, owner text, state text, at int, open boolean);
ALTER TABLE v REPLICA IDENTITY FULL;
INSERT INTO v SELECT n, 'g' || n % 20, 's' || n % 3, n * 7919 % 10007, n % 2 = 0 FROM generate_series(1, 20000) AS n;
INSERT INTO clairon.member SELECT 'G', 'g' || n, 'u1' FROM generate_series(1, 3) AS n UNION ALL VALUES ('G', 'g7', 'u2');
CREATE INDEX v_list ON v (owner, state, at DESC, id);
VACUUM ANALYZE v;
SELECT clairon.watch('v', 'G', 'owner', live => true, filter_columns => '{state,at}');
SELECT clairon.watch('v', 'G', 'owner', name => 'rare', only_when => 'id % 50 = 7', live => true, filter_columns => '{state,at}');
CREATE FUNCTION scans(user_id text, filter jsonb, sort text[], after jsonb DEFAULT NULL, rule text DEFAULT 'default')
    RETURNS TABLE (seq_scans bigint, index_scans bigint, entries bigint, rows bigint) LANGUAGE plpgsql AS $$
DECLARE
    index constant oid := 'v_list'::regclass;
    before constant bigint[] := ARRAY[pg_stat_get_xact_numscans('v'::regclass), pg_stat_get_xact_numscans(index), pg_stat_get_xact_tuples_returned(index)];
BEGIN
    rows := (SELECT count(*) FROM clairon.rows('v', user_id, rule, filter => filter, sort => sort, after => after, "limit" => 10));
    seq_scans := pg_stat_get_xact_numscans('v'::regclass) - before[1];
    index_scans := pg_stat_get_xact_numscans(index) - before[2];
    entries := pg_stat_get_xact_tuples_returned(index) - before[3];
    RETURN NEXT;
END $$;
SELECT * FROM scans('u2', '{"state": "s1"}', '{-at}');
SELECT * FROM scans('u2', '{"state": "s1"}', '{-at}', '[5000, 1]');
SELECT * FROM scans('u2', '{"state": "s1", "at": {"from": 2000, "to": 9000}}', '{at,-id}');
SELECT * FROM scans('u1', '{"state": "s1"}', '{-at}');
SELECT * FROM scans('u1', '{"state": ["s1", "s2"]}', '{-at}');
-- few of the rows are addressed: further queries begin behind the last row
SELECT * FROM scans('u2', '{"state": "s1"}', '{-at}', NULL, 'rare');
-- and few queries, however rare these are
SELECT clairon.watch('v', 'ALL', name => 'rarest', only_when => 'id % 5000 = 7', live => true, filter_columns => '{state,at}');
SELECT * FROM scans('u2', NULL, '{-at}', NULL, 'rarest');
SELECT listed('rarest', NULL, '{-at}') AS ids, pages('rarest', '{-at}', 1) AS one, pages('rarest', '{-at}', 3) AS three, pages('rarest', '{-at}', 4) AS four;
SELECT page(NULL, '{-at}', 1, rule => 'rarest'), page(NULL, '{-at}', 3, 0, rule => 'rarest');
SELECT page(NULL, '{-at}', 3, rule => 'rarest'), page(NULL, '{-at}', 4, rule => 'rarest');
-- without an index, one scan of the table
DROP INDEX v_list;
CREATE INDEX v_list ON v (at);
ALTER TABLE v ADD other int;
SELECT clairon.watch('v', 'G', 'owner', live => true, filter_columns => '{state,at,other}');
SELECT seq_scans, rows FROM scans('u1', '{"state": ["s1", "s2"]}', '{other}');
-- doctor names the tables that need an index
CREATE FUNCTION indexes() RETURNS TABLE (check_name text, ok boolean, detail text, hint text) LANGUAGE sql AS $$
    SELECT * FROM clairon.doctor() WHERE check_name LIKE 'filter index of live rule %' ORDER BY check_name COLLATE "C", hint $$;
SELECT * FROM indexes();
CREATE INDEX ON v (at, owner);
SELECT * FROM indexes();
SELECT clairon.watch('v', 'ALL', name => 'all', live => true, filter_columns => '{open,state}');
SELECT clairon.watch('v', 'G', '=g1', name => 'literal', live => true, filter_columns => '{at}');
SELECT clairon.watch('v', 'G', 'state', name => 'partial', live => true, filter_columns => '{owner,state}');
CREATE INDEX ON v (state, owner) WHERE open;
SELECT * FROM indexes();
CREATE INDEX ON v (state, owner);
SELECT * FROM indexes();
DELETE FROM clairon.member;
DROP TABLE v;
CREATE TABLE parted (id int PRIMARY KEY, many text[], owner text, other text, "a b" int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (1) TO (2);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (2) TO (3);
ALTER TABLE parted_1 REPLICA IDENTITY FULL;
ALTER TABLE parted_2 REPLICA IDENTITY FULL;
SELECT clairon.watch('parted', 'G', 'many', name => 'array', live => true, filter_columns => '{"a b"}');
SELECT clairon.watch('parted', 'G+R', 'owner+other', name => 'composite', live => true, filter_columns => '{"a b"}');
SELECT * FROM indexes();
CREATE INDEX ON parted_1 (other, owner, "a b");
SELECT * FROM indexes();
CREATE INDEX ON parted (owner, "a b");
SELECT * FROM indexes();
INSERT INTO parted VALUES (1, '{x}', 'g', 'r', 1), (2, '{x,y}', 'g', 'r', 1);
SELECT row ->> 'id' AS id FROM clairon.rows('parted', 'u1', 'array', '{"G": ["x", "y"]}', filter => '{"a b": [1, 2]}', sort => '{-a b,-id}', "limit" => 5) AS row;
DROP TABLE parted;

-- settings that a constraint of the owner changes while a value is read do not change the rows
CREATE FUNCTION tamper(i int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('timezone', 'Asia/Tokyo', false), set_config('jit', 'on', false);
    RETURN true;
END $$;
CREATE DOMAIN tampering AS int CHECK (tamper(VALUE));
CREATE TYPE tampered AS (a tampering);
CREATE TABLE v (id int PRIMARY KEY, a tampered, at timestamptz);
ALTER TABLE v REPLICA IDENTITY FULL;
INSERT INTO v VALUES (1, ROW(1), '2020-01-01 00:00Z');
SET timezone = 'UTC';
SELECT clairon.watch('v', 'ALL', live => true, filter_columns => '{a,at}');
SELECT row FROM clairon.rows('v', 'u1', filter => '{"a": "(1)", "at": "2020-01-01 00:00"}') AS row;
SELECT row FROM clairon.rows('v', 'u1', sort => '{a}', after => '["(0)", 1]') AS row;
SELECT current_setting('timezone') AS timezone;
DROP TABLE v;
DROP TYPE tampered, tampering;
DROP FUNCTION tamper(int);

-- a table with dropped columns
CREATE TABLE v (id int PRIMARY KEY, gone json, a int);
ALTER TABLE v DROP gone, REPLICA IDENTITY FULL;
SELECT clairon.watch('v', 'ALL', live => true, filter_columns => '{a}');
SELECT clairon.watch('v', 'ALL', name => 'second', live => true, filter_columns => '{id,a}');
SELECT clairon.watch('v', 'ALL', name => 'third', live => true, filter_columns => '{id}');
ALTER TABLE v DROP a;
DROP TABLE v;

-- the statements of requests are kept, at most 64, and follow changes of the table
CREATE TABLE v (id int PRIMARY KEY, a int, b int, c int, d int, e int, f int, g int, h int);
ALTER TABLE v REPLICA IDENTITY FULL;
INSERT INTO v SELECT i, i, i, i, i, i, i, i, i FROM generate_series(1, 3) i;
SELECT clairon.watch('v', 'ALL', live => true, filter_columns => '{a,b,c,d,e,f,g,h}');
SELECT count(*) AS before FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource' \gset
SELECT count(*) AS requests, sum(found) AS rows FROM (
    SELECT (SELECT count(*) FROM clairon.rows('v', 'u1', filter => (SELECT coalesce(jsonb_object_agg(chr(97 + i), 2), '{}')
        FROM generate_series(0, 7) i WHERE n >> i & 1 = 1))) AS found
    FROM generate_series(0, 255) n) AS request;
SELECT count(*) BETWEEN 64 AND :before + 64 AS kept FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource';
SELECT row FROM clairon.rows('v', 'u1', filter => '{"a": 2}') AS row;
ALTER TABLE v ADD i text DEFAULT 'new';
ALTER TABLE v RENAME b TO "B";
ALTER TABLE v ALTER c TYPE text USING 'c' || c;
SELECT row FROM clairon.rows('v', 'u1', filter => '{"a": 2}') AS row;
ALTER SCHEMA public RENAME TO formerly;
CREATE SCHEMA public;
CREATE TABLE public.v (LIKE formerly.v INCLUDING ALL);
INSERT INTO public.v SELECT * FROM formerly.v;
UPDATE public.v SET i = 'another table';
SELECT row FROM clairon.rows('formerly.v', 'u1', filter => '{"a": 2}') AS row;
DROP SCHEMA public CASCADE;
ALTER SCHEMA formerly RENAME TO public;
SELECT row FROM clairon.rows('v', 'u1', filter => '{"a": 2}') AS row;
DROP TABLE v;

DROP FUNCTION filters(text[], text[], boolean), ids(text), listed(text, jsonb, text[]), pages(text, text[], int, jsonb), fault(jsonb, text[], jsonb, int, boolean),
    page(jsonb, text[], int, bigint, boolean, text), differences(), scans(text, jsonb, text[], jsonb, text), indexes();
DROP TYPE pair, unordered, mood, amount CASCADE;
RESET ALL;
SELECT count(*) > 0 AS sent FROM notes();
