-- Attacks by table owners with only_when: other users' privileges, SQL during decoding, unlimited time and memory.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION hstore SCHEMA public;
CREATE EXTENSION unaccent SCHEMA public;
CREATE ROLE attacker;
CREATE SCHEMA own AUTHORIZATION attacker;
SET ROLE attacker;
SET search_path = own, public;

-- a function changes a setting during constant folding
CREATE TABLE esc (id int PRIMARY KEY, who text);
CREATE FUNCTION pwn(a text, b text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF current_user OPERATOR(pg_catalog.<>) 'attacker' THEN
        RAISE WARNING 'run as %', current_user;
    END IF;
    RETURN a OPERATOR(pg_catalog.=) b;
END $$;
CREATE OPERATOR own.= (FUNCTION = own.pwn, LEFTARG = text, RIGHTARG = text);
CREATE FUNCTION evil(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'own, pg_catalog', false);
    RETURN true;
END $$;
SELECT clairon.watch('esc', 'USER', 'who', only_when => 'own.evil(1)');
SELECT clairon.watch('esc', 'USER', 'who', only_when => 'own.evil(1)');
SHOW search_path;
DROP OPERATOR own.= (text, text);

-- an extension's function reads a domain from text
CREATE FUNCTION chk(text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING 'run as %', current_user;
    RETURN true;
END $$;
CREATE DOMAIN d AS text CHECK (own.chk(VALUE));
CREATE TYPE c AS (x d);
CREATE TABLE h (id int PRIMARY KEY, who text, c c, h hstore);
SELECT clairon.watch('h', 'USER', 'who', only_when => '(c OPERATOR(public.#=) h) IS NOT NULL');

-- other functions of extensions are rejected, because their run time is unknown
SELECT clairon.watch('h', 'USER', 'who', only_when => $$ h -> 'x' = 'y' $$);

-- the time of ranking functions grows faster than the size of their arguments
CREATE TABLE ranked (id int PRIMARY KEY, who text, v tsvector, q tsquery);
SELECT clairon.watch('ranked', 'USER', 'who', only_when => 'ts_rank(v, q) > 0');
SELECT clairon.watch('ranked', 'USER', 'who', only_when => 'ts_rank_cd(v, q) > 0');

-- dictionaries stay in a session's memory
CREATE TEXT SEARCH CONFIGURATION own.conf (COPY = pg_catalog.simple);
CREATE TABLE words (id int PRIMARY KEY, who text, s text, conf regconfig);
SELECT clairon.watch('words', 'USER', 'who', only_when => $$ to_tsvector('own.conf', s) @@ 'a'::tsquery $$);
SELECT clairon.watch('words', 'USER', 'who', only_when => $$ to_tsvector(conf, s) @@ 'a'::tsquery $$);
SELECT clairon.watch('words', 'USER', 'who', only_when => $$ to_tsvector('simple', s) @@ 'a'::tsquery $$);

-- A member of clairon_app may use functions of extensions, except polymorphic ones.
RESET ROLE;
GRANT clairon_app TO attacker;
SET ROLE attacker;
SELECT clairon.watch('h', 'USER', 'who', only_when => '(c OPERATOR(public.#=) h) IS NOT NULL');
SELECT clairon.watch('h', 'USER', 'who', only_when => $$ h -> 'x' = 'y' $$);
INSERT INTO h (id, who, h) VALUES (1, 'u1', 'x=>y'), (2, 'u1', 'x=>z');
INSERT INTO words VALUES (1, 'u1', 'a b'), (2, 'u1', 'b');
RESET ROLE;
SELECT source, payload FROM notes();

-- Membership is checked when the condition is prepared.
REVOKE clairon_app FROM attacker;
ALTER TABLE own.h REPLICA IDENTITY FULL;
INSERT INTO own.h (id, who, h) VALUES (3, 'u1', 'x=>y');
SELECT source, payload FROM notes();

RESET search_path;
DROP SCHEMA own CASCADE;
DROP EXTENSION hstore;
DROP EXTENSION unaccent;
DROP ROLE attacker;
RESET client_min_messages;
SELECT count(*) FROM notes();
