-- The plugin's options.
\set SHOW_CONTEXT never
CREATE SCHEMA "s.1";
CREATE TABLE "s.1"."t.1" (id int);
CREATE TABLE plain (id int, n numeric);
SELECT clairon.watch('plain', 'USER', '=u1', name => 'rule');
CREATE FUNCTION topics(VARIADIC options text[] DEFAULT '{}') RETURNS SETOF text LANGUAGE sql AS $$
    SELECT (line #>> '{metadata,topic}') || ' ' || (line #>> '{routing,audience,type}')
    FROM (SELECT data::json AS line
          FROM pg_logical_slot_peek_changes('regress', NULL, NULL, VARIADIC options)) AS lines
$$;
INSERT INTO "s.1"."t.1" VALUES (1);
INSERT INTO plain VALUES (1, 1.5);
SELECT * FROM topics();
SELECT * FROM topics('topic_prefix', 'srv.dev');
SELECT * FROM topics('topic_prefix', '');
SELECT * FROM topics('include_tables', '*');
SELECT * FROM topics('include_tables', '*.*', 'exclude_tables', 'public.*');
SELECT * FROM topics('include_tables', 's\.1.t.1');
SELECT * FROM topics('include_tables', 's.1.t.1');
SELECT * FROM topics('include_tables', 'public.p*n, s*.t*');
SELECT * FROM topics('exclude_tables', 'public.plain');
SELECT data FROM pg_logical_slot_peek_changes('regress', NULL, NULL, 'pretty', 'on', 'topic_prefix', 'p')
    WHERE data !~ 'id' OR true \gset line_
SELECT regexp_replace(:'line_data', '"(id|timestamp)": "[^"]*"', '"\1": ".."', 'g');
SELECT :'line_data'::json IS NOT NULL;

-- output is not indented if indentation would make it too large
CREATE TABLE deep (id int, j json);
INSERT INTO deep VALUES (1, (repeat('[', 2000) || rtrim(repeat('1,', 1200000), ',') || repeat(']', 2000))::json);
SELECT length(data) < 3000000 AS bounded, data ~ E'\n' AS indented, (data::json #> '{payload,after,id}')::text AS id
FROM pg_logical_slot_peek_changes('regress', NULL, NULL, 'pretty', 'on', 'include_tables', 'public.deep',
                                  'exclude_tables', 's\.1.*,public.plain', 'max_value_bytes', '4MB');
DROP TABLE deep;

-- errors list the valid values
SELECT * FROM topics('mood', 'good');
SELECT * FROM topics('mode', 'xml');
SELECT * FROM topics('numeric', 'float');
SELECT * FROM topics('pretty', 'very');
SELECT * FROM topics('streaming', 'parallel');
SELECT * FROM topics('max_value_bytes', '0');
SELECT * FROM topics('max_value_bytes', '1GB');
SELECT * FROM topics('include_tables', 'plain');
SELECT * FROM topics('exclude_tables', 'public.a,,public.b');
SELECT * FROM topics('mode', 'framed');
SELECT count(*) FROM pg_logical_slot_peek_binary_changes('regress', NULL, NULL, 'mode', 'framed', 'pretty', '1');
DROP TABLE plain, "s.1"."t.1";
DROP FUNCTION topics(text[]);
DELETE FROM clairon.rule;
SELECT count(*) FROM notes();
