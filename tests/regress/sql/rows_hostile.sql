-- Attacks by table owners when the relay reads rows: other users' privileges, writes, settings, row-level security, shadowed names.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION citext SCHEMA public;
CREATE ROLE attacker;
CREATE ROLE other;
CREATE SCHEMA own AUTHORIZATION attacker;
SET ROLE attacker;
SET search_path = own, public;

-- The planner calls evil() for expressions of indexes and constraints. Session locks record which attempts succeeded.
CREATE TABLE written (id int);
CREATE FUNCTION attempt(command text) RETURNS void VOLATILE LANGUAGE plpgsql AS $$ BEGIN EXECUTE command; END $$;
CREATE FUNCTION evil(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql SET search_path = own, pg_catalog AS $$
DECLARE
    attempts text[] := '{"INSERT INTO own.written VALUES (1)", "CREATE TEMP TABLE t (id int)", "SET transaction_read_only = off",
        "SELECT nextval(''own.numbers'')", "SELECT * FROM clairon.rule", "SELECT * FROM clairon.rows(''own.t'', ''u1'')",
        "DECLARE c CURSOR WITH HOLD FOR SELECT 1", "SET ROLE clairon_relay", "RESET ROLE", "SET SESSION AUTHORIZATION DEFAULT"}';
BEGIN
    IF current_setting('own.reading', true) IS DISTINCT FROM 'yes' THEN
        RETURN n;
    ELSIF current_user <> 'attacker' THEN
        PERFORM pg_advisory_lock(1000);
    ELSE
        PERFORM pg_advisory_lock(1000 + n);
    END IF;
    PERFORM set_config('own.reading', 'no', false); -- calls from the attempts return early
    FOR i IN 1 .. cardinality(attempts) LOOP
        BEGIN
            PERFORM attempt(attempts[i]);
            PERFORM pg_advisory_lock(i);
        EXCEPTION WHEN OTHERS THEN
            NULL;
        END;
    END LOOP;
    PERFORM set_config('timezone', 'Asia/Tokyo', false), set_config('intervalstyle', 'postgres', false),
            set_config('own.reading', 'yes', false);
    RETURN n;
END $$;
CREATE SEQUENCE numbers;
CREATE TABLE t (id int PRIMARY KEY, who text, state text, lasting interval, at timestamp DEFAULT '2020-01-01');
CREATE TABLE child (PRIMARY KEY (id), CHECK (id <> own.evil(1))) INHERITS (t);
ALTER TABLE t REPLICA IDENTITY FULL;
ALTER TABLE child REPLICA IDENTITY FULL;
CREATE INDEX ON t (who) WHERE own.evil(2) = 2;
CREATE INDEX ON t ((own.evil(3) + id));
INSERT INTO t VALUES (1, 'u1', 'open', '1 day'), (2, 'u1', 'closed', '1 day');
SELECT clairon.watch('t', 'USER', 'who', only_when => $$state = 'open'::text$$, live => true);
RESET ROLE;
RESET ALL;
\set SHOW_CONTEXT never
SET client_min_messages = warning;
-- 1001: the function ran as its owner, 1000: as another role. The planner caches some results.
CREATE FUNCTION successes() RETURNS TABLE (attempt bigint) LANGUAGE sql AS $$
    SELECT DISTINCT least(objid::bigint, 1001) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() ORDER BY 1 $$;
SET own.reading = 'yes';
SELECT * FROM clairon.rows('own.t', 'u1');
SELECT * FROM successes();
SELECT current_setting('timezone') <> 'Asia/Tokyo' AS kept, current_setting('search_path') AS path;
SET ROLE clairon_relay;
SELECT count(*) FROM clairon.live_rows('own.t', 'default', 'u1', '{}', 10, 1000);
SELECT current_user, current_setting('role') AS role, current_setting('transaction_read_only') AS read_only;
RESET ROLE;
SELECT * FROM successes();
SELECT count(*) FROM own.written;
-- a direct call by a superuser succeeds, so the attempts work
BEGIN;
SELECT own.evil(4);
ROLLBACK;
SELECT * FROM successes();
SELECT count(pg_advisory_unlock_all()) > 0 AS done;
RESET ALL;
\set SHOW_CONTEXT never
SET client_min_messages = warning;

-- the owner of a partition or child table cannot run code as the owner of the parent table
CREATE TABLE above (id int PRIMARY KEY, who text) PARTITION BY RANGE (id);
CREATE TABLE above_1 PARTITION OF above FOR VALUES FROM (0) TO (10);
CREATE TABLE own.above_2 PARTITION OF above FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id);
CREATE TABLE own.above_3 PARTITION OF own.above_2 FOR VALUES FROM (10) TO (20);
ALTER TABLE above_1 REPLICA IDENTITY FULL;
ALTER TABLE own.above_3 REPLICA IDENTITY FULL;
INSERT INTO above VALUES (1, 'u1'), (11, 'u1');
SELECT clairon.watch('above', 'USER', 'who', live => true);
SELECT row ->> 'id' AS id FROM clairon.rows('above', 'u1') AS row;
ALTER TABLE own.above_2 OWNER TO attacker;
\set VERBOSITY terse
SELECT * FROM clairon.rows('above', 'u1');
SELECT * FROM clairon.live_rows('above', 'default', 'u1', '{}', 10, 1000);
\set VERBOSITY default
ALTER TABLE own.above_2 OWNER TO CURRENT_USER;
SELECT row ->> 'id' AS id FROM clairon.rows('above', 'u1') AS row;
-- even if the partition's owner is a superuser or a member of the role that owns the parent table
ALTER TABLE above OWNER TO other;
SELECT replace(detail, current_user, 'superuser') AS detail, hint FROM clairon.doctor() WHERE check_name = 'live rule default on public.above';
\set VERBOSITY terse
SELECT * FROM clairon.rows('above', 'u1');
\set VERBOSITY default
ALTER TABLE above OWNER TO CURRENT_USER;
ALTER TABLE own.above_3 OWNER TO attacker;
SET ROLE attacker;
CREATE INDEX ON own.above_3 ((own.evil(5) + id));
RESET ROLE;
SET own.reading = 'yes';
\set VERBOSITY terse
SELECT count(*) FROM clairon.rows('above', 'u1');
\set VERBOSITY default
RESET own.reading;
SELECT * FROM successes();
SELECT replace(detail, current_user, 'superuser') AS detail, replace(hint, current_user, 'superuser') AS hint
FROM clairon.doctor() WHERE check_name = 'live rule default on public.above';
ALTER TABLE above OWNER TO other;
ALTER TABLE above_1 OWNER TO other;
ALTER TABLE own.above_2 OWNER TO other;
GRANT other TO attacker;
SELECT * FROM clairon.rows('above', 'u1');
SELECT clairon.watch('above', 'USER', 'who', live => true);
ALTER TABLE own.above_3 OWNER TO other;
SELECT clairon.watch('above', 'USER', 'who', live => true);
DROP TABLE above;
CREATE TABLE above (id int PRIMARY KEY, who text);
CREATE TABLE below (PRIMARY KEY (id)) INHERITS (above);
ALTER TABLE above OWNER TO other;
ALTER TABLE above REPLICA IDENTITY FULL;
ALTER TABLE below REPLICA IDENTITY FULL;
ALTER TABLE below OWNER TO attacker;
SELECT clairon.watch('above', 'USER', 'who', live => true);
DROP TABLE above CASCADE;
REVOKE other FROM attacker;

-- role and settings are restored after an error in the owner's code
CREATE OR REPLACE FUNCTION own.evil(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
    IF pg_catalog.current_setting('own.fails', true) OPERATOR(pg_catalog.=) 'yes' THEN RAISE 'no rows'; END IF;
    RETURN n;
END $$;
SET own.fails = 'yes';
BEGIN;
SAVEPOINT s;
SELECT * FROM clairon.rows('own.t', 'u1');
ROLLBACK TO s;
SELECT current_user = session_user AS restored, current_setting('transaction_read_only') AS read_only, current_setting('search_path') AS path;
COMMIT;
RESET own.fails;

-- types and operators that shadow PostgreSQL's are not used
SET ROLE attacker;
CREATE FUNCTION own.never(a text, b text) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR own.= (FUNCTION = own.never, LEFTARG = text, RIGHTARG = text);
RESET ROLE;
CREATE TYPE pg_temp.text AS ENUM ('open', 'closed');
SET search_path = own, pg_temp, pg_catalog;
SELECT row ->> 'id' AS id FROM clairon.rows('own.t', 'u1') AS row;
SELECT row ->> 'id' AS id FROM clairon.rows('own.t', 'u2') AS row;
RESET search_path;
DROP TYPE pg_temp.text;

-- row-level security does not limit a rule, and its policies are not evaluated
SET ROLE attacker;
CREATE FUNCTION own.policy() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'a policy is evaluated'; END $$;
CREATE POLICY p ON own.t USING (own.policy());
ALTER TABLE own.t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
RESET ROLE;
SELECT row ->> 'id' AS id FROM clairon.rows('own.t', 'u1') AS row;
SET row_security = off;
SELECT row ->> 'id' AS id FROM clairon.rows('own.t', 'u1') AS row;
RESET row_security;
ALTER TABLE own.t NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY;

-- the owner's privileges apply: without them reading raises an error
REVOKE SELECT ON own.t FROM attacker;
SELECT * FROM clairon.rows('own.t', 'u1');
SELECT check_name, ok, detail, hint FROM clairon.doctor() WHERE check_name = 'live rule default on own.t';
GRANT SELECT ON own.t TO attacker;
ALTER SCHEMA own OWNER TO other;
SELECT * FROM clairon.rows('own.t', 'u1');
SELECT check_name, ok, detail FROM clairon.doctor() WHERE check_name = 'live rule default on own.t';
GRANT ALL ON SCHEMA own TO attacker;
SELECT count(*) FROM clairon.doctor() WHERE check_name = 'live rule default on own.t';
SELECT row ->> 'id' AS id FROM clairon.rows('own.t', 'u1') AS row;

-- constraints of domains are not evaluated, neither for values nor for user ids
SET ROLE attacker;
CREATE FUNCTION own.chk(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    IF pg_catalog.current_setting('own.fails', true) OPERATOR(pg_catalog.=) 'yes' THEN RAISE 'a constraint is evaluated'; END IF;
    RETURN true;
END $$;
CREATE DOMAIN own.d AS text CHECK (own.chk(VALUE));
CREATE TABLE own.domains (id int PRIMARY KEY, one own.d, many own.d[], plain own.d);
ALTER TABLE own.domains REPLICA IDENTITY FULL;
INSERT INTO own.domains VALUES (1, 'u1', '{u1,u2}', 'x');
SELECT clairon.watch('own.domains', 'USER', 'one', name => 'one', live => true);
SELECT clairon.watch('own.domains', 'USER', 'many', name => 'many', live => true);
RESET ROLE;
SET own.fails = 'yes';
SELECT * FROM clairon.rows('own.domains', 'u1', 'one');
SELECT * FROM clairon.rows('own.domains', 'u2', 'many');
RESET own.fails;

-- targets of an extension's type are compared as text, although the type has an operator
CREATE TABLE addresses (id int PRIMARY KEY, mail citext, mails citext[]);
ALTER TABLE addresses REPLICA IDENTITY FULL;
INSERT INTO addresses VALUES (1, 'A@x', '{B@x,A@x}'), (2, 'a@x', '{}');
SELECT clairon.watch('addresses', 'USER', 'mail', live => true);
SELECT clairon.watch('addresses', 'USER', 'mails', name => 'many', live => true);
SELECT row ->> 'id' AS id FROM clairon.rows('addresses', 'a@x') AS row;
SELECT row ->> 'id' AS id FROM clairon.rows('addresses', 'A@x', 'many') AS row;
SELECT row ->> 'id' AS id FROM clairon.rows('addresses', 'b@x', 'many') AS row;

DROP TABLE addresses;
DROP FUNCTION successes();
DROP SCHEMA own CASCADE;
DROP EXTENSION citext;
DROP ROLE attacker, other;
RESET client_min_messages;
SELECT count(*) FROM notes();
