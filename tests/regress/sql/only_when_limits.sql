-- An evaluation of only_when is limited to condition_timeout and 64 MB. At the limit the rule denies the row, and the slot advances.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE TABLE w (id int, s text);
CREATE TABLE other (id int);
SELECT clairon.watch('other', 'ALL');

-- time is limited: a regular expression does not terminate
SELECT clairon.watch('w', 'USER', '=x', only_when => $$ s ~ '^(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)\8\7\6\5\4\3\2\1(.)\9$' $$);
INSERT INTO w VALUES (1, repeat('a', 140));
INSERT INTO other VALUES (1);
SELECT source, payload FROM notes();
SELECT source, payload FROM notes('condition_timeout', '20ms');
INSERT INTO w VALUES (2, repeat('a', 140));
SELECT source, payload FROM notes('condition_timeout', '20ms');
-- an expired timer does not cancel the next query
INSERT INTO w SELECT 3, CASE WHEN i = 1 THEN repeat('a', 140) ELSE 'b' || i END FROM generate_series(1, 1000) AS i;
SELECT count(*) FROM notes();
SELECT 'not cancelled' FROM pg_sleep(0.3);

-- memory is limited
SELECT clairon.watch('w', 'USER', '=x',
    only_when => $$ repeat(s, 900000) <> repeat(s, 900001) AND repeat(s, 900002) <> repeat(s, 900003) $$);
INSERT INTO w VALUES (4, repeat('a', 1000)), (5, 'a');
SELECT source, payload FROM notes();
SELECT clairon.watch('w', 'USER', '=x', only_when => $$ array_fill(s, ARRAY[5000, 5000]) IS NULL $$);
INSERT INTO w VALUES (6, 'a');
SELECT source, payload FROM notes();

-- calls that cannot be interrupted are limited by the sizes of their arguments
ALTER TABLE w ADD t text, ADD a int[], ADD b int[];
SELECT clairon.watch('w', 'USER', '=x', name => 'array', only_when => $$ a <@ b $$);
SELECT clairon.watch('w', 'USER', '=x', name => 'like', only_when => $$ s LIKE t $$);
SELECT clairon.watch('w', 'USER', '=x', name => 'normalize', only_when => $$ normalize(s) = s $$);
SELECT clairon.watch('w', 'USER', '=x', name => 'position', only_when => $$ position(t in s) = 0 $$);
SELECT clairon.watch('w', 'USER', '=x', name => 'replace', only_when => $$ replace(s, t, 'x') = s $$);
SELECT clairon.watch('w', 'USER', '=x', name => 'any', only_when => $$ s LIKE ANY (ARRAY[t, 'a']) $$);
SELECT clairon.watch('w', 'USER', '=x', name => 'distinct', only_when => $$ NULLIF(s LIKE t, true) IS DISTINCT FROM (s LIKE t) $$);
SELECT clairon.unwatch('w', 'default');
INSERT INTO w VALUES (7, repeat('a', 1000000), '%' || repeat('a', 10000) || 'b', array_fill(1, ARRAY[100000]), array_fill(2, ARRAY[100000]));
SELECT source, left(payload, 20) FROM notes();
INSERT INTO w VALUES (8, 'aba', '%ab', '{1,2}', '{2,1,3}');
SELECT source, left(payload, 80) FROM notes();

-- a comparison of large values is linear
DELETE FROM clairon.rule WHERE relation = 'w'::regclass;
SELECT clairon.watch('w', 'USER', '=x', name => 'cast', only_when => $$ (ARRAY[s, t])::varchar(10)[] = ARRAY[left(s, 10), left(t, 10)]::varchar[] $$);
INSERT INTO w VALUES (9, repeat('a', 1000000), repeat('b', 1000000));
SELECT source, left(payload, 20) FROM notes();

-- constants are folded under the same limits
DELETE FROM clairon.rule WHERE relation = 'w'::regclass;
CREATE TABLE folded (id bigint, s text);
SELECT clairon.watch('folded', 'USER', '=x', name => 'like', only_when => $$ repeat('a', 1000000) LIKE '%' || repeat('a', 10000) || left('b', id::int) $$);
CREATE OPERATOR public.@@@ (FUNCTION = pg_catalog.left, LEFTARG = text, RIGHTARG = int);
SELECT clairon.watch('folded', 'USER', '=x', name => 'memory', only_when => $$ length('a'::text OPERATOR(public.@@@) 100000000) > 1 $$);
DROP OPERATOR public.@@@ (text, int);
CREATE OPERATOR public.@@@ (FUNCTION = pg_catalog.repeat, LEFTARG = text, RIGHTARG = int);
INSERT INTO folded VALUES (1, 'a');
SELECT source, left(payload, 40) FROM notes();
DROP OPERATOR public.@@@ (text, int);
DROP TABLE folded;

-- large values can be compared with constants by =, >, IN and LIKE
SELECT clairon.watch('w', 'USER', '=x', name => 'equal', only_when => $$ s = 'small' OR s > 'z' OR s IN ('a', 'b') OR s LIKE 'zz%' $$);
INSERT INTO w VALUES (10, repeat('z', 3000000)), (11, repeat('b', 3000000)), (12, 'small');
SELECT source, length(payload), left(payload, 40) FROM notes('max_value_bytes', '16MB');
DROP TABLE w, other;
RESET client_min_messages;
SELECT count(*) FROM notes();

-- the conditions of one table have a size limit
CREATE TABLE texts (s text);
ALTER TABLE texts REPLICA IDENTITY FULL;
SELECT count(clairon.watch('texts', 'ALL', name => 'rule' || i, only_when => format('s <> %L', repeat('a', 99970))))
    FROM generate_series(1, 10) AS i;
SELECT clairon.watch('texts', 'ALL', name => 'more', only_when => format('s <> %L', repeat('a', 1000)));
SELECT clairon.watch('texts', 'ALL', name => 'without');
SELECT clairon.watch('texts', 'ALL', name => 'rule1', only_when => format('s <> %L', repeat('a', 90000)));
SELECT clairon.watch('texts', 'ALL', name => 'more', only_when => format('s <> %L', repeat('a', 1000)));
SELECT count(*) FROM clairon.rules WHERE relation = 'texts'::regclass;
DROP TABLE texts;

-- the size limit for all tables of one owner does not affect other owners
CREATE ROLE texts_owner;
GRANT ALL ON SCHEMA public TO texts_owner;
SET ROLE texts_owner;
DO $$ BEGIN
    FOR i IN 1 .. 9 LOOP
        EXECUTE format('CREATE TABLE texts%s (s text); ALTER TABLE texts%s REPLICA IDENTITY FULL', i, i);
        FOR j IN 1 .. CASE i WHEN 9 THEN 1 ELSE 10 END LOOP
            PERFORM clairon.watch(format('texts%s', i)::regclass, 'USER', 's', name => 'rule' || j,
                                  only_when => format('s <> %L', repeat('a', 97000)));
        END LOOP;
    END LOOP;
END $$;
SELECT sum(octet_length(only_when)) BETWEEN 7800000 AND 8000000 AS nearly
FROM clairon.rules WHERE relation::text LIKE 'texts_';
SELECT count(clairon.watch('texts9', 'USER', 's', name => 'rule' || j,
                           only_when => format('s <> %L', repeat('a', 97000))))
FROM generate_series(2, 4) AS j;
SELECT clairon.watch('texts9', 'USER', 's', name => 'short', only_when => 's IS NULL');
RESET ROLE;
CREATE TABLE texts (s text);
ALTER TABLE texts REPLICA IDENTITY FULL;
SELECT clairon.watch('texts', 'USER', 's', only_when => format('s <> %L', repeat('a', 97000)));
DROP TABLE texts;
DROP OWNED BY texts_owner;
DROP ROLE texts_owner;

-- valid and invalid values of condition_timeout
SELECT count(*) FROM notes('condition_timeout', '0');
SELECT count(*) FROM notes('condition_timeout', '2min');
SELECT count(*) FROM notes('condition_timeout', 'soon');
SELECT count(*) FROM notes('condition_timeout', '1s');
