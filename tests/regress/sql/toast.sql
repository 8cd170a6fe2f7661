-- Large values: unchanged TOAST, truncated values, a row that is too large as a whole.
CREATE TABLE big (id int PRIMARY KEY, n int, body text);
ALTER TABLE big ALTER body SET STORAGE EXTERNAL;
SELECT clairon.watch('big', 'ALL');
CREATE FUNCTION short_notes(VARIADIC options text[] DEFAULT '{}')
    RETURNS TABLE (operation text, before text, after text, unchanged text, changed text, truncated text)
    LANGUAGE sql AS $$
    SELECT operation, regexp_replace(p ->> 'before', '(x+)', 'xxx', 'g'),
           regexp_replace(p ->> 'after', '(x+)', 'xxx', 'g'),
           p ->> 'unchanged', p ->> 'changed', p ->> 'truncated'
    FROM (SELECT operation, payload::json AS p FROM notes(VARIADIC options)) AS n
$$;
INSERT INTO big VALUES (1, 1, repeat('x', 10000));
UPDATE big SET n = 2;
UPDATE big SET body = repeat('x', 9000);
ALTER TABLE big REPLICA IDENTITY FULL;
UPDATE big SET n = 3;
UPDATE big SET body = repeat('x', 8000);
SELECT * FROM short_notes();
UPDATE big SET n = 4;
SELECT * FROM short_notes('max_value_bytes', '7999');
UPDATE big SET n = 5;
SELECT * FROM short_notes('max_value_bytes', '8000');
-- the limit applies to the raw value, not to the compressed value
CREATE TABLE zip (id int, j jsonb, t text);
SELECT clairon.watch('zip', 'ALL');
INSERT INTO zip SELECT 1, jsonb_build_object('k', repeat('x', 100000)), repeat('x', 2000000);
SELECT after, truncated FROM short_notes('max_value_bytes', '100000');
INSERT INTO zip SELECT 1, NULL, repeat('x', 2000000);
SELECT after, truncated FROM short_notes();
-- a small datum may have a huge output: its row is reduced, the slot advances
INSERT INTO zip SELECT 2, (SELECT jsonb_agg(('1e' || 100000)::numeric) FROM generate_series(1, 1000)), 'y';
INSERT INTO zip VALUES (3, NULL, 'z');
SELECT after, truncated FROM short_notes();
DROP TABLE big, zip;
DELETE FROM clairon.rule;
DROP FUNCTION short_notes(text[]);
