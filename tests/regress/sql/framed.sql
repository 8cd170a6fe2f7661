-- Frames, decoded by the layout in decoder/protocol/frame_format.h.
CREATE FUNCTION number(bytes bytea, at int, size int) RETURNS bigint LANGUAGE sql AS $$
    SELECT ('x' || lpad(encode(substr(bytes, at + 1, size), 'hex'), 16, '0'))::bit(64)::bigint
$$;
CREATE FUNCTION texts(bytes bytea, at int, size int) RETURNS text LANGUAGE sql AS $$
    SELECT convert_from(substr(bytes, at + 1, size), 'UTF8')
$$;
CREATE FUNCTION frames(VARIADIC options text[] DEFAULT '{}')
    RETURNS TABLE (packet bigint, kind text, frame bytea) LANGUAGE plpgsql AS $$
DECLARE
    bytes bytea;
BEGIN
    FOR packet, bytes IN
        SELECT row_number() OVER (), data
        FROM pg_logical_slot_get_binary_changes('regress', NULL, NULL, VARIADIC '{mode,framed}' || options)
    LOOP
        WHILE length(bytes) > 0 LOOP
            frame := substr(bytes, 1, number(bytes, 0, 4)::int);
            kind := texts(bytes, 4, 1);
            IF length(frame) < 24 OR number(frame, 5, 1) <> 1 THEN
                RAISE EXCEPTION 'broken frame';
            END IF;
            RETURN NEXT;
            bytes := substr(bytes, length(frame) + 1);
        END LOOP;
    END LOOP;
END $$;
CREATE VIEW shown AS
    SELECT packet, kind, number(frame, 6, 2) AS flags,
           number(frame, 16, 8) >> 16 AS change, number(frame, 16, 8) & 65535 AS sub,
           CASE kind WHEN 'N' THEN
               format('priority %s type %s operation %s backoff %s limit %s attempts %s expires %s',
                      number(frame, 56, 1), number(frame, 57, 1), number(frame, 58, 1),
                      number(frame, 59, 1), number(frame, 60, 2), number(frame, 62, 2),
                      CASE number(frame, 48, 8) WHEN 0 THEN 'never'
                           ELSE ((number(frame, 48, 8) - number(frame, 40, 8)) / 1000000)::text END)
           WHEN 'M' THEN
               texts(frame, 24, 1) || ' ' ||
               texts(frame, 40, number(frame, 26, 2)::int) || ' ' ||
               texts(frame, 40 + number(frame, 26, 2)::int, number(frame, 28, 2)::int) || ' ' ||
               texts(frame, (40 + number(frame, 26, 2) + number(frame, 28, 2))::int, number(frame, 30, 2)::int)
           END AS head,
           CASE kind WHEN 'N' THEN texts(frame, 104, number(frame, 64, 2)::int) END AS audience,
           CASE kind WHEN 'N' THEN
               texts(frame, (104 + number(frame, 64, 2))::int, number(frame, 66, 2)::int) END AS topic,
           CASE kind WHEN 'N' THEN number(frame, 72, 4) END AS targets,
           CASE kind WHEN 'N' THEN
               texts(frame, (104 + number(frame, 64, 2) + number(frame, 66, 2) + number(frame, 92, 2) + number(frame, 68, 4))::int,
                     2000000)::json END AS line,
           CASE kind WHEN 'N' THEN encode(substr(frame, 25, 16), 'hex')::uuid END AS id
    FROM frames();

CREATE TABLE f (id int PRIMARY KEY, who text[]);
SELECT clairon.watch('f', 'USER', 'who');
SELECT clairon.watch('f', 'ALL', name => 'all', type => 'SYSTEM', priority => 'LOW', backoff => 'FIXED',
                     ttl => '90 s', ack_required => true, retry_limit => 3, topic => 'own');
BEGIN;
INSERT INTO clairon.member VALUES ('STRUCTURE', 'é', 'u1'), ('STRUCTURE', 's1', 'u2');
INSERT INTO f VALUES (1, '{a,é}');
UPDATE clairon.member SET user_id = 'u3' WHERE user_id = 'u2';
DELETE FROM clairon.member WHERE user_id = 'u1';
COMMIT;
CREATE TABLE unwatched (id int);
INSERT INTO unwatched VALUES (1);
SELECT clairon.notify('USER', '{x}', '{"a": 1}') IS NOT NULL;
CREATE TABLE seen AS SELECT * FROM shown;
SELECT kind, flags, change, sub, head, audience, topic, targets FROM seen ORDER BY packet, change, sub;
-- the JSON has the same fields as the header
SELECT bool_and(line #>> '{metadata,id}' = id::text AND line #>> '{metadata,topic}' = topic
                AND line #>> '{routing,audience,type}' = audience
                AND json_array_length(line #> '{routing,audience,targets}') = targets)
FROM seen WHERE kind = 'N';

-- messages have about 64 kB; no message spans the end of a transaction; ordinals increase
INSERT INTO f SELECT i, '{a}' FROM generate_series(1000, 1999) AS i;
INSERT INTO f SELECT i, '{a}' FROM generate_series(2000, 2001) AS i;
ALTER TABLE f REPLICA IDENTITY FULL;
UPDATE f SET who = '{a,b}' WHERE id = 2000;
UPDATE f SET who = '{b,c}' WHERE id = 2000;
CREATE TABLE many AS SELECT row_number() OVER () AS place, * FROM frames();
SELECT kind, count(*) FROM many GROUP BY kind ORDER BY kind;
SELECT bool_and(size BETWEEN 40 AND 70000), count(*) BETWEEN 10 AND 40
FROM (SELECT sum(length(frame)) AS size FROM many GROUP BY packet) AS packets;
SELECT bool_and(grows) FROM (
    SELECT substr(frame, 9, 16) > lag(substr(frame, 9, 16)) OVER (ORDER BY place) IS NOT FALSE AS grows
    FROM many) AS steps;
SELECT count(DISTINCT substr(frame, 25, 16)) FROM many WHERE kind = 'N';
DROP VIEW shown;
DROP TABLE f, unwatched, seen, many;
DELETE FROM clairon.rule;
