-- The JSON of a row is limited by max_row_bytes.
\set SHOW_CONTEXT never
CREATE TABLE long_row (id int PRIMARY KEY, a text, b text, c text, d text, e text);
SELECT clairon.watch('long_row', 'USER', '=u');
CREATE FUNCTION lines(bytes text, OUT before text, OUT after text, OUT changed text, OUT truncated text)
    RETURNS SETOF record LANGUAGE sql AS $$
    SELECT line #>> '{payload,before}', line #>> '{payload,after}', line #>> '{payload,changed}', line #>> '{payload,truncated}'
    FROM (SELECT data::json AS line FROM pg_logical_slot_get_changes('regress', NULL, NULL, 'max_row_bytes', bytes)) AS lines
$$;
-- the longest values, no more than needed
INSERT INTO long_row VALUES (1, repeat('a', 300), repeat('b', 900), repeat('c', 500), repeat('d', 600), repeat('e', 100));
SELECT length(after), (after::json ->> 'b') IS NULL AS b, left(after::json ->> 'd', 1) AS d, truncated FROM lines('2kB');
INSERT INTO long_row VALUES (2, repeat('a', 300), repeat('b', 900), repeat('c', 500), repeat('d', 600), repeat('e', 100));
SELECT length(after), truncated FROM lines('1kB');
INSERT INTO long_row VALUES (3, repeat('a', 3000), repeat('b', 3000), repeat('c', 3000), repeat('d', 3000), repeat('e', 10));
SELECT after, truncated FROM lines('1kB');
-- exactly at the limit, and one byte above
INSERT INTO long_row VALUES (4, repeat('a', 1024 - length('{"id":4,"a":"","b":null,"c":null,"d":null,"e":null}')));
SELECT length(after), truncated FROM lines('1kB');
INSERT INTO long_row VALUES (5, repeat('a', 1025 - length('{"id":5,"a":"","b":null,"c":null,"d":null,"e":null}')));
SELECT after, truncated FROM lines('1kB');
-- both images; a value that is null in before only because of the limit is shown in after if it fits
ALTER TABLE long_row REPLICA IDENTITY FULL;
INSERT INTO long_row VALUES (6, repeat('a', 400), repeat('b', 500), repeat('c', 400));
UPDATE long_row SET c = 'short' WHERE id = 6;
SELECT left(before::json ->> 'a', 1) AS before_a, (before::json ->> 'b') IS NULL AS before_b, left(before::json ->> 'c', 1) AS before_c,
       left(after::json ->> 'a', 1) AS after_a, left(after::json ->> 'b', 1) AS after_b, after::json ->> 'c' AS after_c,
       changed, truncated FROM lines('1kB') OFFSET 1;
DROP TABLE long_row;
-- random rows: the result is the same as if all values had been rendered, and the longest removed
CREATE TABLE random_row (id int PRIMARY KEY, c1 text, c2 text, c3 text, c4 text, c5 text, c6 text, c7 text, c8 text, c9 text);
SELECT clairon.watch('random_row', 'USER', '=u');
SELECT setseed(0.5);
INSERT INTO random_row
    SELECT i, repeat('1', (random() * 600)::int), repeat('2', (random() * 600)::int), repeat('3', (random() * 600)::int),
           repeat('4', (random() * 600)::int), repeat('5', (random() * 60)::int), repeat('6', (random() * 3000)::int),
           repeat('7', (random() * 200)::int), repeat('8', (random() * 600)::int), repeat('9', (random() * 600)::int)
    FROM generate_series(1, 500) AS i;
WITH given AS (SELECT r.id, v.key, length(v.value) + 2 AS len FROM random_row AS r, jsonb_each_text(to_jsonb(r) - 'id') AS v),
     shown AS (SELECT (after::json ->> 'id')::int AS id, length(after) AS total, truncated, v.key, v.value IS NULL AS dropped
               FROM lines('2kB'), json_each_text(after::json) AS v WHERE v.key <> 'id')
SELECT count(*) AS rows, sum(dropped) > 500 AS many_dropped,
       bool_and(total <= 2048) AS fits, bool_and(coalesce(min_dropped >= max_kept, true)) AS longest,
       bool_and(coalesce(total + min_dropped - 4 > 2048, true)) AS no_more,
       bool_and(dropped = coalesce(json_array_length(truncated::json), 0)) AS named
FROM (SELECT id, min(total) AS total, min(truncated) AS truncated, count(*) FILTER (WHERE dropped) AS dropped,
             min(len) FILTER (WHERE dropped) AS min_dropped, max(len) FILTER (WHERE NOT dropped) AS max_kept
      FROM shown JOIN given USING (id, key) GROUP BY id) AS rows;
DROP TABLE random_row;
DROP FUNCTION lines(text);
-- clairon.rows has the limit of a relay's slot
DO $$ BEGIN EXECUTE 'CREATE TABLE numbers (id int PRIMARY KEY, ' ||
    (SELECT string_agg(format('n%s numeric', i), ', ') FROM generate_series(1, 80) AS i) || ')'; END $$;
DO $$ BEGIN EXECUTE 'INSERT INTO numbers VALUES (1, ' ||
    (SELECT string_agg('1e131071', ', ') FROM generate_series(1, 80) AS i) || ')'; END $$;
SELECT clairon.watch('numbers', 'ALL', live => true);
SELECT length("row"::text) BETWEEN 8 * 1024 * 1024 - 131100 AND 8 * 1024 * 1024 AS fits,
       (SELECT count(*) FROM json_each_text("row"::json) WHERE value IS NULL) AS dropped
FROM clairon.rows('numbers', 'u') AS t ("row");
DROP TABLE numbers;
SELECT count(*) FROM pg_logical_slot_get_changes('regress', NULL, NULL);
