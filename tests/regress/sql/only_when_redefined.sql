-- If an object that a stored only_when uses is redefined, the rule denies rows, and the new definition never runs.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE ROLE redefiner IN ROLE clairon_app;
CREATE SCHEMA own AUTHORIZATION redefiner;
CREATE TABLE public.other (id int PRIMARY KEY);
SELECT clairon.watch('public.other', 'ALL');
SET ROLE redefiner;
CREATE FUNCTION own.f() RETURNS tsquery LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING 'run as %', current_user;
    RETURN 'a';
END $$;
CREATE FUNCTION own.checked(text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING 'run as %', current_user;
    RETURN true;
END $$;

-- an operator is replaced by an operator that runs its argument as SQL
CREATE TABLE own.t (id int PRIMARY KEY, q tsquery, s tsquery);
CREATE OPERATOR own.@@@ (FUNCTION = pg_catalog.tsquery_and, LEFTARG = tsquery, RIGHTARG = tsquery);
SELECT clairon.watch('own.t', 'USER', '=x', only_when => $$ (q OPERATOR(own.@@@) s) IS NULL $$);
DROP OPERATOR own.@@@ (tsquery, tsquery);
ALTER TABLE own.t ALTER s TYPE text;
CREATE OPERATOR own.@@@ (FUNCTION = pg_catalog.ts_rewrite, LEFTARG = tsquery, RIGHTARG = text);
INSERT INTO own.t VALUES (1, 'a', $$SELECT 'a'::tsquery, own.f()$$);
RESET ROLE;
INSERT INTO public.other VALUES (1);
SELECT source, payload FROM notes();
-- displaying the rule does not run the new definition either
SELECT only_when FROM clairon.rules WHERE name = 'default' AND relation = 'own.t'::regclass;
SET ROLE redefiner;

-- operators are replaced by operators that take a lock or drop a slot
DROP OPERATOR own.@@@ (tsquery, text);
SELECT clairon.unwatch('own.t');
CREATE TABLE own.n (id bigint PRIMARY KEY, slot name);
CREATE OPERATOR own.@@@ (FUNCTION = pg_catalog.int8up, RIGHTARG = bigint);
CREATE OPERATOR own.@# (FUNCTION = pg_catalog.quote_ident, RIGHTARG = text);
SELECT clairon.watch('own.n', 'USER', '=x', only_when => $$ (OPERATOR(own.@@@) id) IS NOT NULL $$);
SELECT clairon.watch('own.n', 'USER', '=x', name => 'slot', only_when => $$ (OPERATOR(own.@#) slot::text) IS NOT NULL $$);
DROP OPERATOR own.@@@ (NONE, bigint), own.@# (NONE, text);
CREATE OPERATOR own.@@@ (FUNCTION = pg_catalog.pg_advisory_lock, RIGHTARG = bigint);
CREATE OPERATOR own.@# (FUNCTION = pg_catalog.pg_drop_replication_slot, RIGHTARG = name);
RESET ROLE;
SELECT slot_name FROM pg_create_physical_replication_slot('of_a_standby');
INSERT INTO own.n VALUES (42, 'of_a_standby');
SELECT source, payload FROM notes();
SELECT count(*) AS advisory_locks FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid();
SELECT count(*) AS slots FROM pg_replication_slots WHERE slot_name = 'of_a_standby';
SELECT pg_drop_replication_slot('of_a_standby');
DROP TABLE own.n;
DROP OPERATOR own.@@@ (NONE, bigint), own.@# (NONE, name);

-- the volatility of an extension's function is changed, then restored
CREATE EXTENSION citext SCHEMA own;
CREATE TABLE own.c (id int, v own.citext);
ALTER TABLE own.c OWNER TO redefiner;
SELECT clairon.watch('own.c', 'USER', '=x', only_when => $$ v OPERATOR(own.=) 'YES'::own.citext $$);
ALTER FUNCTION own.citext_eq(own.citext, own.citext) VOLATILE;
INSERT INTO own.c VALUES (1, 'yes');
SELECT source, payload FROM notes();
ALTER FUNCTION own.citext_eq(own.citext, own.citext) IMMUTABLE;
INSERT INTO own.c VALUES (2, 'yes');
SELECT source, payload FROM notes();

-- a function is replaced by a function in another language, then by a polymorphic function
SET ROLE redefiner;
CREATE TABLE own.l (id int, v text);
RESET ROLE;
CREATE FUNCTION own.longer(text, text) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'text_gt';
ALTER FUNCTION own.longer(text, text) OWNER TO redefiner;
SELECT clairon.watch('own.l', 'USER', '=x', only_when => $$ own.longer(v, 'm') $$);
SET ROLE redefiner;
CREATE OR REPLACE FUNCTION own.longer(text, text) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT own.checked($1)';
INSERT INTO own.l VALUES (1, 'z');
DROP FUNCTION own.longer(text, text);
CREATE FUNCTION own.longer(anyelement, anyelement) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
    'BEGIN RETURN own.checked($1::text); END';
INSERT INTO own.l VALUES (2, 'z');
RESET ROLE;
SELECT source, payload FROM notes();

-- a cast is replaced by a cast with another function, then by a cast without a function
SET ROLE redefiner;
CREATE TYPE own.mood AS ENUM ('sad', 'ok');
CREATE TABLE own.m (id int, v own.mood);
CREATE CAST (own.mood AS int) WITH FUNCTION pg_catalog.hashenum(anyenum) AS IMPLICIT;
SELECT clairon.watch('own.m', 'USER', '=x', only_when => $$ v::int IS NOT NULL $$);
INSERT INTO own.m VALUES (0, 'ok');
DROP CAST (own.mood AS int);
CREATE FUNCTION own.to_int(own.mood) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
    'BEGIN RETURN own.checked($1::text)::int; END';
CREATE CAST (own.mood AS int) WITH FUNCTION own.to_int(own.mood) AS IMPLICIT;
INSERT INTO own.m VALUES (1, 'ok');
DROP CAST (own.mood AS int);
CREATE CAST (own.mood AS int) WITH INOUT AS IMPLICIT;
INSERT INTO own.m VALUES (2, 'ok');
RESET ROLE;
SELECT source, payload FROM notes();

-- a collation is replaced or dropped
SET ROLE redefiner;
CREATE COLLATION own.order_of_mine FROM "C";
SELECT clairon.watch('own.l', 'USER', '=x', only_when => $$ v COLLATE own.order_of_mine > 'a' $$);
INSERT INTO own.l VALUES (3, 'z');
DROP COLLATION own.order_of_mine;
INSERT INTO own.l VALUES (4, 'z');
RESET ROLE;
SELECT source, payload FROM notes();

-- a literal without a type could later resolve to any type
SET ROLE redefiner;
CREATE OPERATOR own.~~~ (FUNCTION = pg_catalog.num_nulls, RIGHTARG = "any");
SELECT clairon.watch('own.l', 'USER', '=x', only_when => $$ (OPERATOR(own.~~~) '{1}') = 0 $$);
SELECT clairon.watch('own.l', 'USER', '=x', only_when => $$ num_nulls('x', v) = 0 $$);
SELECT clairon.watch('own.l', 'USER', '=x', only_when => $$ num_nulls('x'::text, v) = 0 $$);
INSERT INTO own.l VALUES (5, 'z');
RESET ROLE;
SELECT source, payload FROM notes();
SELECT only_when FROM clairon.rules WHERE relation = 'own.l'::regclass;

-- a constraint is added to a domain that is used directly and in an array
SET ROLE redefiner;
CREATE DOMAIN own.plain AS text;
CREATE TABLE own.d (id int, v text, a own.plain[]);
SELECT clairon.watch('own.d', 'USER', '=x', name => 'cast', only_when => $$ v::own.plain = 'z' $$);
SELECT clairon.watch('own.d', 'USER', '=x', name => 'array', only_when => $$ a = '{z}' $$);
SELECT clairon.watch('own.d', 'USER', '=x', name => 'elements', only_when => $$ v = ANY (a) $$);
INSERT INTO own.d VALUES (1, 'z', '{z}');
ALTER DOMAIN own.plain ADD CONSTRAINT c CHECK (own.checked(value)) NOT VALID;
SET client_min_messages = error;
INSERT INTO own.d VALUES (2, 'z', '{z}');
SET client_min_messages = warning;
RESET ROLE;
SELECT source, payload FROM notes();

-- range types with user functions
SET ROLE redefiner;
CREATE FUNCTION own.difference(text, text) RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS
    'BEGIN RETURN own.checked($1)::int; END';
CREATE TYPE own.words AS RANGE (SUBTYPE = text, SUBTYPE_DIFF = own.difference);
CREATE TABLE own.r (id int, r own.words);
SELECT clairon.watch('own.r', 'USER', '=x', only_when => $$ r && own.words('a', 'm') AND r @> 'b'::text $$);
INSERT INTO own.r VALUES (1, '[a,c]');
RESET ROLE;
SELECT source, payload FROM notes();

-- the size of an XML value does not limit its cost
SELECT clairon.watch('own.l', 'USER', '=x', only_when => $$ xpath_exists('//a', '<a/>'::xml) $$);
SELECT clairon.watch('own.l', 'USER', '=x', only_when => $$ xml_is_well_formed_content(v) $$);
SELECT clairon.watch('own.l', 'USER', '=x', only_when => $$ xmlcomment(v) IS DOCUMENT $$);

-- named and default arguments, and SQL syntax, still work
CREATE TABLE own.j (id int, j jsonb, at timestamp, v text);
SELECT clairon.watch('own.j', 'USER', '=x', name => 'named',
    only_when => $$ jsonb_path_exists(target => j, path => '$.a') AND make_interval(days => id) > '1 day' $$);
SELECT clairon.watch('own.j', 'USER', '=x', name => 'syntax',
    only_when => $$ extract(year FROM at) = 2025 AND trim(both 'x' from v) = 'a' AND v COLLATE "C" LIKE '%a%'
        AND position('a' in v) = 2 AND v IN ('xax', 'b') AND v IS NFC NORMALIZED AND normalize(v) = v
        AND substring(v from 2 for 1) = 'a' AND at::date + 1 > date '2025-01-01' AND (id, v) > (1, 'a')
        AND CASE id WHEN 2 THEN true ELSE 1 / (id - 2) > 0 END AND v ~ '^x' AND ('{a,b}'::text[])[1] = 'a'
        AND greatest(id, 1) = 2 AND coalesce(v, 'x') <> 'x' AND j -> 'a' = '1' AND j @> '{"a": 1}' $$);
SELECT name, only_when FROM clairon.rules WHERE relation = 'own.j'::regclass ORDER BY name;
INSERT INTO own.j VALUES (2, '{"a": 1}', '2025-06-01', 'xax'), (1, '{"b": 1}', '2025-06-01', 'xax');
SELECT source, payload FROM notes();
DROP SCHEMA own CASCADE;
DROP TABLE public.other;
DROP ROLE redefiner;
RESET client_min_messages;
SELECT count(*) FROM notes();
