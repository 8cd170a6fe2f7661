-- eportfolio.sql: notifications about assignments, establishments and their members.
-- Requires CREATE EXTENSION clairon. Can be run again: existing objects are unchanged.

SET client_min_messages = warning;
BEGIN;

-- A person has one role, the same in each establishment.
CREATE TABLE IF NOT EXISTS person (
    id   text PRIMARY KEY,
    name text NOT NULL,
    role text NOT NULL DEFAULT 'user' CHECK (role IN ('user', 'admin'))
);

CREATE TABLE IF NOT EXISTS establishments (
    id   text PRIMARY KEY,
    name text NOT NULL
);

CREATE TABLE IF NOT EXISTS members (
    establishment_id text NOT NULL REFERENCES establishments,
    user_id          text NOT NULL REFERENCES person,
    role             text NOT NULL CHECK (role IN ('student', 'teacher', 'staff')),
    PRIMARY KEY (establishment_id, user_id)
);

CREATE TABLE IF NOT EXISTS assignments (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    student_id text NOT NULL REFERENCES person,
    title      text NOT NULL,
    status     text NOT NULL DEFAULT 'draft'
               CHECK (status IN ('draft', 'submitted', 'reviewed', 'graded')),
    grade      numeric(4, 1) CHECK (grade BETWEEN 0 AND 20)
);

-- The relay uses this index to read the rows of a student.
CREATE INDEX IF NOT EXISTS assignments_student ON assignments (student_id);

-- for_role limits an announcement to members of the establishment with that role.
CREATE TABLE IF NOT EXISTS announcements (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    establishment_id text NOT NULL REFERENCES establishments,
    for_role         text CHECK (for_role IN ('user', 'admin')),
    author           text NOT NULL,
    title            text NOT NULL CHECK (title <> ''),
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- FULL: notifications contain the old values, including the user of a deleted or moved row.
ALTER TABLE assignments REPLICA IDENTITY FULL;
ALTER TABLE members REPLICA IDENTITY FULL;
ALTER TABLE announcements REPLICA IDENTITY FULL;

-- Keeps the groups of kind STRUCTURE in sync with the table of members. A BEFORE trigger changes the group
-- before the row, so a new member receives the notification about the membership and a former member
-- does not. SECURITY DEFINER: writers of the table need no privileges on clairon.member.
CREATE OR REPLACE FUNCTION member_to_audience() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND (OLD.establishment_id, OLD.user_id)
                                                <> (NEW.establishment_id, NEW.user_id) THEN
        DELETE FROM clairon.member
         WHERE audience = 'STRUCTURE' AND target = OLD.establishment_id AND user_id = OLD.user_id;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    INSERT INTO clairon.member (audience, target, user_id)
    VALUES ('STRUCTURE', NEW.establishment_id, NEW.user_id)
    ON CONFLICT DO NOTHING;
    RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER member_to_audience BEFORE INSERT OR UPDATE OR DELETE ON members
    FOR EACH ROW EXECUTE FUNCTION member_to_audience();

-- Keeps the ROLE groups in sync with the table of persons, in the same way.
CREATE OR REPLACE FUNCTION person_to_audience() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM clairon.member
         WHERE audience = 'ROLE' AND target = OLD.role AND user_id = OLD.id;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    INSERT INTO clairon.member (audience, target, user_id) VALUES ('ROLE', NEW.role, NEW.id)
    ON CONFLICT DO NOTHING;
    RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER person_to_audience BEFORE INSERT OR UPDATE OF id, role OR DELETE ON person
    FOR EACH ROW EXECUTE FUNCTION person_to_audience();

INSERT INTO person (id, name, role)
VALUES ('u1', 'Ana Lima', 'user'), ('u2', 'Bruno Costa', 'user'), ('u3', 'Chloé Martin', 'user'),
       ('u4', 'David Petit', 'user'), ('admin', 'Irène Moreau', 'admin')
ON CONFLICT DO NOTHING;

INSERT INTO establishments (id, name)
VALUES ('s1', 'Université du Port'), ('s2', 'Institut des Arts')
ON CONFLICT DO NOTHING;

INSERT INTO members (establishment_id, user_id, role)
VALUES ('s1', 'u1', 'student'), ('s1', 'u2', 'student'), ('s1', 'admin', 'staff'),
       ('s2', 'u3', 'student'), ('s2', 'u4', 'student'), ('s2', 'admin', 'staff')
ON CONFLICT DO NOTHING;

INSERT INTO assignments (student_id, title)
SELECT student_id, title
  FROM (VALUES ('u1', 'Internship report'), ('u1', 'Reflective journal'),
               ('u2', 'Case study'), ('u2', 'Internship report'),
               ('u3', 'Portrait series'), ('u3', 'Exhibition plan'),
               ('u4', 'Sound piece'), ('u4', 'Reflective journal')) AS seed (student_id, title)
 WHERE NOT EXISTS (SELECT FROM assignments);

-- Rules are set last, so that the initial rows send no notifications.

-- Real time: a student's page reads the student's assignments, and receives each of their changes.
SELECT clairon.watch('assignments', 'USER', 'student_id', live => true);

-- System: a change of access control is sent to the whole establishment, before other
-- notifications. Its members can read the list of members.
SELECT clairon.watch('members', 'STRUCTURE', 'establishment_id',
                     type => 'SYSTEM', priority => 'HIGH', live => true);

-- Former members are no longer in that group: a second rule notifies them by their user id.
SELECT clairon.watch('members', 'USER', 'user_id', name => 'person',
                     type => 'SYSTEM', priority => 'HIGH', operations => '{delete}');

-- Notification: an announcement stays pending until each member has acknowledged it. Its emitter is
-- its author, and it is sent again to members who have not acknowledged it within a minute.
SELECT clairon.watch('announcements', 'STRUCTURE', 'establishment_id', only_when => 'for_role IS NULL',
                     type => 'NOTIFICATION', operations => '{create}', emitter => ':author',
                     ttl => '1 day', ack_required => true, ack_timeout => '1 minute');

-- An announcement for a role, such as the administrators of an establishment, reaches the users who
-- have both the membership and the role. If for_role is NULL, this rule has no target and sends nothing.
SELECT clairon.watch('announcements', 'STRUCTURE+ROLE', 'establishment_id+for_role', name => 'role',
                     type => 'NOTIFICATION', operations => '{create}', emitter => ':author',
                     ttl => '1 day', ack_required => true, ack_timeout => '1 minute');

COMMIT;
