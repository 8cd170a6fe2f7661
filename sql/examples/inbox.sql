-- inbox.sql: an inbox: entries that a user reads on any device, with an unread count.
-- Requires eportfolio.sql. Can be run again: existing objects are unchanged.
--
-- The inbox is a table of the application. clairon only keeps the list of each page up to date, so the same
-- table is also the history, the search and the export.

SET client_min_messages = warning;
BEGIN;

CREATE TABLE IF NOT EXISTS inbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    text NOT NULL REFERENCES person ON DELETE CASCADE,
    kind       text NOT NULL CHECK (kind IN ('announcement', 'grade')),
    text       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    read_at    timestamptz
);

-- The relay uses this index to read the rows of a user.
CREATE INDEX IF NOT EXISTS inbox_user ON inbox (user_id);

ALTER TABLE inbox REPLICA IDENTITY FULL;

-- A user receives no entries of a kind that the user has muted.
CREATE TABLE IF NOT EXISTS muted (
    user_id text NOT NULL REFERENCES person ON DELETE CASCADE,
    kind    text NOT NULL CHECK (kind IN ('announcement', 'grade')),
    PRIMARY KEY (user_id, kind)
);

-- Adds an entry for each of these users, except those who have muted its kind.
CREATE OR REPLACE FUNCTION add_to_inbox(users text[], kind text, text text) RETURNS void
LANGUAGE sql SET search_path = public, pg_temp AS $$
    INSERT INTO inbox (user_id, kind, text)
    SELECT recipient, $2, $3
      FROM unnest($1) AS recipient
     WHERE NOT EXISTS (SELECT FROM muted WHERE muted.user_id = recipient AND muted.kind = $2)
$$;

CREATE OR REPLACE FUNCTION grade_to_inbox() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM add_to_inbox(ARRAY[NEW.student_id], 'grade', format('%s: %s of 20', NEW.title, NEW.grade));
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER grade_to_inbox AFTER UPDATE OF grade ON assignments
    FOR EACH ROW WHEN (NEW.grade IS NOT NULL AND NEW.grade IS DISTINCT FROM OLD.grade)
    EXECUTE FUNCTION grade_to_inbox();

CREATE OR REPLACE FUNCTION announcement_to_inbox() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM add_to_inbox(array_agg(members.user_id), 'announcement', NEW.title)
       FROM members
       JOIN person ON person.id = members.user_id
      WHERE members.establishment_id = NEW.establishment_id
        AND (NEW.for_role IS NULL OR person.role = NEW.for_role);
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER announcement_to_inbox AFTER INSERT ON announcements
    FOR EACH ROW EXECUTE FUNCTION announcement_to_inbox();

-- Each page of a user has the same list, and receives each change of it.
SELECT clairon.watch('inbox', 'USER', 'user_id', live => true);

COMMIT;
