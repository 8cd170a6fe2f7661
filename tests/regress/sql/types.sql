-- Every type: each value is compared with row_to_json, and converted back. Listed values differ, as
-- specified: int8 beyond 2^53, numeric, bytea and timestamptz.
CREATE EXTENSION hstore;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE EXTENSION cube;
CREATE EXTENSION seg;
CREATE EXTENSION isn;
CREATE TYPE mood AS ENUM ('so so', 'good "old"', 'été');
CREATE DOMAIN mood_domain AS mood;
CREATE DOMAIN moods AS mood[];
CREATE DOMAIN deep AS moods;
CREATE DOMAIN short_text AS varchar(5) CHECK (VALUE <> 'no');
CREATE DOMAIN day AS date;
CREATE DOMAIN stamp AS timestamptz;
CREATE DOMAIN big AS int8;
CREATE DOMAIN money_like AS numeric(12, 2);
CREATE DOMAIN doc AS jsonb;
CREATE DOMAIN raw AS bytea;
CREATE TYPE inner_row AS (a int, "b ""c" text[], m mood_domain);
CREATE TYPE outer_row AS (i inner_row, l inner_row[], d timestamptz, j json, n numeric, y bytea, gone int, b int8);
ALTER TYPE outer_row DROP ATTRIBUTE gone;
CREATE DOMAIN row_domain AS inner_row;
CREATE TYPE float_range AS RANGE (subtype = float8, subtype_diff = float8mi);
CREATE TYPE mood_range AS RANGE (subtype = mood);
CREATE TABLE a_row (x int, y text);
CREATE TABLE wanted (number int, type text, item int, text text, json text);
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'iso_8601';
SET lc_monetary = 'C';
CREATE PROCEDURE prove(type text, VARIADIC items text[]) LANGUAGE plpgsql AS $$
DECLARE
    this int := (SELECT coalesce(max(number), 0) + 1 FROM wanted);
    path text := current_setting('search_path');
BEGIN
    EXECUTE format('CREATE TABLE v%s (item int, v %s)', this, type);
    PERFORM clairon.watch(format('v%s', this)::regclass, 'ALL');
    FOR i IN 1 .. cardinality(items) LOOP
        EXECUTE format('INSERT INTO v%s VALUES (%s, %L)', this, i, items[i]);
    END LOOP;
    PERFORM set_config('search_path', 'pg_catalog', true);
    EXECUTE format('INSERT INTO public.wanted SELECT %s, %L, item, v::text, to_json(v)::text FROM public.v%1$s', this, type);
    PERFORM set_config('search_path', path, true);
END $$;
\set QUIET on
CALL prove('bool', 't', 'f', NULL);
CALL prove('int2', '-32768', '0', '32767');
CALL prove('int4', '-2147483648', '0', '2147483647');
CALL prove('int8', '0', '9007199254740991', '-9007199254740991', '9007199254740992', '-9007199254740992', '9223372036854775807', '-9223372036854775808');
CALL prove('big', '1', '9007199254740992');
CALL prove('float4', '0', '-0', '1.1', '3.4028235e38', '1e-45', '16777216', '123456.7', 'NaN', 'Infinity', '-Infinity');
CALL prove('float8', '0', '-0', '0.1', '1.7976931348623157e308', '5e-324', '9007199254740993', '1e15', '1e16', '123456789012345680', '0.30000000000000004', 'NaN', 'Infinity', '-Infinity');
CALL prove('numeric', '0', '-0.00', '1.50', '1e-20', '-1e30', 'NaN', 'Infinity', '-Infinity');
CALL prove('numeric', repeat('9', 2000) || '.' || repeat('1', 2000));
CALL prove('numeric(5,-2)', '12345');
CALL prove('money_like', '12.3');
CALL prove('money', '0', '-12.34', '1234567.89');
CALL prove('oid', '0', '4294967295');
CALL prove('"char"', 'a', '"', '\', '');
CALL prove('name', 'a "name"', 'été', repeat('x', 63));
CALL prove('text', '', ' ', 'NULL', 'null', 'true', '1', '{}', '"', '\', E'\b\f\n\r\t', E'\x01\x1f\x7f', E'\u0080\u2028\u2029\ufeff\uffff', '😀𝄞', 'é' || repeat('a', 15) || '"', repeat('a', 16) || '\' || repeat('b', 31) || E'\n', '</script>');
CALL prove('varchar', 'x', '');
CALL prove('varchar(3)', 'été');
CALL prove('char(5)', 'a', '', 'été');
CALL prove('bpchar', 'a  ');
CALL prove('short_text', 'a"b');
CALL prove('citext', 'MiXed', E'\\"\n');
CALL prove('bytea', '', '\x00', '\x0001', '\x000102', '\xdeadbeef');
CALL prove('raw', '\xff');
CALL prove('uuid', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '00000000-0000-0000-0000-000000000000');
CALL prove('mood', 'so so', 'good "old"', 'été');
CALL prove('mood_domain', 'été');
CALL prove('moods', '{"so so",NULL}');
CALL prove('deep', '{"so so"}', NULL);
CALL prove('date', '2025-03-05', 'infinity', '-infinity', '4713-01-01 BC', '0001-12-31 BC', '5874897-12-31', '10000-01-01', '1582-10-15', '2000-02-29');
CALL prove('day', '2025-03-05');
CALL prove('time', '00:00:00', '24:00:00', '23:59:59.999999', '12:00:00.1', '12:00:00.000001');
CALL prove('time(0)', '12:34:56.7');
CALL prove('timetz', '12:34:56.5+02', '01:00:00-15:59', '00:00:00+00');
CALL prove('timestamp', '2025-03-05 12:34:56', '2025-03-05 12:34:56.1', 'infinity', '-infinity', '4713-01-01 00:00:00 BC', '0001-12-31 23:59:59.999999 BC', '294276-12-31 23:59:59.999999', '1969-12-31 23:59:59.999999', '1999-12-31 23:59:59.999999', '2000-01-01 00:00:00');
CALL prove('timestamptz', '2025-03-05 12:34:56+01', '2025-03-05 12:34:56.120+00', 'infinity', '-infinity', '0044-03-15 12:00:00+00 BC', '12345-01-02 00:00:00+00', '1970-01-01 00:00:00+00');
CALL prove('timestamptz(2)', '2025-03-05 12:34:56.789+01');
CALL prove('stamp', '2025-03-05 12:34:56+01');
CALL prove('interval', '0', '1 year 2 mons 3 days 04:05:06.7', '-1 day', '-1 mon 1 day', '178000000 years', '-00:00:00.000001', '1 day -1 hour');
CALL prove('json', '{}', ' [ 1 , 2 ] ', '{ "a" : 1 , "a" : "\u00e9 \ud83d\ude00 \" \\ \/" }', E'{"x":\n\t[\r\n null , true ,false ] }', '1e400', '-0', '"a b"', 'null', '  "  spaces  "  ');
CALL prove('jsonb', '{}', '[]', '{"b": 1, "a": [1, 2.500, {}, [], {"x": null}], "": "", "t": true}', '"s"', '1', 'null', 'false', '[[], [[]], {"a": {}}]', '1e400', '-0.0', '123456789012345678901234567890.123456789', '"\u00e9\n\ud83d\ude00"', '[{"a": [{"b": [1, [2]]}]}, 3]');
CALL prove('jsonb', '[' || repeat('[', 500) || repeat(']', 500) || ']');
CALL prove('doc', '{"a": 1}');
CALL prove('jsonpath', '$.a[*] ? (@ > 1)');
CALL prove('xml', '<a b="c">&lt;</a>', 'text', '<?xml version="1.0"?><a/>');
CALL prove('bit(3)', '101');
CALL prove('varbit', '', '1', '0101010101');
CALL prove('inet', '10.0.0.1', '10.0.0.1/8', '::1', 'fe80::1/64');
CALL prove('cidr', '10.0.0.0/8', '::/0');
CALL prove('macaddr', '08:00:2b:01:02:03');
CALL prove('macaddr8', '08:00:2b:01:02:03:04:05');
CALL prove('tsvector', $$'a':1A,2 'b c' 'd''e'$$);
CALL prove('tsquery', $$'a' & !'b' | 'c' <-> 'd':*$$);
CALL prove('point', '(1.5,-2)', '(NaN,Infinity)');
CALL prove('line', '{1,2,3}');
CALL prove('lseg', '[(0,0),(1,1)]');
CALL prove('box', '(1,1),(0,0)');
CALL prove('path', '[(0,0),(1,1)]', '((0,0),(1,1))');
CALL prove('polygon', '((0,0),(1,1),(2,0))');
CALL prove('circle', '<(0,0),1>');
CALL prove('box[]', '{(1,1),(0,0);(3,3),(2,2)}');
CALL prove('int4range', 'empty', '[1,5)', '(,)', '[1,)');
CALL prove('int8range', '[9007199254740992,9007199254740999)');
CALL prove('numrange', '[1.50,2.0]');
CALL prove('daterange', '[2025-03-05,infinity)');
CALL prove('tsrange', '["2025-03-05 12:00:00",)');
CALL prove('tstzrange', '["2025-03-05 12:00:00+01",)');
CALL prove('float_range', '[1.1,1e20]');
CALL prove('mood_range', '["so so",été]');
CALL prove('int4multirange', '{}', '{[1,2),[5,)}');
CALL prove('tstzmultirange', '{["2025-03-05 12:00:00+01","2025-03-06 12:00:00+01")}');
CALL prove('int4range[]', '{"[1,2)",NULL,empty}');
CALL prove('pg_lsn', '0/0', 'FFFFFFFF/FFFFFFFF');
CALL prove('txid_snapshot', '10:20:10,14,15');
CALL prove('pg_snapshot', '10:20:');
CALL prove('xid', '4294967295');
CALL prove('xid8', '18446744073709551615');
CALL prove('cid', '7');
CALL prove('tid', '(1,2)');
CALL prove('regclass', 'pg_class', '"a_row"', '0', '4294967295');
CALL prove('regtype', 'int4', 'mood', 'text[]');
CALL prove('regproc', 'now', '0');
CALL prove('regprocedure', 'lower(text)');
CALL prove('regoper', '0');
CALL prove('regoperator', '+(integer,integer)');
CALL prove('regnamespace', 'public');
CALL prove('regrole', '0');
CALL prove('regconfig', 'simple');
CALL prove('regdictionary', 'simple');
CALL prove('regcollation', '"C"');
CALL prove('aclitem', current_user || '=r/' || current_user);
CALL prove('refcursor', 'c"1');
CALL prove('int2vector', '', '1 2 -3');
CALL prove('oidvector', '', '1 2');
CALL prove('int4[]', '{}', '{1,NULL,3}', '{{1,2},{3,4}}', '[5:6]={7,8}', '[0:1][-1:0]={{1,2},{NULL,4}}', '{{{1}}}');
CALL prove('int2vector[]', '{"1 2",NULL}');
CALL prove('int8[]', '{1,9007199254740992}');
CALL prove('bool[]', '{t,f,NULL}');
CALL prove('float8[]', '{1.5,NaN,-0}');
CALL prove('float4[]', '{1.1,-Infinity}');
CALL prove('numeric[]', '{1.50,NaN}');
CALL prove('text[]', '{a,"b,\"c","\\",NULL,"NULL",""}');
CALL prove('varchar(3)[]', '{abc}');
CALL prove('char(3)[]', '{a}');
CALL prove('"char"[]', '{a,b}');
CALL prove('name[]', '{a,"b c"}');
CALL prove('bytea[]', '{"\\x00ff",NULL}');
CALL prove('uuid[]', '{ffffffff-ffff-ffff-ffff-ffffffffffff}');
CALL prove('date[]', '{2025-03-05,infinity}');
CALL prove('time[]', '{12:00:00.5}');
CALL prove('timestamp[]', '{"2025-03-05 12:34:56.5","0044-03-15 12:00:00 BC"}');
CALL prove('timestamptz[]', '{"2025-03-05 12:34:56+01"}');
CALL prove('interval[]', '{"1 day"}');
CALL prove('json[]', ARRAY['{ "a" : 1 }', '[ ]', NULL]::json[]::text);
CALL prove('jsonb[]', ARRAY['{"a": 1}', '1', 'null', NULL]::jsonb[]::text);
CALL prove('mood[]', '{"so so","good \"old\""}');
CALL prove('mood_domain[]', '{été,NULL}');
CALL prove('citext[]', '{A,b}');
CALL prove('hstore', '', 'a=>1, "b c"=>NULL, d=>"x\"y"');
CALL prove('hstore[]', ARRAY['a=>1'::hstore]::text);
CALL prove('ltree', 'Top.Science');
CALL prove('lquery', '*.a|b.*');
CALL prove('cube', '(1, 2),(3, 4)');
CALL prove('seg', '1.0 .. 2.5');
CALL prove('isbn13', '978-0-393-04002-9');
CALL prove('inner_row', '(1,"{x,NULL}","so so")', '(,,)', NULL);
CALL prove('inner_row[]', ARRAY[ROW(1, '{"a\"b"}', 'été')::inner_row, NULL]::text);
CALL prove('row_domain', '(1,{x},été)');
CALL prove('row_domain[]', '{"(1,{x},été)"}');
CALL prove('outer_row', ROW(ROW(1, '{x}', 'été'), ARRAY[ROW(2, NULL, NULL)::inner_row, NULL], '2025-03-05 12:00+01', ' { "k" : [ 1 ] } ', 'NaN', '\x00', 9007199254740992)::outer_row::text);
CALL prove('a_row', '(1,"a ""q"" b")');
CALL prove('a_row[]', '{"(1,a)",NULL}');
CALL prove('pg_catalog.pg_attrdef[]', '{}');

-- JSON that PostgreSQL's own functions reject is sent as stored.
CREATE TABLE odd_json (j json);
SELECT clairon.watch('odd_json', 'ALL');
INSERT INTO odd_json VALUES ('{ "zero" : "\u0000" , "half" : "\ud800" }'), ('"\u007f\u0080\ufffe"');
CREATE TABLE lines AS SELECT data FROM pg_logical_slot_peek_changes('regress', NULL, NULL);
SELECT substring(data FROM '"after":(.*),"routing"') FROM lines WHERE data ~ '"source":"odd_json"';
DELETE FROM clairon.rule WHERE relation = 'odd_json'::regclass;
DROP TABLE odd_json;

-- No value is missing from the output.
CREATE TABLE got AS
SELECT substr(source, 2)::int AS number, (payload::json #>> '{after,item}')::int AS item,
       payload::json #> '{after,v}' AS json
FROM (SELECT data::json #>> '{metadata,source}' AS source, data::json ->> 'payload' AS payload
      FROM lines WHERE data ~ '"source":"v[0-9]+"') AS notes;
SELECT count(*) = (SELECT count(*) FROM got) AS all_there, count(DISTINCT type) > 130 AS many_types FROM wanted;

-- The JSON of these types differs from row_to_json:
SELECT type, CASE WHEN length(wanted.json) > 100 THEN '..' ELSE wanted.json END AS row_to_json,
       CASE WHEN length(got.json::text) > 100 THEN '..' ELSE got.json::text END AS payload
FROM wanted LEFT JOIN got USING (number, item)
WHERE coalesce(got.json::text, 'null') <> coalesce(wanted.json, 'null')
      AND NOT (coalesce(got.json::jsonb, 'null') = coalesce(wanted.json::jsonb, 'null') AND type IN ('jsonb', 'doc', 'jsonb[]', 'int4[]', 'text[]'))
ORDER BY number, item;

-- Converted back to its type, each JSON string, number or boolean is the same value.
CREATE FUNCTION reads_back(number int, item int, type text, got json) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    given text := CASE json_typeof(got) WHEN 'string' THEN (json_build_array(got) ->> 0) ELSE got::text END;
    same boolean;
BEGIN
    IF type IN ('bytea', 'raw') THEN
        given := '\x' || encode(decode(given, 'base64'), 'hex');
    END IF;
    EXECUTE format('SELECT (%L::%s)::text IS NOT DISTINCT FROM v::text FROM v%s WHERE item = %s', given, type, number, item)
        INTO same;
    RETURN CASE WHEN same THEN 'same' ELSE 'another value' END;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$;
SELECT type, got.json, reads_back(number, item, type, got.json)
FROM wanted JOIN got USING (number, item)
WHERE json_typeof(got.json) IN ('string', 'number', 'boolean') AND type !~ 'json|doc'
      AND reads_back(number, item, type, got.json) <> 'same';
\unset QUIET
DO $$
BEGIN
    FOR i IN 1 .. (SELECT max(number) FROM wanted) LOOP
        EXECUTE format('DROP TABLE v%s', i);
    END LOOP;
END $$;
DROP TABLE wanted, got, a_row, lines;
DROP FUNCTION reads_back(int, int, text, json);
DROP PROCEDURE prove(text, text[]);
DROP EXTENSION hstore, citext, ltree, cube, seg, isn;
DROP DOMAIN deep, moods, short_text, day, stamp, big, money_like, doc, raw, row_domain;
DROP TYPE outer_row, inner_row, float_range, mood_range;
DROP DOMAIN mood_domain;
DROP TYPE mood;
RESET timezone;
RESET datestyle;
RESET intervalstyle;
RESET lc_monetary;
SELECT count(*) > 250 FROM pg_logical_slot_get_changes('regress', NULL, NULL);
