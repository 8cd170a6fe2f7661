/* result.c: what a request ends with: the rows of a query as pages, or an error. */
#include "rows/rows_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define FIRST_ROOM 64 /* initial number of rows */

static const char PAGE_TAIL[] = "],\"more\":false,\"rest\":true}"; /* the longest */

struct rows_result *
rows_result_new(size_t max_rows, size_t max_bytes, size_t *held_bytes)
{
    struct rows_result *result = memory_new(sizeof(*result));

    result->refs = 1;
    result->max_rows = max_rows;
    result->max_bytes = max_bytes;
    result->held_bytes = held_bytes;
    buffer_init(&result->rows,
                (max_bytes > ROWS_FIRST_ROW_MAX ? max_bytes : ROWS_FIRST_ROW_MAX) + max_rows);
    return result;
}

struct rows_result *
rows_result_ref(struct rows_result *result)
{
    result->refs++;
    return result;
}

void
rows_result_unref(struct rows_result *result)
{
    if (result == NULL || --result->refs > 0)
        return;
    *result->held_bytes -= result->bytes;
    rows_header_free(&result->header);
    buffer_free(&result->rows);
    free(result->ends);
    free(result);
}

static bool
has_room(const struct rows_result *result, size_t len)
{
    /* as clairon.live_rows() counts, without the comma after each row */
    const size_t rows_bytes = result->rows.len - result->count;

    if (result->has_limit && result->count == 0 && len <= ROWS_FIRST_ROW_MAX)
        return true;
    return rows_bytes <= result->max_bytes && len <= result->max_bytes - rows_bytes;
}

static enum rc
add_row(struct rows_result *result, const char *text, size_t len)
{
    const size_t before = result->bytes;

    if (result->has_rest || result->header.error != 0 || result->header.count >= 0 ||
        memchr(text, '\n', len) != NULL)
        return RC_BAD;
    if (len == 0) {
        result->has_rest = true;
        return RC_OK;
    }
    if (result->count == result->max_rows || !has_room(result, len))
        return RC_LIMIT;
    if (buffer_add(&result->rows, text, len) != RC_OK)
        return RC_LIMIT;
    if (result->count == result->room) {
        size_t room = result->room > 0 ? result->room * 2 : FIRST_ROOM;

        result->ends = memory_grow(result->ends, room * sizeof(*result->ends));
        result->bytes += (room - result->room) * sizeof(*result->ends);
        result->room = room;
    }
    result->ends[result->count++] = result->rows.len;
    result->bytes += len + 1;
    *result->held_bytes += result->bytes - before;
    return buffer_add(&result->rows, ",", 1);
}

enum rc
rows_result_add(struct rows_result *result, const char *text, size_t len)
{
    enum rc rc;

    if (result->has_header)
        return add_row(result, text, len);
    rc = rows_header_parse(text, len, &result->header);
    result->has_header = rc == RC_OK;
    return rc;
}

static size_t
start_of(const struct rows_result *result, size_t row)
{
    return row > 0 ? result->ends[row - 1] + 1 : 0;
}

/* Returns the end of the page that starts at `first`: as many rows as fit, at least one. */
static size_t
end_of_page(const struct rows_result *result, size_t first, size_t room)
{
    size_t low = first < result->count ? first + 1 : first;
    size_t high = result->count;

    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;

        if (result->ends[middle - 1] - start_of(result, first) <= room)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static enum rc
write_head(const struct rows_result *result, size_t first, struct buffer *out)
{
    const struct rows_header *header = &result->header;
    enum rc rc =
        buffer_addf(out, "\"key\":%s,\"snapshot\":\"%s\"", header->key, header->snapshot_text);

    if (rc == RC_OK && first == 0)
        rc = buffer_addf(out, ",\"judge\":%s", header->judge);
    return rc == RC_OK ? buffer_addf(out, ",\"rows\":[") : rc;
}

static enum rc
write_count(const struct rows_header *header, struct buffer *out)
{
    return buffer_addf(out, "\"count\":%" PRId64 ",\"snapshot\":\"%s\",\"judge\":%s}",
                       header->count, header->snapshot_text, header->judge);
}

static enum rc
write_rows(const struct rows_result *result, size_t first, size_t end, struct buffer *out)
{
    size_t start = start_of(result, first);

    return end > first ? buffer_add(out, result->rows.bytes + start, result->ends[end - 1] - start)
                       : RC_OK;
}

enum rc
rows_result_write_page(const struct rows_result *result, size_t first, int64_t request_id,
                       struct buffer *out, size_t *ret_next)
{
    size_t before = out->len;
    size_t used, next;
    enum rc rc = buffer_addf(out, "{\"t\":\"rows\",\"r\":%" PRId64 ",", request_id);

    if (rc == RC_OK && result->header.count >= 0) {
        *ret_next = 0;
        return write_count(&result->header, out);
    }
    if (rc == RC_OK)
        rc = write_head(result, first, out);
    used = out->len - before + sizeof(PAGE_TAIL);
    next = end_of_page(result, first, used < ROWS_PAGE_MAX ? ROWS_PAGE_MAX - used : 0);
    if (rc == RC_OK)
        rc = write_rows(result, first, next, out);
    if (rc == RC_OK)
        rc = next < result->count ? buffer_addf(out, "],\"more\":true}")
             : result->has_rest   ? buffer_add(out, PAGE_TAIL, sizeof(PAGE_TAIL) - 1)
                                  : buffer_addf(out, "],\"more\":false}");
    if (rc == RC_OK)
        *ret_next = next;
    return rc;
}

enum rc
rows_result_write(const struct rows_result *result, struct buffer *out)
{
    enum rc rc = buffer_add(out, "{", 1);

    if (rc == RC_OK && result->header.count >= 0) {
        rc = write_count(&result->header, out);
        return rc == RC_OK ? buffer_add(out, "\n", 1) : rc;
    }
    if (rc == RC_OK)
        rc = write_head(result, 0, out);
    if (rc == RC_OK)
        rc = write_rows(result, 0, result->count, out);
    return rc == RC_OK ? buffer_addf(out, "]%s}\n", result->has_rest ? ",\"rest\":true" : "") : rc;
}

/* ---- errors */

static const struct rows_error ERRORS[] = {
    [ROWS_DENIED] = {GATE_ERR_PERMISSION, 403, "no such live rule for this user", false,
                     STAT_ROWS_DENIED},
    [ROWS_INVALID] = {GATE_ERR_BAD_REQUEST, 400,
                      "character in a name or condition is not in the encoding of the database",
                      false, STAT_GATE_PROTOCOL_ERRORS},
    [ROWS_TOO_MANY] = {GATE_ERR_TOO_MANY_ROWS, 413, "too many rows", false, STAT_ROWS_TOO_MANY},
    [ROWS_BUSY] = {GATE_ERR_RATE, 503, "too many requests for rows", true, STAT_ROWS_BUSY},
    [ROWS_USER_LIMIT] = {GATE_ERR_RATE, 429, "too many requests for rows by this user", true,
                         STAT_ROWS_BUSY},
    [ROWS_TIMED_OUT] = {GATE_ERR_RATE, 503, "query exceeded rows.timeout", true,
                        STAT_ROWS_TIMED_OUT},
    [ROWS_LOST] = {GATE_ERR_RATE, 503, "database does not reply", true, STAT_ROWS_LOST},
    [ROWS_STALE] = {GATE_ERR_RATE, 503, "a delivered change is not visible yet", true,
                    STAT_ROWS_STALE},
    [ROWS_LOCKED] = {GATE_ERR_RATE, 503, "table is locked", true, STAT_ROWS_TIMED_OUT},
    [ROWS_FAILED] = {GATE_ERR_INTERNAL, 500, "could not read rows", false, STAT_ROWS_FAILED},
    [ROWS_OFF] = {GATE_ERR_INTERNAL, 500, "live rows need [rows] conninfo", false,
                  STAT_ROWS_FAILED},
};

const struct rows_error *
rows_error_of(enum rows_status status)
{
    return &ERRORS[status];
}

_Static_assert(ROWS_ERROR_TEXT_MAX > ROWS_HEADER_ERROR_MAX, "no error is cut twice");

const char *
rows_error_text(enum rows_status status, const struct rows_result *result, const char *source,
                const char *rule, char buffer[ROWS_ERROR_TEXT_MAX])
{
    const bool has_text = status == ROWS_INVALID && result != NULL;
    const char *text = has_text ? result->header.error_text : ERRORS[status].text;

    if (status == ROWS_DENIED)
        snprintf(buffer, ROWS_ERROR_TEXT_MAX, "%s: rule \"%s\" of \"%s\"", text, rule, source);
    else
        snprintf(buffer, ROWS_ERROR_TEXT_MAX, "%s", text);
    return buffer;
}

/* A complete SQLSTATE, or its class. */
static const struct {
    const char *sqlstate;
    enum rows_status status;
} STATUSES[] = {
    {"22021", ROWS_DENIED},    /* character_not_in_repertoire, in a name or condition */
    {"22P05", ROWS_DENIED},    /* untranslatable_character, in a name or condition */
    {"54000", ROWS_TOO_MANY},  /* program_limit_exceeded */
    {"57014", ROWS_TIMED_OUT}, /* query_canceled */
    {"57", ROWS_LOST},         /* operator intervention: shutdown, restart */
    {"08", ROWS_LOST},         /* connection exception */
    {"40", ROWS_LOST},         /* recovery conflict on a standby */
    {"53", ROWS_BUSY},         /* insufficient resources */
    {"55P03", ROWS_LOCKED},    /* lock_not_available */
};

enum rows_status
rows_status_of(const char *sqlstate)
{
    if (sqlstate == NULL)
        return ROWS_LOST; /* an error of libpq itself */
    for (size_t i = 0; i < sizeof(STATUSES) / sizeof(STATUSES[0]); i++) {
        if (strncmp(sqlstate, STATUSES[i].sqlstate, strlen(STATUSES[i].sqlstate)) == 0)
            return STATUSES[i].status;
    }
    return ROWS_FAILED;
}
