-- Parameters of watch and unwatch, and their errors.
\set SHOW_CONTEXT never
CREATE TABLE task (id int PRIMARY KEY, owner text, watchers text[], title text, gone int);
ALTER TABLE task DROP COLUMN gone;

SELECT clairon.watch('task', 'USER', 'owner');
SELECT clairon.watch('task', 'STRUCTURE', '=s1, s2,,s1,a\,b', name => 'second', type => 'SYSTEM',
                     priority => 'HIGH', operations => '{delete,truncate}', columns => '{title,id,id}',
                     emitter => 'me', topic => 'a.b', ttl => '10 days', ack_required => true,
                     retry_limit => 0, backoff => 'LINEAR');
SELECT clairon.watch('task', 'ALL', name => 'third', operations => '{create,create,delete}');
\x
SELECT * FROM clairon.rules ORDER BY name;
\x
-- watch replaces the rule with the same name
SELECT clairon.watch('task', 'USER', 'watchers', priority => 'LOW');
SELECT name, targets, priority FROM clairon.rules ORDER BY name;
-- columns are stored by number
ALTER TABLE task RENAME watchers TO followers;
SELECT name, targets FROM clairon.rules WHERE name = 'default';

SELECT clairon.unwatch('task', 'third');
SELECT clairon.unwatch('task', 'third');
SELECT clairon.unwatch('task');

-- each error names the parameter and the valid values
SELECT clairon.watch('task', 'USER');
SELECT clairon.watch('task', 'ALL', 'owner');
SELECT clairon.watch('task', 'user', 'owner');
SELECT clairon.watch('task', 'USER OR', 'owner');
SELECT clairon.watch('task', NULL, 'owner');
SELECT clairon.watch('task', 'USER', 'nobody');
SELECT clairon.watch('task', 'USER', 'owner', name => '');
SELECT clairon.watch('task', 'USER', 'owner', type => 'realtime');
SELECT clairon.watch('task', 'USER', 'owner', priority => NULL);
SELECT clairon.watch('task', 'USER', 'owner', operations => '{create,upsert}');
SELECT clairon.watch('task', 'USER', 'owner', operations => '{}');
SELECT clairon.watch('task', 'USER', 'owner', columns => '{id,nope}');
SELECT clairon.watch('task', 'USER', 'owner', columns => '{}');
SELECT clairon.watch('task', 'USER', 'owner', emitter => '');
SELECT clairon.watch('task', 'USER', 'owner', topic => repeat('x', 1025));
SELECT clairon.watch('task', 'USER', 'owner', ttl => '-1 day');
SELECT clairon.watch('task', 'USER', 'owner', ttl => '1 month -29 days');
SELECT clairon.watch('task', 'USER', 'owner', ack_required => NULL);
SELECT clairon.watch('task', 'USER', 'owner', retry_limit => -1);
SELECT clairon.watch('task', 'USER', 'owner', backoff => 'RANDOM');
SELECT clairon.watch('task', 'USER', '=' || (SELECT string_agg(i::text, ',')
                                             FROM generate_series(1, 100001) AS i));
SELECT clairon.watch('task', 'USER', '=a,' || repeat('x', 256));
SELECT clairon.unwatch(NULL);
-- NULL for a required value raises SQLSTATE 22004
SELECT clairon.watch('task', 'USER', 'owner', operations => '{create,NULL}');
SELECT clairon.watch('task', 'USER', 'owner', columns => '{id,NULL}');
SELECT clairon.watch('task', 'USER', 'owner', name => NULL);
\set VERBOSITY sqlstate
SELECT clairon.watch(NULL, 'ALL');
SELECT clairon.watch('task', NULL, 'owner');
SELECT clairon.watch('task', 'USER', NULL);
SELECT clairon.watch('task', 'USER', 'owner', name => NULL);
SELECT clairon.watch('task', 'USER', 'owner', type => NULL);
SELECT clairon.watch('task', 'USER', 'owner', priority => NULL);
SELECT clairon.watch('task', 'USER', 'owner', operations => NULL);
SELECT clairon.watch('task', 'USER', 'owner', operations => '{create,NULL}');
SELECT clairon.watch('task', 'USER', 'owner', columns => '{id,NULL}');
SELECT clairon.watch('task', 'USER', 'owner', ack_required => NULL);
SELECT clairon.watch('task', 'USER', 'owner', retry_limit => NULL);
SELECT clairon.watch('task', 'USER', 'owner', backoff => NULL);
SELECT clairon.watch('task', 'USER', 'owner', live => NULL);
SELECT clairon.unwatch(NULL);
SELECT clairon.notify(NULL, '{u1}', '{}');
SELECT clairon.notify('USER', NULL, '{}');
SELECT clairon.notify('USER', '{u1}', NULL);
SELECT clairon.notify('USER', '{u1}', '{}', type => NULL);
SELECT clairon.notify('USER', '{u1}', '{}', priority => NULL);
SELECT clairon.notify('USER', '{u1}', '{}', ack_required => NULL);
SELECT clairon.notify('USER', '{u1}', '{}', retry_limit => NULL);
SELECT clairon.notify('USER', '{u1}', '{}', backoff => NULL);
SELECT clairon.once(NULL, '1');
SELECT clairon.once('e', NULL);
SELECT clairon.prune(NULL);
\set VERBOSITY default
CREATE DOMAIN ids AS jsonb;
CREATE TABLE json_targets (id int, plain json, one ids, many ids[], fine text[],
                           made text[] GENERATED ALWAYS AS (string_to_array(one ->> 'ids', ' ')) STORED);
SELECT clairon.watch('json_targets', 'USER', 'plain');
SELECT clairon.watch('json_targets', 'USER', 'one');
SELECT clairon.watch('json_targets', 'USER', 'many');
SELECT clairon.watch('json_targets', 'USER', 'fine'), clairon.watch('json_targets', 'USER', 'made', name => 'made');
DROP TABLE json_targets;
DROP DOMAIN ids;

-- row-level security policies do not apply to notifications
CREATE TABLE guarded (id int PRIMARY KEY, owner text);
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
SELECT clairon.watch('guarded', 'USER', 'owner');
ALTER TABLE guarded FORCE ROW LEVEL SECURITY;
INSERT INTO guarded VALUES (1, 'u1');
SELECT * FROM notes();
DROP TABLE guarded;

-- a rule that does not fit into a page is stored in several rows
SELECT clairon.watch('task', 'USER', '=' || (SELECT string_agg('user ' || i, ',') FROM generate_series(1, n) AS i),
                     name => 'long ' || n, only_when => 'id IN (' || (SELECT string_agg(i::text, ', ') FROM generate_series(1, n) AS i) || ')')
FROM unnest('{100,200,500,5000}'::int[]) AS n;
SELECT name, length(targets), md5(targets) = md5('=' || (SELECT string_agg('user ' || i, ',')
                                                         FROM generate_series(1, substr(name, 6)::int) AS i)) AS same,
       only_when = '(id = ANY (ARRAY[' || (SELECT string_agg(i::text, ', ') FROM generate_series(1, substr(name, 6)::int) AS i) || ']))' AS same_too
FROM clairon.rules WHERE name LIKE 'long%' ORDER BY name;
SELECT name, count(*) FROM clairon.rule GROUP BY name ORDER BY 1;
SELECT detail FROM clairon.doctor() WHERE check_name = 'rules';
INSERT INTO task VALUES (1, 'u', NULL, 'x'), (150, 'u', NULL, 'x'), (5000, 'u', NULL, 'x'), (5001, 'u', NULL, 'x');
SELECT payload::json #>> '{after,id}' AS id, md5(targets) = md5(format('USER[%s]', (SELECT string_agg(format('"user %s"', i), ',')
           FROM generate_series(1, n) AS i))) AS same, n
FROM notes(), LATERAL (SELECT (regexp_match(targets, '(\d+)"\]$'))[1]::int AS n) AS last ORDER BY 1, n;
SELECT clairon.watch('task', 'USER', '=short', name => 'long 5000');
SELECT clairon.unwatch('task', 'long 500'), clairon.unwatch('task');
SELECT count(*) FROM clairon.rule;

-- the names of the columns do not fit into a page
DO $$
BEGIN
    EXECUTE format('CREATE TABLE wide (%s)', (SELECT string_agg('column_number_' || i || ' int', ', ')
                                              FROM generate_series(1, 1600) AS i));
END $$;
SELECT clairon.watch('wide', 'ALL', columns => (SELECT array_agg('column_number_' || i) FROM generate_series(1, 1600) AS i));
SELECT clairon.watch('wide', 'ALL', columns => (SELECT array_agg('column_number_' || i) FROM generate_series(1, 1600) AS i),
                     only_when => 'column_number_1 > 0');
SELECT clairon.watch('wide', 'ALL', name => 'some', columns => (SELECT array_agg('column_number_' || i) FROM generate_series(1, 200) AS i));
INSERT INTO wide (column_number_2) VALUES (1);
SELECT length(payload) FROM notes();
CREATE TABLE kept AS TABLE clairon.rule;
DELETE FROM clairon.rule;
INSERT INTO clairon.rule TABLE kept;
INSERT INTO wide (column_number_2) VALUES (1);
SELECT length(payload) FROM notes();
DROP TABLE wide, kept;

-- views, indexes, and foreign, temporary, unlogged and system tables cannot be watched
CREATE VIEW a_view AS SELECT 1 AS x;
CREATE MATERIALIZED VIEW a_matview AS SELECT 1 AS x;
CREATE UNLOGGED TABLE an_unlogged (x text);
CREATE TEMP TABLE a_temporary (x text);
CREATE FOREIGN DATA WRAPPER wrapper;
CREATE SERVER server FOREIGN DATA WRAPPER wrapper;
CREATE FOREIGN TABLE a_foreign (x text) SERVER server;
SELECT clairon.watch('a_view', 'ALL');
SELECT clairon.watch('a_matview', 'ALL');
SELECT clairon.watch('an_unlogged', 'ALL');
SELECT clairon.watch('a_temporary', 'ALL');
SELECT clairon.watch('a_foreign', 'ALL');
SELECT clairon.watch('pg_class', 'ALL');
SELECT clairon.watch('task_pkey', 'ALL');
SELECT clairon.watch('clairon.member', 'ALL');
SELECT clairon.watch(0, 'ALL');
SELECT clairon.watch(NULL, 'ALL');

TRUNCATE clairon.rule;
TRUNCATE clairon.member;
INSERT INTO clairon.member VALUES ('USER', 'u1', 'u1');
INSERT INTO clairon.member VALUES ('ROLE', 'admin', repeat('x', 256));
SELECT count(*) FROM clairon.rules;
DROP TABLE task;
DROP SERVER server CASCADE;
DROP FOREIGN DATA WRAPPER wrapper;
SELECT * FROM lines();
