/*
 * rows_conditions.h: which rows of a live rule a client requests, in which order, and how many.
 * Pure: no clock, no log.
 *
 * Only the form is checked here. The columns and values are checked by clairon.live_rows().
 */
#ifndef CLAIRON_WIRE_ROWS_CONDITIONS_H
#define CLAIRON_WIRE_ROWS_CONDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "wire/json_doc.h"

struct json_doc;
struct json_value;

#define ROWS_CONDITIONS_BYTES_MAX 8192 /* maximum bytes of where, order and after together */
#define ROWS_CONDITIONS_COUNT 5

/* Zeroed: all rows of the rule. */
struct rows_conditions {
    char *where;   /* JSON object; NULL: absent */
    char *order;   /* JSON array of strings; NULL: absent */
    char *after;   /* JSON array; NULL: absent */
    int64_t limit; /* maximum number of rows; 0: absent */
    bool is_count; /* only the number of rows is requested */
};

/* The fields: where, order, after, limit, count. */
extern const char *const ROWS_CONDITIONS_FIELDS[ROWS_CONDITIONS_COUNT];

/*
 * Reads the value of one of these fields. RC_BAD: `error` names the field and its valid form.
 * Finally, the caller calls rows_conditions_check().
 */
MUST_CHECK enum rc rows_conditions_read(struct rows_conditions *conditions, const char *field,
                                        const struct json_doc *doc, const struct json_value *value,
                                        char error[WIRE_ERROR_MAX]);
/* The same for the text of an argument, which must be JSON. */
MUST_CHECK enum rc rows_conditions_parse(struct rows_conditions *conditions, const char *field,
                                         const char *text, size_t len, char error[WIRE_ERROR_MAX]);

/* Checks the size, and which fields exclude each other. */
MUST_CHECK enum rc rows_conditions_check(const struct rows_conditions *conditions,
                                         char error[WIRE_ERROR_MAX]);

/* Checks the limit against rows.max_rows, which the functions above do not know. */
MUST_CHECK enum rc rows_conditions_check_limit(const struct rows_conditions *conditions,
                                               int max_rows, char error[WIRE_ERROR_MAX]);

/* True if at least one field is present. */
bool rows_conditions_exist(const struct rows_conditions *conditions);

/* The caller frees the copy with rows_conditions_free. */
struct rows_conditions rows_conditions_copy(const struct rows_conditions *conditions);
/* Frees and resets. */
void rows_conditions_free(struct rows_conditions *conditions);

#endif
