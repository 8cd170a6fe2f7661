/* rows_header.h: parses the first row of clairon.live_rows(). Pure: no clock, no log. */
#ifndef CLAIRON_WIRE_ROWS_HEADER_H
#define CLAIRON_WIRE_ROWS_HEADER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "wire/snapshot.h"

#define ROWS_KEY_COLUMNS_MAX 32 /* INDEX_MAX_KEYS */

/* {"key":["id"],"snapshot":"xmin:xmax:xip","audience":"STRUCTURE"} */
struct rows_header {
    char *key;           /* names of the key columns, as a JSON array */
    char *snapshot_text; /* snapshot of the rows that follow */
    char *audience;      /* audience of the rule */
    struct snapshot snapshot;
};

/*
 * RC_OK: the caller frees *ret_header with rows_header_free. RC_BAD: a field is missing or invalid.
 * Other fields are ignored.
 */
MUST_CHECK enum rc rows_header_parse(const char *text, size_t len, struct rows_header *ret_header);

/* Frees and resets. Accepts a zeroed header. */
void rows_header_free(struct rows_header *header);

#endif
