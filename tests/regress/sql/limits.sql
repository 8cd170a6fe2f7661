-- The bounds of a notification's targets, and the limits of owners outside clairon_app.
\set SHOW_CONTEXT never
CREATE TABLE t (id int PRIMARY KEY, who text[], kind text, other text[]);
ALTER TABLE t REPLICA IDENTITY FULL;
CREATE FUNCTION names(first int, last int, bytes int DEFAULT 1) RETURNS text[] LANGUAGE sql AS
    $$SELECT array_agg(lpad(i::text, greatest(bytes, length(i::text)), '0')) FROM generate_series(first, last) AS i$$;
CREATE FUNCTION counts(VARIADIC options text[] DEFAULT '{}') RETURNS TABLE (operation text, targets int, recipients text)
    LANGUAGE sql AS $$
    SELECT line #>> '{metadata,operation}', json_array_length(line #> '{routing,audience,targets}'),
           line #>> '{routing,audience,recipients}'
    FROM (SELECT data::json AS line FROM pg_logical_slot_get_changes('regress', NULL, NULL, VARIADIC options)) AS lines
$$;
-- 10 000 targets are sent, 10 001 are denied
SELECT clairon.watch('t', 'USER', 'who');
INSERT INTO t VALUES (1, names(1, 10000)), (2, names(1, 10001));
SELECT * FROM counts();
-- 262 144 bytes are sent, 262 145 are denied
INSERT INTO t VALUES (3, names(1, 1024, 255) || names(1, 8, 128)), (4, names(1, 1024, 255) || names(1, 8, 128) || '{x}'::text[]);
SELECT * FROM counts();
-- nulls, empty strings and repeats do not count; a target over 255 bytes is left out, and the others remain
INSERT INTO t VALUES (5, names(1, 9999) || names(1, 9999) || array_fill(NULL::text, '{9999}') || '{"",x}'::text[]),
                     (6, ARRAY['u1', repeat('x', 256), 'u2']), (7, ARRAY[repeat('x', 256)]);
SELECT * FROM counts();
-- a row with too many targets has no recipients: its former users receive a delete
UPDATE t SET who = names(1, 10001) WHERE id = 6;
SELECT * FROM counts();
-- combinations of a composite audience, with the bytes of their escapes
SELECT clairon.watch('t', 'A+B', 'who+other');
INSERT INTO t VALUES (8, names(1, 100), NULL, names(1, 100)), (9, names(1, 100), NULL, names(1, 101)),
                     (10, names(1, 100, 128), NULL, ARRAY[repeat('x', 255)]),
                     (11, names(1, 100, 255), NULL, names(1, 10, 255)), (12, names(1, 1000, 1), NULL, ARRAY[repeat('+', 127)]),
                     (13, names(1, 1000, 3), NULL, ARRAY[repeat('+', 130)]);
SELECT * FROM counts();
SELECT clairon.unwatch('t');
-- frames contain the targets in the header, and more than 100 of them nowhere else; text shows all
SELECT clairon.watch('t', 'USER', 'who');
INSERT INTO t VALUES (20, names(1, 100)), (21, names(1, 101));
SELECT clairon.notify('USER', names(1, 100), '{"n": 1}') IS NULL, clairon.notify('USER', names(1, 101), '{"n": 2}') IS NULL;
SELECT json_array_length(data::json #> '{routing,audience,targets}') AS targets, data::json #> '{routing,audience,recipients}' AS recipients
FROM pg_logical_slot_peek_changes('regress', NULL, NULL);
SELECT number(frame, 72, 4) AS routed, left(line #>> '{routing,audience}', 48) AS audience,
       json_array_length(line #> '{routing,audience,targets}') AS targets, line #>> '{routing,audience,recipients}' AS recipients
FROM (SELECT frame, texts(frame, (104 + number(frame, 64, 2) + number(frame, 66, 2) + number(frame, 92, 2) + number(frame, 68, 4))::int,
                          2000000)::json AS line
      FROM frames() WHERE kind = 'N') AS notifications;
SELECT clairon.unwatch('t');
-- watch and notify name the parameter
SELECT clairon.watch('t', 'USER', '=' || array_to_string(names(1, 10001), ','));
SELECT clairon.watch('t', 'USER', '=' || array_to_string(names(1, 1100, 255), ','));
SELECT clairon.watch('t', 'A+B', '=' || array_to_string(names(1, 3000, 120), '+x,') || '+x');
SELECT clairon.watch('t', 'USER', '=' || array_to_string(names(1, 10000), ','));
SELECT clairon.notify('USER', names(1, 10001), '{}');
SELECT clairon.notify('USER', names(1, 1100, 255), '{}');
SELECT clairon.notify('A+B', ARRAY(SELECT n || '+x' FROM unnest(names(1, 3000, 120)) AS n), '{}');
SELECT clairon.notify('USER', '{u1}', jsonb_build_object('a', repeat('x', 1048576)));
SELECT clairon.notify('USER', names(1, 10000) || names(1, 5), '{}') IS NULL;
INSERT INTO t VALUES (30);
SELECT * FROM counts();
SELECT clairon.unwatch('t');

-- owners outside clairon_app: short lives, many retries, many rules
CREATE ROLE limited;
CREATE SCHEMA limited AUTHORIZATION limited;
SET ROLE limited;
CREATE TABLE limited.t (id int PRIMARY KEY, who text);
ALTER TABLE limited.t REPLICA IDENTITY FULL;
SELECT clairon.watch('limited.t', 'USER', 'who', ttl => '999 ms');
SELECT clairon.watch('limited.t', 'USER', 'who', ack_required => true, retry_limit => 101);
SELECT clairon.watch('limited.t', 'USER', 'who', ack_required => true, ack_timeout => '999 ms');
SELECT clairon.watch('limited.t', 'USER', 'who', ttl => '1 s', ack_required => true, retry_limit => 100, ack_timeout => '1 s');
SELECT count(clairon.watch('limited.t', 'USER', 'who', name => 'rule ' || i)) FROM generate_series(1, 99) AS i;
SELECT clairon.watch('limited.t', 'USER', 'who', name => 'one more');
-- an existing rule can be replaced
SELECT clairon.watch('limited.t', 'USER', 'who', name => 'rule 99', operations => '{create}');
-- only watch writes rules
INSERT INTO clairon.rule SELECT * FROM clairon.rule;
UPDATE clairon.rule SET retry_limit = 1000;
SELECT clairon_internal.insert_rule(NULL);
RESET ROLE;
-- the rules of all tables of an owner
CREATE FUNCTION multiply(rules int, topic_bytes int) RETURNS bigint LANGUAGE sql AS $$
    WITH copies AS (
        INSERT INTO clairon.rule
            SELECT (jsonb_populate_record(rule, jsonb_build_object('name', rpad('copy ' || i || ' ', 255, 'x'), 'emitter', repeat('x', 255),
                                                                     'topic', repeat('x', topic_bytes), 'only_when', repeat('x', topic_bytes / 4)))).*
            FROM clairon.rule, generate_series(1, rules) AS i
            WHERE relation = 'limited.t'::regclass AND name = 'rule 1' RETURNING 1)
    SELECT count(*) FROM copies
$$;
SET ROLE limited;
CREATE TABLE limited.u (id int PRIMARY KEY, who text);
ALTER TABLE limited.u REPLICA IDENTITY FULL;
RESET ROLE;
-- without the triggers, which bind columns and invalidate plans
BEGIN;
ALTER TABLE clairon.rule DISABLE TRIGGER USER;
SELECT multiply(9899, 1);
SET ROLE limited;
\set VERBOSITY terse
SELECT clairon.watch('limited.u', 'USER', 'who');
SELECT clairon.watch('limited.u', 'USER', 'who', name => 'one more');
ROLLBACK;
BEGIN;
ALTER TABLE clairon.rule DISABLE TRIGGER USER;
SELECT multiply(9800, 1024);
SELECT pg_size_pretty(sum(pg_column_size(rule))) AS size FROM clairon.rule;
SET ROLE limited;
SELECT clairon.watch('limited.u', 'USER', 'who', name => repeat('n', 255));
ROLLBACK;
\set VERBOSITY default
-- members of clairon_app have more
GRANT clairon_app TO limited;
SET ROLE limited;
SELECT clairon.watch('limited.t', 'USER', 'who', name => 'one more', ttl => '1 ms', ack_required => true, retry_limit => 101, ack_timeout => '1 ms');
RESET ROLE;
REVOKE clairon_app FROM limited;
SELECT check_name, hint FROM clairon.doctor() WHERE check_name LIKE 'privileges %';
DROP SCHEMA limited CASCADE;
DROP ROLE limited;
DROP FUNCTION multiply;
DROP FUNCTION counts, names;
DROP TABLE t;
SELECT count(*) FROM clairon.rule;
SELECT count(*) FROM notes();
