/* snapshot.c: parses a snapshot, and determines which transactions it contains. */
#include "wire/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/memory.h"
#include "wire/audience_name.h"

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

/* NULL: not an array of 1 to ROWS_KEY_COLUMNS_MAX names. */
static char *
header_key(const json_t *key)
{
    size_t count = json_array_size(key); /* 0: not an array */

    for (size_t i = 0; i < count; i++) {
        if (!json_is_string(json_array_get(key, i)))
            return NULL;
    }
    return count > 0 && count <= ROWS_KEY_COLUMNS_MAX ? json_dumps(key, JSON_COMPACT) : NULL;
}

/* NULL: not a string of 1 to `max` bytes. */
static char *
header_text(const json_t *value, size_t max)
{
    size_t len = json_string_length(value);

    return len > 0 && len <= max ? memory_text(json_string_value(value), len) : NULL;
}

enum rc
rows_header_parse(const char *text, size_t len, struct rows_header *ret_header)
{
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    struct rows_header header = {
        .key = header_key(json_object_get(root, "key")),
        .snapshot_text = header_text(json_object_get(root, "snapshot"), SNAPSHOT_TEXT_MAX),
        .audience = header_text(json_object_get(root, "audience"), AUDIENCE_COMPOSITE_MAX),
    };

    json_decref(root);
    if (header.key == NULL || header.audience == NULL || header.snapshot_text == NULL ||
        snapshot_parse(header.snapshot_text, strlen(header.snapshot_text), &header.snapshot) !=
            RC_OK) {
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
    snapshot_free(&header->snapshot);
    *header = (struct rows_header){0};
}
