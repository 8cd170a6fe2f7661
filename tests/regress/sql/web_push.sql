-- What a Web Push shows: literals and columns of a rule, the text of a message, errors that name the parameter, privileges.
\set SHOW_CONTEXT never
CREATE FUNCTION frame_number(bytes bytea, at int, size int) RETURNS int LANGUAGE sql AS $$
    SELECT ('x' || lpad(encode(substr(bytes, at + 1, size), 'hex'), 8, '0'))::bit(32)::int
$$;
CREATE FUNCTION pushes() RETURNS TABLE (operation int, web_push text) LANGUAGE plpgsql AS $$
DECLARE
    bytes bytea;
    at int;
BEGIN
    FOR bytes IN SELECT data FROM pg_logical_slot_get_binary_changes('regress', NULL, NULL, 'mode', 'framed') LOOP
        WHILE length(bytes) > 0 LOOP
            IF get_byte(bytes, 4) = ascii('N') THEN
                at := 104 + frame_number(bytes, 64, 2) + frame_number(bytes, 66, 2) + frame_number(bytes, 92, 2) + frame_number(bytes, 68, 4);
                operation := get_byte(bytes, 58);
                web_push := CASE WHEN get_byte(bytes, 6) & 1 <> 0
                                 THEN convert_from(substr(bytes, at + 3, frame_number(bytes, at, 2)), 'UTF8') END;
                RETURN NEXT;
            END IF;
            bytes := substr(bytes, frame_number(bytes, 0, 4) + 1);
        END LOOP;
    END LOOP;
END $$;
CREATE TABLE grade (id int PRIMARY KEY, who text, subject text, body text, url text, unread int, remark json);
SELECT count(*) FROM pg_logical_slot_get_changes('regress', NULL, NULL);
SELECT clairon.watch('grade', 'USER', 'who', type => 'NOTIFICATION',
    web_push => '{"title":"=New \"grade\"", "body":":subject", "url":":url", "app_badge":":unread", "icon":null, "collapse":"=grades"}');
SELECT web_push FROM clairon.rules WHERE relation = 'grade'::regclass;
SELECT column_names FROM clairon.rule WHERE relation = 'grade'::regclass;
INSERT INTO grade VALUES (1, 'u1', E'Maths \\ é', NULL, '/a', 3), (2, 'u1', NULL, NULL, NULL, NULL), (3, 'u1', '', NULL, '', -1),
    (4, 'u1', NULL, NULL, NULL, 2000000000), (5, NULL, 'nobody', NULL, NULL, NULL);
SELECT * FROM pushes();
-- recipients do not receive it
INSERT INTO grade VALUES (6, 'u1', 'Maths');
SELECT data LIKE '%New %' FROM pg_logical_slot_get_changes('regress', NULL, NULL);

-- a title from a column: null, empty, long, not in the WAL
SELECT clairon.watch('grade', 'USER', 'who', type => 'SYSTEM', operations => '{create,update,delete}',
    web_push => '{"title":":body", "body":":remark", "lang":"=fr", "dir":"=auto", "badge":":subject"}');
ALTER TABLE grade ALTER body SET STORAGE EXTERNAL;
INSERT INTO grade VALUES (10, 'u1', NULL, NULL), (11, 'u1', NULL, ''), (12, 'u1', NULL, 'Maths');
INSERT INTO grade (id, who, body, remark) VALUES (13, 'u1', repeat('é', 5000), '{"a": 1}');
INSERT INTO grade (id, who, body, subject) VALUES (14, 'u1', 'too long', repeat('x', 9000));
SELECT operation, length(web_push), left(web_push, 40), right(web_push, 40) FROM pushes();
UPDATE grade SET unread = 1 WHERE id = 13;
DELETE FROM grade WHERE id = 13;
SELECT operation, length(web_push) FROM pushes();
-- a delete uses the old row
ALTER TABLE grade REPLICA IDENTITY FULL;
UPDATE grade SET unread = 1 WHERE id = 12;
UPDATE grade SET who = 'u2', body = 'Secret' WHERE id = 12;
DELETE FROM grade WHERE id = 12;
SELECT * FROM pushes();
-- a rule follows renamed columns; a dropped one is left out
SELECT clairon.watch('grade', 'USER', 'who', type => 'NOTIFICATION', web_push => '{"title":":body", "body":":subject"}');
ALTER TABLE grade RENAME body TO headline;
ALTER TABLE grade DROP COLUMN subject;
SELECT web_push FROM clairon.rules WHERE relation = 'grade'::regclass;
SELECT detail, hint FROM clairon.doctor() WHERE check_name LIKE 'rule default on %grade' AND NOT ok;
INSERT INTO grade (id, who, headline) VALUES (20, 'u1', 'Maths');
SELECT * FROM pushes();
ALTER TABLE grade DROP COLUMN headline;
SELECT detail, hint FROM clairon.doctor() WHERE check_name LIKE 'rule default on %grade' AND NOT ok;
INSERT INTO grade (id, who) VALUES (21, 'u1');
SELECT * FROM pushes();

-- a restored rule has the columns of its names
SELECT clairon.watch('grade', 'USER', 'who', type => 'NOTIFICATION', web_push => '{"title":":url", "app_badge":":unread"}');
CREATE TEMP TABLE dumped AS SELECT * FROM clairon.rule WHERE relation = 'grade'::regclass;
SELECT clairon.unwatch('grade');
ALTER TABLE grade DROP COLUMN url;
ALTER TABLE grade ADD COLUMN url text;
INSERT INTO clairon.rule SELECT * FROM dumped;
SELECT web_push FROM clairon.rules WHERE relation = 'grade'::regclass;
INSERT INTO grade (id, who, url) VALUES (30, 'u1', 'restored');
SELECT * FROM pushes();

-- messages
SELECT clairon.notify('USER', '{u1}', '{}', web_push => '{"title": "New \u00e9\n", "app_badge": 0, "body": null}') IS NOT NULL;
SELECT * FROM pushes();
SELECT clairon.notify('STRUCTURE', '{s1}', '{"a": 1}', type => 'SYSTEM', ack_required => true, ack_timeout => '1 s', receipts => 'user',
    escalate_after => '1 h', web_push => '{"title":"x"}') IS NOT NULL;
SELECT * FROM pushes();

-- invalid values
\set rule 'clairon.watch(''grade'', ''USER'', ''who'', type => ''NOTIFICATION'', web_push =>'
SELECT :rule 'title');
SELECT :rule '["title"]');
SELECT :rule '');
SELECT :rule '{"title":"=\u0000"}');
SELECT :rule '{}');
SELECT :rule '{"title":null}');
SELECT :rule '{"title":"=x","silent":"=true"}');
SELECT :rule '{"title":"=x","title":"=y"}');
SELECT :rule '{"title":"x"}');
SELECT :rule '{"title":7}');
SELECT :rule '{"title":"="}');
SELECT :rule '{"title":":nosuch"}');
SELECT :rule '{"title":":"}');
SELECT :rule '{"title":"=x","dir":"=up"}');
SELECT :rule '{"title":"=x","app_badge":"=-1"}');
SELECT :rule '{"title":"=x","app_badge":3}');
SELECT :rule '{"title":"=x","app_badge":":who"}');
SELECT :rule '{"title":"=' || repeat('x', 2001) || '"}');
SELECT :rule '{"title":"=' || repeat('x', 9000) || '"}');
SELECT clairon.watch('grade', 'USER', 'who', web_push => '{"title":"=x"}');
SELECT clairon.watch('grade', 'ALL', type => 'NOTIFICATION', web_push => '{"title":"=x"}');
SELECT clairon.notify('USER', '{u1}', '{}', type => 'REALTIME', web_push => '{"title":"x"}');
SELECT clairon.notify('ALL', NULL, '{}', web_push => '{"title":"x"}');
SELECT clairon.notify('USER', '{u1}', '{}', web_push => '{"body":"x"}');
SELECT clairon.notify('USER', '{u1}', '{}', web_push => '{"title":""}');
SELECT clairon.notify('USER', '{u1}', '{}', web_push => '{"title":"x","url":{}}');
SELECT clairon.notify('USER', '{u1}', '{}', web_push => '{"title":"x","app_badge":"3"}');
SELECT clairon.notify('USER', '{u1}', '{}', web_push => '{"title":"x","app_badge":1.5}');
SELECT clairon.notify('USER', '{u1}', '{}', web_push => '{"title":"x","app_badge":1000000001}');
SELECT clairon.notify('USER', '{u1}', '{}', web_push => '{"title":"x","dir":"up"}');
SELECT clairon.notify('USER', '{u1}', '{}', web_push => '{"title":"x","vibrate":"x"}');
-- an owner outside clairon_app cannot use it
CREATE ROLE push_owner;
CREATE SCHEMA push AUTHORIZATION push_owner;
SET ROLE push_owner;
CREATE TABLE push.t (id int PRIMARY KEY, who text);
SELECT clairon.watch('push.t', 'USER', 'who', type => 'NOTIFICATION', web_push => '{"title":"=x"}');
SELECT clairon.watch('push.t', 'USER', 'who', type => 'NOTIFICATION');
SELECT web_push FROM clairon.rules;
RESET ROLE;
DROP SCHEMA push CASCADE;
DROP ROLE push_owner;
DROP TABLE grade;
DROP FUNCTION pushes, number;
