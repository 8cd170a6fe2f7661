/* rows: the rows that live rules address to a user, and the snapshot they are read in. */

-- Returns xmin:xmax:xip,xip.. of the calling statement's snapshot, even on a standby. See
-- decoder/sql/user_rows.c.
CREATE FUNCTION clairon.snapshot() RETURNS text
    LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'clairon_snapshot';

-- Returns the rows that a live rule addresses to a user under the statement's snapshot, in the form
-- of payload.after. The rows are read with the privileges of the table's owner (see
-- decoder/sql/user_rows.h). `filter`, `sort` and `after` name columns of filter_columns, or of the key:
-- see decoder/sql/list_request.c. With a limit, more rows are no error.
CREATE FUNCTION clairon.rows(relation regclass, user_id text, name text DEFAULT 'default',
    groups jsonb DEFAULT '{}', max_rows int DEFAULT 10000, filter jsonb DEFAULT NULL,
    sort text[] DEFAULT NULL, after jsonb DEFAULT NULL, "limit" int DEFAULT NULL)
    RETURNS SETOF json LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'clairon_rows';

-- The variant of clairon.rows() for the relay. `source` is the metadata.source of the rule's
-- notifications. The first row is a header: the columns of the key, the snapshot, the audience, and
-- `judge`, the columns that a client may compare itself; with is_count the number of rows instead of
-- the rows. An empty string as the last row means that more rows match. The header is missing if no live
-- rule with this name can address the user. It is {"error":103,"text":..} if the request names a column that
-- it may not name, and {"error":107,"text":..} if it is invalid.
CREATE FUNCTION clairon.live_rows(source text, name text, user_id text, groups jsonb, max_rows int,
    max_bytes bigint, filter jsonb DEFAULT NULL, sort text[] DEFAULT NULL, after jsonb DEFAULT NULL,
    "limit" int DEFAULT NULL, is_count boolean DEFAULT NULL)
    RETURNS SETOF text LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'clairon_live_rows';

-- For barriers of the relay. Returns timeline:position:outcomes. The position in the WAL is behind
-- all commits that are visible to the statement, and flushed. The outcomes are a letter for each of the
-- comma-separated transaction ids; see decoder/sql/live_position.c.
CREATE FUNCTION clairon.live_position(xids text) RETURNS text
    LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'clairon_live_position';
