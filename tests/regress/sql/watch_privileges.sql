-- Privileges to set and read rules, and a change of the table's owner.
\set SHOW_CONTEXT never
CREATE ROLE plain_owner;
CREATE ROLE app_owner IN ROLE clairon_app;
CREATE ROLE onlooker;
CREATE ROLE relay_reader IN ROLE clairon_relay;
GRANT CREATE ON SCHEMA public TO plain_owner, app_owner;
SET ROLE plain_owner;
CREATE TABLE mine (id int PRIMARY KEY, who text, many text[]);
ALTER TABLE mine REPLICA IDENTITY FULL;
-- a table's owner may send its rows, under its name, to the users in a column
SELECT clairon.watch('mine', 'USER', 'who'), clairon.watch('mine', 'ROLE', 'many', name => 'groups');
SELECT clairon.watch('mine', 'USER', 'who', type => 'NOTIFICATION', priority => 'LOW', operations => '{create}',
                     columns => '{id}', only_when => 'id > 0', emitter => 'clairon', ttl => '1 day',
                     ack_required => true, retry_limit => 3, backoff => 'FIXED');
-- a constant part is allowed, because it can only exclude users
SELECT clairon.watch('mine', 'STRUCTURE+ROLE', 'who+=admin', name => 'both'), clairon.unwatch('mine', 'both');
-- literal targets, ALL, SYSTEM, HIGH, and another emitter or topic are rejected
SELECT clairon.watch('mine', 'USER', '=u1');
SELECT clairon.watch('mine', 'ROLE', '=admin');
SELECT clairon.watch('mine', 'STRUCTURE+ROLE', ' =s1+=admin');
SELECT clairon.watch('mine', 'ALL');
SELECT clairon.watch('mine', 'USER', 'who', type => 'SYSTEM');
SELECT clairon.watch('mine', 'USER', 'who', priority => 'HIGH');
SELECT clairon.watch('mine', 'USER', 'who', emitter => 'bank');
SELECT clairon.watch('mine', 'USER', 'who', emitter => ':who');
SELECT clairon.watch('mine', 'USER', 'who', topic => 'srv.bank');
-- the current user is checked, not the owner of the inner functions
CREATE FUNCTION set_for_all() RETURNS void LANGUAGE sql SECURITY DEFINER AS $$SELECT clairon.watch('public.mine', 'ALL')$$;
RESET ROLE;
SELECT set_for_all();
SET ROLE app_owner;
SELECT clairon.watch('mine', 'ALL');
CREATE TABLE theirs (id int PRIMARY KEY, who text);
SELECT clairon.watch('theirs', 'ALL', type => 'SYSTEM', priority => 'HIGH', emitter => 'bank', topic => 'srv.bank'),
       clairon.watch('theirs', 'ROLE', '=admin', name => 'list', only_when => 'id > 0');

-- a user can read the rules on the user's own tables
SELECT relation, name, only_when FROM clairon.rules ORDER BY 1, 2;
SET ROLE plain_owner;
SELECT relation, name, targets, only_when FROM clairon.rules ORDER BY 1, 2;
SELECT clairon_internal.show_condition('mine', 'default'), clairon_internal.show_condition('mine', 'no such');
SELECT clairon_internal.show_condition('theirs', 'list');
SELECT count(*) FROM clairon.rule;
-- a cheap function in a query is not called with rules that clairon.rules hides
CREATE FUNCTION peep(relation regclass, name text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS
    $$BEGIN IF relation <> 'mine'::regclass THEN RAISE NOTICE 'seen: % of %', name, relation; END IF; RETURN true; END$$;
SELECT count(*) FROM clairon.rules WHERE peep(relation, name);
SET ROLE onlooker;
SELECT relation, name FROM clairon.rules;
SELECT clairon_internal.show_condition('mine', 'default');
SET ROLE relay_reader;
SELECT relation, name, only_when FROM clairon.rules ORDER BY 1, 2;
SELECT check_name, ok, hint FROM clairon.doctor() WHERE check_name LIKE 'privileges %';

-- a new owner of a table can read and remove its rules, but cannot set them again
RESET ROLE;
ALTER TABLE theirs OWNER TO plain_owner, ADD COLUMN more int;
ALTER TABLE theirs ADD COLUMN still_more int;
SELECT check_name, ok, detail, hint FROM clairon.doctor() WHERE check_name LIKE 'privileges %' ORDER BY 1;
SET ROLE app_owner;
SELECT relation, name FROM clairon.rules;
SELECT clairon.unwatch('theirs');
SET ROLE plain_owner;
SELECT relation, name, audience, targets FROM clairon.rules WHERE relation = 'theirs'::regclass ORDER BY 2;
SELECT clairon.watch('theirs', 'ALL', emitter => 'bank');
SELECT clairon.unwatch('theirs', 'list'), clairon.unwatch('theirs');
RESET ROLE;
SELECT check_name FROM clairon.doctor() WHERE check_name LIKE 'privileges %';
DROP FUNCTION set_for_all(), peep(regclass, text);
DROP TABLE mine, theirs;
REVOKE CREATE ON SCHEMA public FROM plain_owner, app_owner;
DROP ROLE plain_owner, app_owner, onlooker, relay_reader;
SELECT count(*) FROM clairon.rule;
SELECT count(*) FROM notes();
