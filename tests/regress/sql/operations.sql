-- Each operation, by replica identity, with the old and new row in the payload.
CREATE TABLE item (id int PRIMARY KEY, "na""me" text, price numeric);
SELECT clairon.watch('item', 'ALL', operations => '{create,update,delete,truncate}');
INSERT INTO item VALUES (1, 'a', 1.50);
SELECT * FROM lines();

-- replica identity by key: `before` has the key columns with their old values
UPDATE item SET price = 2 WHERE id = 1;
UPDATE item SET id = 2 WHERE id = 1;
DELETE FROM item;
SELECT * FROM notes();

ALTER TABLE item REPLICA IDENTITY FULL;
INSERT INTO item VALUES (1, 'a', 1.50);
UPDATE item SET price = 2, "na""me" = NULL;
UPDATE item SET price = price;
DELETE FROM item;
SELECT * FROM notes();

ALTER TABLE item REPLICA IDENTITY NOTHING;
INSERT INTO item VALUES (1, 'a', 1.50);
UPDATE item SET price = 2;
DELETE FROM item;
SELECT * FROM notes();

CREATE UNIQUE INDEX item_name ON item ("na""me");
ALTER TABLE item ALTER "na""me" SET NOT NULL;
ALTER TABLE item REPLICA IDENTITY USING INDEX item_name;
INSERT INTO item VALUES (1, 'a', 1.50);
UPDATE item SET price = 2;
UPDATE item SET "na""me" = 'b';
DELETE FROM item;
SELECT * FROM notes();
ALTER TABLE item REPLICA IDENTITY DEFAULT;

-- COPY, truncate, savepoints, generated and dropped columns
COPY item FROM stdin;
10	x	\N
11	y	0
\.
TRUNCATE item;
BEGIN;
INSERT INTO item VALUES (20, 'kept', 1);
SAVEPOINT a;
INSERT INTO item VALUES (21, 'lost', 1);
ROLLBACK TO a;
INSERT INTO item VALUES (22, 'kept too', 1);
COMMIT;
SELECT * FROM notes();
ALTER TABLE item DROP COLUMN price;
ALTER TABLE item ADD COLUMN twice int GENERATED ALWAYS AS (id * 2) STORED;
ALTER TABLE item ADD COLUMN flag boolean DEFAULT true;
INSERT INTO item (id, "na""me") VALUES (30, 'new');
SELECT * FROM notes();

INSERT INTO item (id, "na""me") VALUES (40, 'to be renamed');
-- column names are literal; an update is not sent if the WAL shows that no named column changed
SELECT clairon.watch('item', 'ALL', columns => '{"na\"me"}');
ALTER TABLE item REPLICA IDENTITY FULL;
UPDATE item SET flag = false WHERE id = 40;
UPDATE item SET "na""me" = 'renamed' WHERE id = 40;
SELECT * FROM notes();

-- several rules send several notifications, each with a separate id; repeated decoding returns the same ids
SELECT clairon.watch('item', 'USER', '=u1', name => 'b', operations => '{delete}',
                     ttl => '1 hour', ack_required => true);
DELETE FROM item WHERE id IN (22, 40);
CREATE TABLE first_read AS
    SELECT data::json #>> '{metadata,id}' AS id
    FROM pg_logical_slot_peek_changes('regress', NULL, NULL);
SELECT count(*), count(DISTINCT id) FROM first_read;
SELECT count(*) FROM first_read
JOIN pg_logical_slot_peek_changes('regress', NULL, NULL, 'topic_prefix', 'other') AS line
    ON line.data::json #>> '{metadata,id}' = first_read.id;
SELECT * FROM lines();
DROP TABLE item, first_read;
SELECT * FROM lines();
