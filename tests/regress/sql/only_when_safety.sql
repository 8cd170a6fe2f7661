-- only_when never runs user code with the extension's privileges, and never runs SQL.
\set SHOW_CONTEXT never
CREATE ROLE owner_of_doubtful_types IN ROLE clairon_app;
GRANT CREATE ON SCHEMA public TO owner_of_doubtful_types;
SET ROLE owner_of_doubtful_types;
CREATE TABLE odd (id int PRIMARY KEY, v text, ids int[]);
CREATE FUNCTION who_runs(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE 'run by %', current_user;
    RETURN true;
END $$;
CREATE DOMAIN watched AS int CHECK (public.who_runs(VALUE));
CREATE DOMAIN free AS int;
CREATE TYPE pair AS (a watched, b int);
-- the type of a constant may contain a domain with a user function as constraint
SELECT clairon.watch('odd', 'ALL', only_when => $$'{1}'::public.watched[] IS NOT NULL$$);
SELECT clairon.watch('odd', 'ALL', only_when => $$'(1,2)'::public.pair IS NOT NULL$$);
SELECT clairon.watch('odd', 'ALL', only_when => $$v::public.pair IS NOT NULL$$);
SELECT clairon.watch('odd', 'ALL', only_when => $$v::public.watched[] IS NOT NULL$$);
SELECT clairon.watch('odd', 'ALL', only_when => $$id::public.watched > 1$$);
SELECT clairon.watch('odd', 'ALL', only_when => $$ids::public.watched[] IS NOT NULL$$);
SELECT clairon.watch('odd', 'ALL', only_when => $$'{1}'::public.free[] IS NOT NULL$$);
-- a domain without constraints is allowed until a constraint is added
SELECT clairon.watch('odd', 'ALL', only_when => $$id::public.free > 1$$);
INSERT INTO odd VALUES (2, 'free');
ALTER DOMAIN free ADD CHECK (public.who_runs(VALUE));
INSERT INTO odd VALUES (3, 'not free');
RESET ROLE;
SELECT only_when FROM clairon.rules;
SELECT payload FROM notes();

-- the condition runs with the privileges of the table's owner
CREATE SCHEMA closed;
CREATE EXTENSION citext SCHEMA closed;
CREATE TABLE open (id int, v closed.citext);
GRANT USAGE ON SCHEMA closed TO owner_of_doubtful_types;
ALTER TABLE open OWNER TO owner_of_doubtful_types;
SET ROLE owner_of_doubtful_types;
SELECT clairon.watch('open', 'ALL', only_when => $$v OPERATOR(closed.=) 'YES'::closed.citext$$);
RESET ROLE;
INSERT INTO open VALUES (1, 'yes'), (2, 'no');
CREATE ROLE a_reader LOGIN REPLICATION IN ROLE clairon_relay;
SET ROLE a_reader;
SELECT payload FROM public.notes();
RESET ROLE;

-- names are resolved in the caller's search_path, and stored with their schema
SET search_path = closed, public;
SELECT clairon.watch('open', 'ALL', only_when => $$v = 'YES'$$);
SELECT clairon.watch('open', 'USER', '=u1', name => 'as text', only_when => $$v::text = 'YES'$$);
RESET search_path;
SELECT name, only_when FROM clairon.rules WHERE relation = 'open'::regclass ORDER BY name;
INSERT INTO open VALUES (3, 'yes'), (4, 'YES');
SELECT payload, targets FROM notes();

-- a function that is replaced by a function that runs SQL is no longer called
CREATE FUNCTION public.longer(text, text) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'text_gt';
CREATE TABLE later (id int, v text);
SELECT clairon.watch('later', 'ALL', only_when => $$public.longer(v, 'm')$$);
INSERT INTO later VALUES (1, 'z'), (2, 'a');
CREATE OR REPLACE FUNCTION public.longer(text, text) RETURNS boolean IMMUTABLE LANGUAGE sql AS
    'SELECT count(*) > 0 FROM later';
INSERT INTO later VALUES (3, 'z');
SELECT payload FROM notes();

-- conditions are parsed with fixed settings, independent of the session
SELECT clairon.watch('later', 'ALL', only_when => $$v = E'a\\b'$$);
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SET transform_null_equals = on;
SET quote_all_identifiers = on;
SELECT clairon.watch('later', 'USER', '=u', name => 'off', only_when => $$v = 'a\b' AND (v = NULL) IS NULL$$);
SELECT only_when FROM clairon.rules WHERE relation = 'later'::regclass ORDER BY name;
RESET quote_all_identifiers;
INSERT INTO later VALUES (4, E'a\\b');
SELECT payload, targets FROM notes();
RESET transform_null_equals;
RESET escape_string_warning;
SELECT clairon.watch('later', 'ALL', name => 'backslash', only_when => $$v <> 'C:\'$$);
SELECT only_when FROM clairon.rules WHERE name = 'backslash';
SELECT clairon.unwatch('later', 'backslash');
RESET standard_conforming_strings;

-- an unexpected error denies the row and does not stop the slot
CREATE FUNCTION public.breaks(text) RETURNS boolean IMMUTABLE LANGUAGE internal AS 'anyelement_out';
SELECT clairon.watch('later', 'ALL', name => 'default', only_when => $$v = 'x' OR public.breaks(v)$$);
SELECT clairon.unwatch('later', 'off');
INSERT INTO later VALUES (5, 'x'), (6, 'y'), (7, 'x');
SELECT payload FROM notes();
CREATE FUNCTION public.tell(text) RETURNS boolean LANGUAGE plpgsql AS
    $$BEGIN RAISE NOTICE 'run by %', current_user; RETURN true; END$$;
-- a constant is not read if its type name now refers to another type
CREATE TYPE public.mark AS ENUM ('1');
SELECT clairon.watch('later', 'ALL', only_when => $$('{1}'::public.mark[])[1] = '1'::public.mark OR v = 'x'$$);
DROP TYPE public.mark;
CREATE DOMAIN public.mark AS text CHECK (public.tell(value));
INSERT INTO later VALUES (8, 'x');
SELECT payload FROM notes();
SELECT detail FROM clairon.doctor() WHERE check_name = 'rule default on public.later' AND NOT ok;
DROP TABLE odd, open, later;
DROP DOMAIN mark;
DROP FUNCTION tell(text);
DROP FUNCTION longer(text, text), breaks(text);
DROP EXTENSION citext;
DROP SCHEMA closed;
DROP OWNED BY owner_of_doubtful_types;
DROP ROLE owner_of_doubtful_types, a_reader;
SELECT count(*) FROM notes();
