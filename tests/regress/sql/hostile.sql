-- Names of 63 bytes, and names with quotes, line feeds, emoji and other special characters.
\set SHOW_CONTEXT never
CREATE TABLE names (n int GENERATED ALWAYS AS IDENTITY, name text);
INSERT INTO names (name) VALUES
    ('"'), (''''), ('\'), ('a"b\c/d'), (E'two\nlines'), (E'cr\rlf\n'), (E'tab\tand\x01\x1f\x7f'), ('%s%n%d %'), ('$1 ${x} $$'),
    ('😀 𝄞'), (repeat('é', 31) || 'x'), (repeat('😀', 15)), (repeat('"', 63)), (repeat(E'\\', 63)), ('{"a":[1]}'), (','), ('.'), ('*'),
    (' '), ('null'), ('select'), ('UPPER Case'), ('a.b.c'), (E'\u2028\u2029'), ('</script>'), ('--'), ('/*'), (';'), ('?'), ('%00');

-- each name for a schema, a table, a column, an enum label, an attribute and a rule
DO $$
DECLARE
    x record;
BEGIN
    FOR x IN SELECT * FROM names ORDER BY n LOOP
        EXECUTE format('CREATE SCHEMA %I', x.name);
        EXECUTE format('CREATE TYPE %I.%1$I AS ENUM (%1$L)', x.name);
        EXECUTE format('CREATE TYPE %I.attributes AS (%1$I text)', x.name);
        EXECUTE format('CREATE TABLE %I.%2$I (id int PRIMARY KEY, %1$I text, e %1$I.%1$I, c %1$I.attributes)',
                       x.name, left(x.name, 30) || 't');
        EXECUTE format('ALTER TABLE %I.%I REPLICA IDENTITY FULL', x.name, left(x.name, 30) || 't');
        PERFORM clairon.watch(format('%I.%I', x.name, left(x.name, 30) || 't')::regclass, 'USER', x.name,
                              name => x.name, columns => ARRAY['id', x.name, 'e', 'c'], emitter => x.name,
                              only_when => format('%I = %L AND id < 3', x.name, x.name));
        PERFORM clairon.watch(format('%I.%I', x.name, left(x.name, 30) || 't')::regclass, 'A_GROUP',
                              '=' || replace(x.name, ',', '\,'), name => 'second', topic => 'own.' || x.name);
        EXECUTE format('INSERT INTO %I.%2$I VALUES (1, %1$L, %1$L, ROW(%1$L))', x.name, left(x.name, 30) || 't', x.name);
        EXECUTE format('UPDATE %I.%I SET id = 2, c = NULL', x.name, left(x.name, 30) || 't');
        EXECUTE format('DELETE FROM %I.%I', x.name, left(x.name, 30) || 't');
    END LOOP;
END $$;
CREATE TABLE lines AS SELECT data FROM pg_logical_slot_peek_changes('regress', NULL, NULL, 'topic_prefix', E'p"\n😀');
SELECT count(*), count(*) FILTER (WHERE data ~ E'[\n\r\t\x01]') AS broken FROM lines;

-- expected lines, derived with PostgreSQL's JSON functions
CREATE FUNCTION expected(name text, second boolean, operation text) RETURNS jsonb LANGUAGE sql AS $$
    WITH source AS (SELECT format('%s.%s', name, left(name, 30) || 't') AS source),
    old AS (SELECT jsonb_build_object('id', CASE operation WHEN 'delete' THEN 2 ELSE 1 END, name, name, 'e', name,
                       'c', CASE operation WHEN 'delete' THEN NULL ELSE jsonb_build_object(name, name) END) AS old),
    new AS (SELECT jsonb_build_object('id', CASE operation WHEN 'create' THEN 1 ELSE 2 END, name, name, 'e', name,
                       'c', CASE operation WHEN 'create' THEN jsonb_build_object(name, name) END) AS new)
    SELECT jsonb_build_object(
        'metadata', jsonb_build_object('priority', 'NORMAL', 'type', 'REALTIME',
            'emitter', CASE WHEN second THEN 'clairon' ELSE name END, 'source', source,
            'topic', CASE WHEN second THEN 'own.' || name ELSE E'p"\n😀.' || source END, 'operation', operation),
        'payload', jsonb_build_object('before', CASE WHEN operation <> 'create' THEN old END,
                                      'after', CASE WHEN operation <> 'delete' THEN new END)
            || CASE WHEN operation = 'update' THEN '{"changed": ["id", "c"]}' ELSE '{}' END::jsonb,
        'routing', jsonb_build_object(
            'audience', jsonb_build_object('type', CASE WHEN second THEN 'A_GROUP' ELSE 'USER' END,
                                           'targets', jsonb_build_array(name)),
            'retry', '{"ack_required": false, "enabled": false, "attempts": 0, "limit": 5, "backoff": "EXPONENTIAL"}'::jsonb))
    FROM source, old, new
$$;
-- blanks are trimmed from a literal, so the name " " leaves no target
SELECT count(*) AS all_of_them FROM lines;
SELECT name, second, operation, line, expected(name, second, operation)
FROM names, unnest('{f,t}'::boolean[]) AS second, unnest('{create,update,delete}'::text[]) AS operation
LEFT JOIN LATERAL (
    SELECT data::jsonb #- '{metadata,id}' #- '{metadata,timestamp}' AS line FROM lines
    WHERE data::jsonb #>> '{metadata,source}' = format('%s.%s', name, left(name, 30) || 't')
      AND data::jsonb #>> '{metadata,operation}' = operation
      AND (data::jsonb #>> '{routing,audience,type}' = 'A_GROUP') = second) AS found ON true
WHERE line IS DISTINCT FROM expected(name, second, operation) AND NOT (second AND name = ' ')
ORDER BY n;

-- indented output has the same JSON; an escaped pattern matches only one table
SELECT count(*) FILTER (WHERE pretty.data::jsonb = lines.data::jsonb) = count(*) AS same
FROM (SELECT row_number() OVER () AS n, data FROM lines) AS lines
JOIN (SELECT row_number() OVER () AS n, data FROM pg_logical_slot_peek_changes('regress', NULL, NULL,
          'topic_prefix', E'p"\n😀', 'pretty', 'yes')) AS pretty USING (n);
DELETE FROM clairon.rule;
SELECT count(*) AS left_over FROM (SELECT count(*) FROM pg_logical_slot_get_changes('regress', NULL, NULL)) AS t;
DO $$
DECLARE
    x record;
BEGIN
    FOR x IN SELECT * FROM names ORDER BY n LOOP
        EXECUTE format('INSERT INTO %I.%2$I VALUES (1, %1$L, %1$L, NULL)', x.name, left(x.name, 30) || 't');
    END LOOP;
END $$;
CREATE FUNCTION escaped(name text) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(name, '([\\*.,[:space:]])', '\\\1', 'g') $$;
SELECT name, count FROM names, LATERAL (
    SELECT count(*) FROM pg_logical_slot_peek_changes('regress', NULL, NULL, 'include_tables',
                             escaped(name) || '.' || escaped(left(name, 30) || 't'))) AS found
WHERE count <> 1;
SELECT count(*) FROM pg_logical_slot_get_changes('regress', NULL, NULL, 'include_tables', '*', 'exclude_tables',
    (SELECT string_agg(escaped(name) || '.*', ',') FROM names WHERE n % 2 = 0) || ',public.*');

-- the caller's role is the emitter
CREATE ROLE "o'do\d ""er" IN ROLE clairon_app;
SET SESSION AUTHORIZATION "o'do\d ""er";
SELECT clairon.notify('USER', ARRAY[E'line\nfeed', '"', '\'], jsonb_build_object(E'k\n"', '\')) IS NOT NULL;
RESET SESSION AUTHORIZATION;
SELECT data::json #>> '{metadata,emitter}' AS emitter, data::json -> 'routing' -> 'audience' AS audience, data::json ->> 'payload' AS payload
FROM pg_logical_slot_get_changes('regress', NULL, NULL);
DROP ROLE "o'do\d ""er";

\set QUIET on
SET client_min_messages = error;
DO $$
DECLARE
    x record;
BEGIN
    FOR x IN SELECT * FROM names LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', x.name);
    END LOOP;
END $$;
RESET client_min_messages;
DROP TABLE names, lines;
DROP FUNCTION expected(text, boolean, text), escaped(text);
\unset QUIET
SELECT count(*) FROM notes();
