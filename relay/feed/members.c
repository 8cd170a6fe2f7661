/* members.c: the initial copy of clairon.member, for a store without progress. */
#include "feed/feed_private.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"

/* After a completed copy, the progress is at least (0, FRAME_ORDINAL_COMMIT). */
bool
feed_needs_members(const struct feed *feed)
{
    char copied[FRAME_POSITION_TEXT + 1];

    frame_position_text(0, FRAME_ORDINAL_COMMIT, copied);
    return strcmp(feed->batch.sent_position, copied) < 0;
}

/*
 * In a database that is not UTF-8, a value without an equivalent in UTF-8 would fail every copy.
 * clairon.utf8() converts values as the decoder does. Hex protects the result from a second
 * conversion.
 */
static const char *
query(const struct feed *feed)
{
    const char *encoding = PQparameterStatus(feed->connection.conn, "server_encoding");

    if (encoding == NULL || strcmp(encoding, "UTF8") == 0)
        return "SELECT audience, target, user_id FROM clairon.member";
    return "SELECT pg_catalog.encode(clairon.utf8(audience), 'hex'),"
           " pg_catalog.encode(clairon.utf8(target), 'hex'),"
           " pg_catalog.encode(clairon.utf8(user_id), 'hex'), true FROM clairon.member";
}

/*
 * The copy starts after the slot exists, so every later change arrives through the slot. Changes
 * between the slot's start and the copy arrive twice, which is harmless: each change sets a
 * membership, and the last change of a row agrees with the copy.
 */
void
feed_copy_members(struct feed *feed)
{
    uint64_t lsn = 0;

    feed->copy.rows = 0;
    feed->copy.ordinal = 0;
    if (feed->batch.sent_position[0] != '\0' &&
        frame_position_parse(feed->batch.sent_position, strlen(feed->batch.sent_position), &lsn,
                             &feed->copy.ordinal) != RC_OK) {
        feed_restart(feed, "invalid progress of the slot in the store",
                     LOG_TEXT("position", feed->batch.sent_position));
        return;
    }
    if (PQsendQuery(feed->connection.conn, query(feed)) != 1 ||
        PQsetSingleRowMode(feed->connection.conn) != 1) {
        feed_restart(feed, "could not query clairon.member",
                     LOG_TEXT("error", postgres_error_line(PQerrorMessage(feed->connection.conn))));
        return;
    }
    feed_set_state(feed, FEED_COPYING);
    feed->resume_reading = feed_on_member_rows;
    feed_flush_socket(feed);
}

/* Leaves the LSN at 0, so that copied members sort before all WAL. */
static void
put_common(unsigned char *frame, char kind, size_t len, uint64_t ordinal)
{
    bytes_put_u32(frame + FRAME_AT_LENGTH, (uint32_t)len);
    frame[FRAME_AT_KIND] = (unsigned char)kind;
    frame[FRAME_AT_VERSION] = FRAME_VERSION;
    bytes_put_u64(frame + FRAME_AT_ORDINAL, ordinal);
}

static unsigned char
hex_value(char digit)
{
    return (unsigned char)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

/* Returns the end of the written bytes. */
static unsigned char *
put_text(unsigned char *out, const char *text, size_t len, bool is_hex)
{
    if (!is_hex) {
        memcpy(out, text, len);
        return out + len;
    }
    for (size_t i = 0; i < len; i++, text += 2)
        *out++ = (unsigned char)(hex_value(text[0]) << 4 | hex_value(text[1]));
    return out;
}

/* Encodes a row as a member frame, so that copy and stream share one code path. */
static void
handle_row(struct feed *feed, const PGresult *row)
{
    size_t lens[3];
    size_t total = FRAME_MEMBER_HEAD_SIZE;
    bool is_hex = PQnfields(row) > 3;
    unsigned char *frame, *out;

    for (int i = 0; i < 3; i++) {
        lens[i] = (size_t)PQgetlength(row, 0, i) / (is_hex ? 2 : 1);
        if (lens[i] > FRAME_MEMBER_TEXT_MAX) {
            log_warn("feed", "row of clairon.member too long, skipped",
                     LOG_INT("limit_bytes", FRAME_MEMBER_TEXT_MAX));
            return;
        }
        total += lens[i];
    }
    frame = memory_new(total);
    feed->copy.rows++;
    put_common(frame, FRAME_KIND_MEMBER, total, ++feed->copy.ordinal);
    frame[FRAME_MEMBER_AT_CHANGE] = '+';
    bytes_put_u16(frame + FRAME_MEMBER_AT_AUDIENCE_LEN, (uint16_t)lens[0]);
    bytes_put_u16(frame + FRAME_MEMBER_AT_TARGET_LEN, (uint16_t)lens[1]);
    bytes_put_u16(frame + FRAME_MEMBER_AT_USER_LEN, (uint16_t)lens[2]);
    out = frame + FRAME_MEMBER_HEAD_SIZE;
    for (int i = 0; i < 3; i++)
        out = put_text(out, PQgetvalue(row, 0, i), lens[i], is_hex);
    (void)feed_stream_receive(feed, (char *)frame, (struct bytes){frame, total});
}

/* Ends the copy: sets the initial progress, or restores the progress after a repeated copy. */
static void
copy_done(struct feed *feed)
{
    unsigned char *end = memory_new(FRAME_COMMIT_SIZE);
    uint64_t lsn = 0, ordinal = 0;

    if (frame_position_parse(feed->copy.to, strlen(feed->copy.to), &lsn, &ordinal) != RC_OK ||
        lsn == 0)
        ordinal = FRAME_ORDINAL_COMMIT;
    put_common(end, FRAME_KIND_COMMIT, FRAME_COMMIT_SIZE, ordinal);
    bytes_put_u64(end + FRAME_AT_COMMIT_LSN, lsn);
    feed->copy.to[0] = '\0';
    if (!feed_stream_receive(feed, (char *)end, (struct bytes){end, FRAME_COMMIT_SIZE}))
        return;
    feed->batch.confirm_lsn = feed->slot.lsn; /* the copy contains every change before the slot */
    feed_stream_flush(feed);
    if (feed->state != FEED_COPYING)
        return;
    log_info("feed", "copied clairon.member", LOG_UINT("rows", feed->copy.rows));
    feed_start_replication(feed);
}

static void
copy_failed(struct feed *feed, const PGresult *result)
{
    const char *message = PQresultErrorMessage(result);
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    feed_fail(feed, "could not read clairon.member", message,
              postgres_error_hint(sqlstate, message));
}

void
feed_on_member_rows(struct feed *feed)
{
    /* the timer limits the wait for data, not the duration of the copy */
    ev_timer_again(feed->loop, &feed->connection.timeout);
    while (feed->state == FEED_COPYING && feed_flights_have_room(&feed->flights) &&
           PQisBusy(feed->connection.conn) == 0) {
        PGresult *result = PQgetResult(feed->connection.conn);
        ExecStatusType status = PQresultStatus(result);

        if (result == NULL)
            copy_done(feed);
        else if (status == PGRES_SINGLE_TUPLE)
            handle_row(feed, result);
        else if (status != PGRES_TUPLES_OK) /* after the last row */
            copy_failed(feed, result);
        PQclear(result);
    }
    if (feed->state == FEED_COPYING)
        feed_pace_reading(feed);
}
