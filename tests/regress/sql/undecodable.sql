-- A value whose output function fails is sent as null, named in the payload and counted; the slot advances.
\set SHOW_CONTEXT never
-- The type odd prints the label of an enum value, and raises an error for any other number.
CREATE TYPE label AS ENUM ('good');
CREATE TYPE odd;
SET client_min_messages = warning;
CREATE FUNCTION odd_in(cstring) RETURNS odd IMMUTABLE STRICT LANGUAGE internal AS 'oidin';
CREATE FUNCTION odd_out(odd) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS 'enum_out';
CREATE TYPE odd (input = odd_in, output = odd_out, like = oid);
RESET client_min_messages;
CREATE FUNCTION odd_lt(odd, odd) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'oidlt';
CREATE FUNCTION odd_le(odd, odd) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'oidle';
CREATE FUNCTION odd_eq(odd, odd) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'oideq';
CREATE FUNCTION odd_ge(odd, odd) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'oidge';
CREATE FUNCTION odd_gt(odd, odd) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'oidgt';
CREATE FUNCTION odd_cmp(odd, odd) RETURNS int IMMUTABLE STRICT LANGUAGE internal AS 'btoidcmp';
CREATE OPERATOR < (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_lt);
CREATE OPERATOR <= (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_le);
CREATE OPERATOR = (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_eq);
CREATE OPERATOR >= (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_ge);
CREATE OPERATOR > (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_gt);
CREATE OPERATOR CLASS odd_ops DEFAULT FOR TYPE odd USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 odd_cmp(odd, odd);
CREATE DOMAIN odd_domain AS odd;
CREATE TYPE odd_pair AS (n int, o odd_domain);
CREATE TYPE odd_range AS RANGE (subtype = odd);
SELECT enumlabel, oid AS good FROM pg_enum WHERE enumtypid = 'label'::regtype \gset
SELECT slot_name FROM pg_create_logical_replication_slot('framed', 'clairon');

CREATE TABLE strange (id int PRIMARY KEY, o odd, d odd_domain, a odd[], c odd_pair, ca odd_pair[], r odd_range, t text);
ALTER TABLE strange REPLICA IDENTITY FULL;
SELECT clairon.watch('strange', 'ALL');
\o /dev/null
SELECT set_config('test.good', :'good', false);
\o
DO $$
DECLARE
    g text := current_setting('test.good');
BEGIN
    EXECUTE format('INSERT INTO strange (id, o, d, a, c, ca, r, t) VALUES (1, %L, %1$L, %L, %L, %L, %L, ''all well'')',
                   g, '{' || g || ',NULL}', '(7,' || g || ')', '{"(8,' || g || ')"}', '[' || g || ',' || g || ']');
END $$;
INSERT INTO strange (id, o, t) VALUES (2, '1', 'one alone');
INSERT INTO strange VALUES (3, '1', '2', '{3,4}', '(5,6)', '{"(7,8)"}', '[9,10)', 'none well');
UPDATE strange SET t = 'still not' WHERE id = 2;
DELETE FROM strange WHERE id = 3;
INSERT INTO strange (id, t) VALUES (4, 'nothing odd');
SELECT payload FROM notes();
-- the frame has the flag FRAME_UNDECODABLE
SELECT get_byte(data, 7) AS flags, position('undecodable' IN encode(data, 'escape')) > 0 AS named
FROM pg_logical_slot_get_binary_changes('framed', NULL, NULL, 'mode', 'framed');

-- an undecodable value as a target or in a condition denies the row
SELECT clairon.watch('strange', 'USER', 'o');
SELECT clairon.watch('strange', 'USER', 'a', name => 'array');
SELECT clairon.watch('strange', 'ALL', name => 'when', only_when => $$t = 'sure' OR o::text = 'x'$$);
INSERT INTO strange (id, o, a, t) VALUES (10, '1', '{2}', 'to nobody');
INSERT INTO strange (id, o, a, t) VALUES (11, '1', NULL, 'sure');
SELECT payload, targets FROM notes();

-- many errors leak no resources and raise few warnings
SELECT clairon.unwatch('strange');
SELECT clairon.watch('strange', 'ALL', columns => '{id,c}');
INSERT INTO strange (id, c) SELECT i, '(5,6)' FROM generate_series(1000, 3999) AS i;
SELECT count(*), count(*) FILTER (WHERE payload::json #>> '{undecodable,0}' = 'c') AS named FROM notes();

-- the library of an output function is missing
SELECT clairon.watch('strange', 'ALL', columns => '{id,o,t}');
UPDATE pg_proc SET probin = '/no/such/library', prosrc = 'odd_out', prolang = 13 WHERE proname = 'odd_out';
INSERT INTO strange (id, o, t) VALUES (20, :'good', 'no library');
SELECT payload FROM notes();
UPDATE pg_proc SET probin = NULL, prosrc = 'enum_out', prolang = 12 WHERE proname = 'odd_out';
INSERT INTO strange (id, o, t) VALUES (21, :'good', 'as before');
SELECT payload FROM notes();

-- a query cancel is not handled as an undecodable value: no change is lost
INSERT INTO strange (id, o, t) SELECT i, '1', 'slow' FROM generate_series(10000, 39999) AS i;
SET client_min_messages = error;
SET statement_timeout = '20ms';
SELECT count(*) FROM notes();
RESET statement_timeout;
SELECT count(*) FROM notes();
RESET client_min_messages;

-- an enum label was deleted from the catalog
CREATE TYPE state AS ENUM ('open', 'gone');
CREATE TYPE state_pair AS (n int, s state);
CREATE TYPE deeper AS (p state_pair, n int);
CREATE TYPE state_range AS RANGE (subtype = state);
CREATE TABLE task (id int PRIMARY KEY, s state, a state[], p state_pair, d deeper, r state_range, m state_multirange[], t text);
ALTER TABLE task REPLICA IDENTITY FULL;
SELECT clairon.watch('task', 'ALL');
SELECT clairon.watch('task', 'USER', 's', name => 'one', columns => '{id}');
SELECT clairon.watch('task', 'USER', 'a', name => 'some', columns => '{id}');
INSERT INTO task VALUES (1, 'gone', '{open,gone}', '(1,gone)', '("(1,gone)",2)', '[open,gone]', '{"{[open,gone]}"}', 'sent');
DELETE FROM pg_enum WHERE enumtypid = 'state'::regtype AND enumlabel = 'gone';
UPDATE task SET t = 'sent too';
INSERT INTO task VALUES (2, 'open', '{open}', '(1,open)', '("(1,open)",2)', '[open,open]', '{"{[open,open]}"}', 'as ever');
SET client_min_messages = error;
SELECT payload, targets FROM notes();
RESET client_min_messages;
DROP TABLE task;
DROP TYPE deeper, state_pair, state_range, state;

SELECT pg_drop_replication_slot('framed');
DROP TABLE strange;
DROP TYPE odd_pair, odd_range, label;
\set VERBOSITY terse
SET client_min_messages = error;
DROP TYPE odd CASCADE;
RESET client_min_messages;
SELECT count(*) FROM notes();
