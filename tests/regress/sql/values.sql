-- Values of every common type do not depend on the session's settings.
SET timezone = 'Asia/Kolkata';
SET datestyle = 'German, DMY';
SET intervalstyle = 'postgres_verbose';
SET extra_float_digits = -3;
SET bytea_output = 'escape';
CREATE TYPE mood AS ENUM ('so so', 'good');
CREATE TYPE pair AS (a int, "b c" text[]);
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE DOMAIN pairs AS pair[];
CREATE PROCEDURE show(type text, VARIADIC items text[]) LANGUAGE plpgsql AS $$
DECLARE
    item text;
BEGIN
    EXECUTE format('CREATE TABLE v (v %s)', type);
    PERFORM clairon.watch('v', 'ALL');
    FOREACH item IN ARRAY items LOOP
        EXECUTE format('INSERT INTO v VALUES (%L)', item);
    END LOOP;
    DROP TABLE v;
END $$;
\t
CALL show('bool', 't', 'f', NULL);
CALL show('int2', '-32768', '7');
CALL show('int4', '-2147483648', '0');
CALL show('int8', '9007199254740991', '-9007199254740991', '9007199254740992', '-9223372036854775808');
CALL show('posint', '5');
CALL show('float4', '1.1', '-0', '1e20', '1e-20', 'NaN', 'Infinity', '-Infinity');
CALL show('float8', '0.1', '1e308', '5e-324', '123456789', 'NaN', '-Infinity');
CALL show('numeric', '1.50', '-0.00', '1e40', 'NaN', 'Infinity');
CALL show('money', '1234.5');
CALL show('oid', '42');
CALL show('text', '', 'plain', E'\x01\b\t\n\f\r"\\/\x7f', 'é€😀', repeat('0123456789abcde"', 3));
CALL show('varchar(4)', 'ab');
CALL show('char(4)', 'ab');
CALL show('"char"', 'x', '"');
CALL show('name', 'a "name"');
CALL show('bytea', '', '\x00', '\x0001', '\x000102ff');
CALL show('uuid', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11');
CALL show('mood', 'so so');
CALL show('date', '2025-03-05', 'infinity', '-infinity', '0044-03-15 BC', '12345-01-02', '0001-01-01');
CALL show('time', '00:00:00', '12:34:56.5', '23:59:59.999999', '24:00:00', '12:00:00.000001');
CALL show('timetz', '12:34:56.5+02', '01:00:00-05:30');
CALL show('timestamp', '2025-03-05 12:34:56', '2025-03-05 12:34:56.120000', 'infinity', '0044-03-15 01:02:03 BC', '12345-01-02 00:00:00', '1969-12-31 23:59:59.999999');
CALL show('timestamptz', '2025-03-05 12:34:56+01', '-infinity', '0044-03-15 01:02:03+00 BC', '1999-12-31 23:59:59.999999+00');
CALL show('interval', '1 year 2 mons 3 days 04:05:06.7', '-1 day');
CALL show('json', '{ "a" : 1, "a" : [ 1 , 2.0e3 ], "s p" : "\u00e9 \" \n { } \\" }', ' "x y" ', 'null', '[]');
CALL show('jsonb', '{"b": 1, "a": [1, 2.50, {}, [], {"x": null}], "t": true}', '"s"', 'null', '[]', '{}', '1e3', '[[],[[]],{"a":{}}]');
CALL show('int4[]', '{}', '{1,NULL,3}', '{{1,2},{3,4}}', '[5:6]={7,8}');
CALL show('text[]', '{a,"b,\"c",NULL}');
CALL show('jsonb[]', ARRAY['{"a": 1}', NULL]::jsonb[]::text);
CALL show('timestamptz[]', '{"2025-03-05 12:34:56+01"}');
CALL show('numeric[]', '{1.0,NaN}');
CALL show('pair', '(1,"{x,NULL}")', '(,)');
CALL show('pair[]', ARRAY[(1, '{x}')::pair, NULL, (2, NULL)::pair]::text);
CALL show('pairs', ARRAY[(1, '{x}')::pair]::text);
CALL show('int2vector', '1 2');
CALL show('oidvector', '1 2');
CALL show('inet', '::1', '10.0.0.0/8');
CALL show('macaddr', '08:00:2b:01:02:03');
CALL show('bit varying', '101');
CALL show('tstzrange', '[2025-03-05 12:00+01,)');
CALL show('int4multirange', '{[1,2),[5,9)}');
CALL show('point', '(1.1,2)');
CALL show('xml', '<a b="c"/>');
CALL show('tsvector', 'a:1 b:2');
CALL show('regclass', 'pg_class');
CALL show('pg_lsn', '0/16B3740');
SELECT payload::json ->> 'after' FROM notes() WHERE source = 'v';
CALL show('numeric', '1.50', '-0.00', '1e40', 'NaN', '-Infinity');
CALL show('pg_catalog.numeric[]', '{1.50,NaN}');
SELECT payload::json ->> 'after' FROM notes('numeric', 'number');
\t
SHOW timezone;
SHOW datestyle;
RESET timezone;
DROP PROCEDURE show(text, text[]);
DROP DOMAIN pairs, posint;
DROP TYPE pair, mood;

-- the commit time of another server, and the expiration, are limited to RFC 3339
CREATE TABLE late (id int PRIMARY KEY);
SELECT clairon.watch('late', 'ALL', ttl => '1 year');
SELECT pg_replication_origin_create('elsewhere') > 0, pg_replication_origin_session_setup('elsewhere');
BEGIN;
SELECT pg_replication_origin_xact_setup('0/50', '294276-12-30 UTC');
INSERT INTO late VALUES (1);
COMMIT;
BEGIN;
SELECT pg_replication_origin_xact_setup('0/51', '-infinity');
INSERT INTO late VALUES (2);
COMMIT;
SELECT pg_replication_origin_session_reset(), pg_replication_origin_drop('elsewhere');
SELECT data::json #>> '{metadata,timestamp}' AS timestamp, data::json #>> '{metadata,expiration}' AS expiration
FROM pg_logical_slot_get_changes('regress', NULL, NULL);
DROP TABLE late;
