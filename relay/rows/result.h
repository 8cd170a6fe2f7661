/* result.h: the rows of one query, shared by all requests that it serves. */
#ifndef CLAIRON_ROWS_RESULT_H
#define CLAIRON_ROWS_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/rc.h"
#include "wire/snapshot.h"

#define ROWS_PAGE_MAX (256 * 1024) /* maximum bytes of a page; a longer row is a separate page */

/*
 * Reference-counted; immutable once it is complete. The rows are JSON strings that are copied
 * unchanged from the server.
 */
struct rows_result {
    unsigned refs;
    bool has_header;
    struct rows_header header;
    struct buffer rows; /* each row followed by a comma */
    size_t *ends;       /* end of each row in `rows`, before its comma */
    size_t count;
    size_t room; /* capacity of ends[] */
    size_t max_rows;
    size_t max_bytes;   /* maximum bytes of rows, without commas */
    size_t bytes;       /* memory of rows[] and ends[] */
    size_t *held_bytes; /* total memory of all results; not owned */
};

/*
 * The caller owns one reference. Limits: max_rows, and max_bytes of JSON without the commas between
 * rows. The header is not counted.
 */
struct rows_result *rows_result_new(size_t max_rows, size_t max_bytes, size_t *held_bytes);
struct rows_result *rows_result_ref(struct rows_result *result);
void rows_result_unref(struct rows_result *result); /* accepts NULL */

/*
 * Adds the next row that the query returns: first the header, then rows. RC_LIMIT: too many rows or
 * bytes. RC_BAD: invalid header, or a row that is not one line.
 */
MUST_CHECK enum rc rows_result_add(struct rows_result *result, const char *text, size_t len);

/*
 * Adds the page that starts at row `first` to `out`, as a `rows` frame without a line break.
 * *ret_next is the first row of the next page; after the last page it is the number of rows.
 */
MUST_CHECK enum rc rows_result_write_page(const struct rows_result *result, size_t first,
                                          int64_t request_id, struct buffer *out, size_t *ret_next);

/* Adds all rows in the format of GET /v1/rows. */
MUST_CHECK enum rc rows_result_write(const struct rows_result *result, struct buffer *out);

#endif
