-- After the type of a target column changed to one that watch rejects, rows are denied.
CREATE TABLE doc (id int PRIMARY KEY, who text, readers text[]);
ALTER TABLE doc REPLICA IDENTITY FULL;
SELECT clairon.watch('doc', 'USER', 'who');
SELECT clairon.watch('doc', 'ROLE', 'readers', name => 'readers');
INSERT INTO doc VALUES (1, '"u1"', '{"\"r1\""}');
SELECT operation, targets FROM notes();
ALTER TABLE doc ALTER who TYPE jsonb USING who::jsonb;
INSERT INTO doc VALUES (2, '"u2"', '{"\"r2\""}');
UPDATE doc SET id = 3 WHERE id = 2;
DELETE FROM doc WHERE id = 3;
SELECT operation, targets FROM notes();
SELECT check_name, ok, detail FROM clairon.doctor() WHERE check_name LIKE 'rule %';
-- the rejected type in a domain, in an array
CREATE DOMAIN one AS json;
ALTER TABLE doc ALTER readers TYPE one[] USING readers::one[];
INSERT INTO doc VALUES (4, '"u4"', '{"\"r4\""}');
SELECT operation, targets FROM notes();
-- after a change to a valid type, rows are delivered again
ALTER TABLE doc ALTER who TYPE text USING who #>> '{}';
INSERT INTO doc VALUES (5, 'u5', NULL);
SELECT operation, targets FROM notes();
DROP TABLE doc;
DROP DOMAIN one;
SELECT count(*) FROM clairon.rule;
