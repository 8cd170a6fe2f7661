/* rows: the rows that live rules address to a user, and the snapshot they are read in. */

-- xmin:xmax:xip,xip.. of the calling statement's snapshot, also on a standby: see
-- decoder/sql/snapshot.c.
CREATE FUNCTION clairon.snapshot() RETURNS text
    LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'clairon_snapshot';
