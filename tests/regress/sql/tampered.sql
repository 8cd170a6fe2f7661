-- If tables of the extension are altered, unreadable rules send no notifications, and the slot advances.
\set SHOW_CONTEXT never
CREATE TABLE t (id int PRIMARY KEY, v text);
SELECT clairon.watch('t', 'ALL');
CREATE FUNCTION framed() RETURNS TABLE (kinds text) LANGUAGE sql AS $$
    SELECT string_agg(substr(encode(data, 'escape'), length(encode(substr(data, 1, 4), 'escape')) + 1, 1), '')
    FROM pg_logical_slot_get_binary_changes('regress', NULL, NULL, 'mode', 'framed')
$$;
ALTER TABLE clairon.rule SET (user_catalog_table = false);
INSERT INTO t VALUES (1, 'not read');
ALTER TABLE clairon.rule SET (user_catalog_table = true);
INSERT INTO t VALUES (2, 'read');
ALTER TABLE clairon.rule ADD COLUMN more int DEFAULT 1;
INSERT INTO t VALUES (3, 'read');
ALTER TABLE clairon.rule DROP COLUMN more;
INSERT INTO t VALUES (4, 'read');
ALTER TABLE clairon.rule RENAME name TO other;
INSERT INTO t VALUES (5, 'read');
ALTER TABLE clairon.rule RENAME other TO name;
SELECT payload FROM notes();
-- rows that violate dropped constraints
BEGIN;
ALTER TABLE clairon.rule DROP CONSTRAINT rule_type_check, ALTER emitter DROP NOT NULL;
UPDATE clairon.rule SET type = 30000;
INSERT INTO t VALUES (6, 'not sent');
UPDATE clairon.rule SET type = 0, emitter = NULL;
INSERT INTO t VALUES (7, 'not sent');
UPDATE clairon.rule SET emitter = 'clairon';
INSERT INTO t VALUES (8, 'sent');
ALTER TABLE clairon.rule ADD CONSTRAINT rule_type_check CHECK (type BETWEEN 0 AND 2), ALTER emitter SET NOT NULL;
COMMIT;
SELECT payload FROM notes();
-- a condition without the numbers of its columns does not follow renames
CREATE TYPE level AS ENUM ('low', 'high');
CREATE TABLE levels (id int PRIMARY KEY, level level);
SELECT clairon.watch('levels', 'ALL', only_when => $$level = 'low'$$);
ALTER TABLE clairon.rule DISABLE TRIGGER bind_columns;
UPDATE clairon.rule SET column_numbers = NULL WHERE relation = 'levels'::regclass;
ALTER TABLE clairon.rule ENABLE ALWAYS TRIGGER bind_columns;
ALTER TYPE level RENAME VALUE 'low' TO 'lowest';
SELECT only_when FROM clairon.rule WHERE relation = 'levels'::regclass;
DROP TABLE levels;
DROP TYPE level;
-- a ttl with a field that exceeds the range of timestamps
UPDATE clairon.rule SET ttl = '292270 years -105216200 days';
INSERT INTO t VALUES (9, 'with the last expiration there is');
UPDATE clairon.rule SET ttl = NULL;
SELECT clairon_internal.emit(gen_random_uuid(), 'ALL', '{}', '{"n": 1}', 0::int2, 0::int2, 's', NULL, 'e',
                    '292270 years -105216200 days', false, 0, 0::int2);
SELECT data::json #>> '{metadata,expiration}' AS expiration FROM pg_logical_slot_get_changes('regress', NULL, NULL);
-- a table with more rules than sub-ordinals
CREATE TABLE many (id int);
SELECT clairon.watch('many', 'ALL');
INSERT INTO clairon.rule (relation, name, audience, type, priority, operations, emitter, ack_required, retry_limit, backoff)
SELECT relation, 'r' || i, audience, type, priority, operations, emitter, ack_required, retry_limit, backoff
FROM clairon.rule, generate_series(1, 16400) AS i WHERE relation = 'many'::regclass;
INSERT INTO many VALUES (1);
SELECT count(*) FROM notes();
DROP TABLE many;
-- emit rejects messages that notify would not send
SELECT clairon_internal.emit(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT clairon_internal.emit(gen_random_uuid(), 'ALL', '{}', '{}', 30000::int2, 0::int2, '', NULL, '', NULL, false, 0, 0::int2);

-- the trigger function rejects other events
CREATE TRIGGER by_statement AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION clairon_internal.rule_written();
INSERT INTO t VALUES (10, 'not written');
DROP TRIGGER by_statement ON t;

ALTER TABLE clairon.secret SET (user_catalog_table = false);
SELECT clairon.notify('USER', '{u1}', '{"secret": "not read"}') IS NOT NULL;
ALTER TABLE clairon.secret SET (user_catalog_table = true);
SELECT clairon.notify('USER', '{u1}', '{"secret": "read"}') IS NOT NULL;
SELECT payload FROM notes();

INSERT INTO clairon.member VALUES ('ROLE', 'r', 'u1');
ALTER TABLE clairon.member RENAME target TO renamed;
INSERT INTO clairon.member VALUES ('ROLE', 'r2', 'u2');
ALTER TABLE clairon.member RENAME renamed TO target;
ALTER TABLE clairon.member DROP CONSTRAINT member_user_id_check;
-- a TOASTed string that is already deleted when the change is decoded
ALTER TABLE clairon.member ALTER user_id SET STORAGE EXTERNAL;
INSERT INTO clairon.member SELECT 'ROLE', 'long', repeat('u', 2400);
UPDATE clairon.member SET target = 'longer' WHERE target = 'long';
DELETE FROM clairon.member WHERE target = 'longer';
VACUUM clairon.member;
ALTER TABLE clairon.member ALTER user_id TYPE int USING length(target) + length(user_id);
INSERT INTO clairon.member VALUES ('ROLE', 'r', 9);
ALTER TABLE clairon.member ALTER user_id TYPE text;
ALTER TABLE clairon.member ADD CONSTRAINT member_user_id_check CHECK (octet_length(user_id) BETWEEN 1 AND 255);
INSERT INTO clairon.member VALUES ('ROLE', 'r', 'u4');
SELECT * FROM framed();
ALTER TABLE clairon.member REPLICA IDENTITY NOTHING;
SELECT ok, detail FROM clairon.doctor() WHERE check_name = 'table clairon.member';
UPDATE clairon.member SET user_id = 'u5' WHERE user_id = 'u4';
DELETE FROM clairon.member WHERE user_id = 'u5';
SELECT * FROM framed();
ALTER TABLE clairon.member REPLICA IDENTITY FULL;
SELECT ok, detail FROM clairon.doctor() WHERE check_name = 'table clairon.member';
ALTER TABLE clairon.member REPLICA IDENTITY DEFAULT;
SELECT ok FROM clairon.doctor() WHERE check_name = 'table clairon.member';
DELETE FROM clairon.member WHERE audience = 'ROLE';
DELETE FROM clairon.rule;
DROP TABLE t;
DROP FUNCTION framed();
SELECT count(*) FROM notes();
