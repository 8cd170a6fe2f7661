/* snapshot.c: parses a snapshot, and determines which transactions it contains. */
#include "wire/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "wire/audience_name.h"
#include "wire/codes.h"
#include "wire/json_doc.h"

/* Parses a number above 0 and below 2^64, without leading zeros. Advances *at. */
static bool
read_xid(const char **at, const char *end, uint64_t *ret_xid)
{
    uint64_t xid = 0;
    const char *digit = *at;

    if (digit == end || *digit < '1' || *digit > '9')
        return false;
    for (; digit < end && *digit >= '0' && *digit <= '9'; digit++) {
        if (__builtin_mul_overflow(xid, (uint64_t)10, &xid) ||
            __builtin_add_overflow(xid, (uint64_t)(*digit - '0'), &xid))
            return false;
    }
    *at = digit;
    *ret_xid = xid;
    return true;
}

static bool
skip(const char **at, const char *end, char wanted)
{
    if (*at == end || **at != wanted)
        return false;
    (*at)++;
    return true;
}

static size_t
count_items(const char *at, const char *end)
{
    size_t count = at < end ? 1 : 0;

    for (; at < end; at++)
        count += *at == ',';
    return count;
}

/* True if the remaining text is the list of running transactions, in ascending order. */
static bool
read_running(const char *at, const char *end, struct snapshot *snapshot)
{
    size_t count = count_items(at, end);

    if (count == 0)
        return true;
    snapshot->running = memory_new(count * sizeof(*snapshot->running));
    for (size_t i = 0; i < count; i++) {
        uint64_t min = i > 0 ? snapshot->running[i - 1] : snapshot->xmin;

        if ((i > 0 && !skip(&at, end, ',')) || !read_xid(&at, end, &snapshot->running[i]) ||
            snapshot->running[i] < min || snapshot->running[i] >= snapshot->xmax)
            return false;
    }
    snapshot->running_count = count;
    return at == end;
}

enum rc
snapshot_parse(const char *text, size_t len, struct snapshot *ret_snapshot)
{
    struct snapshot snapshot = {0};
    const char *at = text;
    const char *end = text + len;

    if (len > SNAPSHOT_TEXT_MAX)
        return RC_LIMIT;
    if (!read_xid(&at, end, &snapshot.xmin) || !skip(&at, end, ':') ||
        !read_xid(&at, end, &snapshot.xmax) || !skip(&at, end, ':') ||
        snapshot.xmin > snapshot.xmax || !read_running(at, end, &snapshot)) {
        snapshot_free(&snapshot);
        return RC_BAD;
    }
    *ret_snapshot = snapshot;
    return RC_OK;
}

bool
snapshot_contains(const struct snapshot *snapshot, uint64_t xid)
{
    size_t low = 0;
    size_t high = snapshot->running_count;

    if (xid < snapshot->xmin || xid >= snapshot->xmax)
        return xid < snapshot->xmin;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (snapshot->running[middle] == xid)
            return false;
        if (snapshot->running[middle] < xid)
            low = middle + 1;
        else
            high = middle;
    }
    return true;
}

void
snapshot_free(struct snapshot *snapshot)
{
    free(snapshot->running);
    *snapshot = (struct snapshot){0};
}

/* The first row of clairon.live_rows(). */

/* NULL: not an array of names. */
static char *
header_names(const struct json_doc *doc, const struct json_value *names)
{
    const struct json_value *name = json_doc_first(doc, names);
    struct buffer out;

    if (!json_is(names, JSON_KIND_ARRAY))
        return NULL;
    for (; name != NULL; name = json_doc_next(doc, names, name)) {
        if (!json_is(name, JSON_KIND_TEXT))
            return NULL;
    }
    buffer_init(&out, names->len);
    if (json_doc_add(doc, names, &out) != RC_OK)
        buffer_free(&out);
    return out.bytes;
}

/* NULL: not an array of 1 to ROWS_KEY_COLUMNS_MAX names. */
static char *
header_key(const struct json_doc *doc, const struct json_value *key)
{
    const size_t count = json_doc_count(doc, key);

    return count > 0 && count <= ROWS_KEY_COLUMNS_MAX ? header_names(doc, key) : NULL;
}

/* NULL: not a string of 1 to `max` bytes. */
static char *
header_text(struct json_doc *doc, const struct json_value *value, size_t max)
{
    size_t len = json_text_len(value);

    return len > 0 && len <= max ? memory_text(json_doc_text(doc, value), len) : NULL;
}

/* Cuts a long text at a character. NULL: not a string. */
static char *
header_error_text(struct json_doc *doc, const struct json_value *value)
{
    size_t len = json_text_len(value);

    if (len > ROWS_HEADER_ERROR_MAX)
        (void)utf8_is_prefix(json_doc_text(doc, value), ROWS_HEADER_ERROR_MAX, &len);
    return len > 0 ? memory_text(json_doc_text(doc, value), len) : NULL;
}

static void
read_header(struct json_doc *doc, struct rows_header *header)
{
    const struct json_value *root = json_doc_root(doc);
    const struct json_value *count = json_doc_member(doc, root, "count");

    header->error = (int)json_doc_integer(doc, json_doc_member(doc, root, "error"));
    if (header->error != 0) {
        header->error_text = header_error_text(doc, json_doc_member(doc, root, "text"));
        return;
    }
    header->key = header_key(doc, json_doc_member(doc, root, "key"));
    header->snapshot_text =
        header_text(doc, json_doc_member(doc, root, "snapshot"), SNAPSHOT_TEXT_MAX);
    header->audience =
        header_text(doc, json_doc_member(doc, root, "audience"), AUDIENCE_COMPOSITE_MAX);
    header->judge = header_names(doc, json_doc_member(doc, root, "judge"));
    header->count = json_is(count, JSON_KIND_INTEGER) ? json_doc_integer(doc, count) : -1;
}

static bool
is_complete(struct rows_header *header)
{
    if (header->error != 0)
        return header->error == GATE_ERR_PERMISSION ||
               (header->error == GATE_ERR_BAD_REQUEST && header->error_text != NULL);
    return header->key != NULL && header->audience != NULL && header->judge != NULL &&
           header->snapshot_text != NULL && header->count >= -1 &&
           snapshot_parse(header->snapshot_text, strlen(header->snapshot_text),
                          &header->snapshot) == RC_OK;
}

enum rc
rows_header_parse(const char *text, size_t len, struct rows_header *ret_header)
{
    struct rows_header header = {0};
    struct json_doc doc;
    struct json_doc_error error;

    if (json_doc_parse(&doc, text, len, false, &error) == RC_OK)
        read_header(&doc, &header);
    json_doc_free(&doc);
    if (!is_complete(&header)) {
        rows_header_free(&header);
        return RC_BAD;
    }
    *ret_header = header;
    return RC_OK;
}

void
rows_header_free(struct rows_header *header)
{
    free(header->key);
    free(header->snapshot_text);
    free(header->audience);
    free(header->judge);
    free(header->error_text);
    snapshot_free(&header->snapshot);
    *header = (struct rows_header){0};
}
