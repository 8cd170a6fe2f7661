/*
 * snapshot.h: parses a snapshot as clairon.snapshot() returns it, and the first row of
 * clairon.live_rows(), which contains one. Pure: no clock, no log.
 */
#ifndef CLAIRON_WIRE_SNAPSHOT_H
#define CLAIRON_WIRE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define SNAPSHOT_TEXT_MAX (128 * 1024) /* maximum bytes */

/* Parsed from "xmin:xmax:xip,xip...", with 64-bit transaction ids. */
struct snapshot {
    uint64_t xmin;
    uint64_t xmax;
    uint64_t *running; /* xip: from xmin to xmax - 1, in ascending order; NULL: none */
    size_t running_count;
};

/*
 * RC_OK: the caller frees *ret_snapshot with snapshot_free. RC_LIMIT: longer than
 * SNAPSHOT_TEXT_MAX. RC_BAD: any other error.
 */
MUST_CHECK enum rc snapshot_parse(const char *text, size_t len, struct snapshot *ret_snapshot);

/* True if the transaction's changes are visible to a statement with this snapshot. */
bool snapshot_contains(const struct snapshot *snapshot, uint64_t xid);

/* Frees and resets. Accepts a zeroed snapshot. */
void snapshot_free(struct snapshot *snapshot);

#define ROWS_KEY_COLUMNS_MAX 32 /* INDEX_MAX_KEYS */

#define ROWS_HEADER_ERROR_MAX 256 /* bytes of an error message; a longer one is cut */

/*
 * {"key":["id"],"snapshot":"xmin:xmax:xip","audience":"STRUCTURE","judge":["status"],"count":312},
 * or {"error":107,"text":"column \"status\": .."}, or {"error":103}.
 */
struct rows_header {
    char *key;           /* names of the key columns, as a JSON array */
    char *snapshot_text; /* snapshot of the rows that follow */
    char *audience;      /* audience of the rule */
    /* names of the columns whose values a client can compare as the server does, as a JSON array */
    char *judge;
    struct snapshot snapshot;
    int64_t count;    /* number of rows that were counted; -1: rows follow */
    int error;        /* enum gate_err, then no other field is set but error_text; 0: none */
    char *error_text; /* NULL: none */
};

/*
 * RC_OK: the caller frees *ret_header with rows_header_free. RC_BAD: a field is missing or invalid.
 * Other fields are ignored.
 */
MUST_CHECK enum rc rows_header_parse(const char *text, size_t len, struct rows_header *ret_header);

/* Frees and resets. Accepts a zeroed header. */
void rows_header_free(struct rows_header *header);

#endif
