/* rows_conditions.c: reads which rows of a live rule a client requests. */
#include "wire/rows_conditions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "wire/json_doc.h"

/*
 * PostgreSQL's numeric rejects a number with more than 131072 digits before the point or 16383
 * behind it, and a zero with an exponent above 2^30. With this exponent, and
 * ROWS_CONDITIONS_BYTES_MAX digits, a number has fewer.
 */
#define EXPONENT_MAX 4096

#define NAME_BYTES_MAX 63 /* of a column */

const char *const ROWS_CONDITIONS_FIELDS[ROWS_CONDITIONS_COUNT] = {"where", "order", "after",
                                                                   "limit", "count"};

static bool
is_numeric(const struct json_doc *doc, const struct json_value *value)
{
    long exponent = 0;

    for (uint32_t i = 0; i < value->len && exponent == 0; i++) {
        if ((doc->text[value->at + i] | 0x20) == 'e')
            exponent = strtol(doc->text + value->at + i + 1, NULL, 10);
    }
    return exponent >= -EXPONENT_MAX && exponent <= EXPONENT_MAX;
}

/* False: PostgreSQL cannot read a number in the value. */
static bool
has_valid_numbers(const struct json_doc *doc, const struct json_value *value)
{
    const struct json_value *end = doc->values + value->next;

    for (; value < end; value++) {
        if (json_is(value, JSON_KIND_REAL) && !is_numeric(doc, value))
            return false;
    }
    return true;
}

static enum rc
check_numbers(const char *field, const struct json_doc *doc, const struct json_value *container,
              char error[WIRE_ERROR_MAX])
{
    const bool is_object = json_is(container, JSON_KIND_OBJECT);
    const struct json_value *item = json_doc_first(doc, container);

    for (; item != NULL; item = json_doc_next(doc, container, item)) {
        if (has_valid_numbers(doc, is_object ? json_value_of(item) : item))
            continue;
        return is_object && item->len <= NAME_BYTES_MAX
                   ? wire_reject(error, "number in \"%s.%.*s\" out of range", field, (int)item->len,
                                 json_bytes(doc, item))
                   : wire_reject(error, "number in \"%s\" out of range", field);
    }
    return RC_OK;
}

/* Copies a container without the white space between its tokens. */
static enum rc
read_container(char **ret_text, const char *field, const struct json_doc *doc,
               const struct json_value *value, char error[WIRE_ERROR_MAX])
{
    struct buffer text;

    if (check_numbers(field, doc, value, error) != RC_OK)
        return RC_BAD;
    buffer_init(&text, ROWS_CONDITIONS_BYTES_MAX + 1);
    if (json_doc_add(doc, value, &text) != RC_OK) {
        buffer_free(&text);
        return wire_reject(error,
                           "\"where\", \"order\" and \"after\" must have at most %d bytes together",
                           ROWS_CONDITIONS_BYTES_MAX);
    }
    *ret_text = text.bytes;
    return RC_OK;
}

static enum rc
read_where(struct rows_conditions *conditions, const struct json_doc *doc,
           const struct json_value *value, char error[WIRE_ERROR_MAX])
{
    if (!json_is(value, JSON_KIND_OBJECT))
        return wire_reject(error, "\"where\" must be an object of columns and values");
    return read_container(&conditions->where, "where", doc, value, error);
}

static enum rc
read_order(struct rows_conditions *conditions, const struct json_doc *doc,
           const struct json_value *value, char error[WIRE_ERROR_MAX])
{
    const struct json_value *item = json_doc_first(doc, value);
    bool is_valid = json_is(value, JSON_KIND_ARRAY);

    for (; is_valid && item != NULL; item = json_doc_next(doc, value, item))
        is_valid = json_is(item, JSON_KIND_TEXT);
    if (!is_valid)
        return wire_reject(error,
                           "\"order\" must be an array of column names, with \"-\" in front for "
                           "a descending order");
    return read_container(&conditions->order, "order", doc, value, error);
}

static enum rc
read_after(struct rows_conditions *conditions, const struct json_doc *doc,
           const struct json_value *value, char error[WIRE_ERROR_MAX])
{
    if (!json_is(value, JSON_KIND_ARRAY))
        return wire_reject(error,
                           "\"after\" must be an array of the values by which the last row is "
                           "ordered");
    return read_container(&conditions->after, "after", doc, value, error);
}

static enum rc
read_limit(struct rows_conditions *conditions, const struct json_doc *doc,
           const struct json_value *value, char error[WIRE_ERROR_MAX])
{
    conditions->limit = json_doc_integer(doc, value);
    if (json_is(value, JSON_KIND_INTEGER) && conditions->limit >= 1)
        return RC_OK;
    return wire_reject(error, "\"limit\" must be an integer from 1 to rows.max_rows");
}

static enum rc
read_count(struct rows_conditions *conditions, const struct json_doc *doc,
           const struct json_value *value, char error[WIRE_ERROR_MAX])
{
    (void)doc;
    conditions->is_count = json_is(value, JSON_KIND_TRUE);
    return conditions->is_count ? RC_OK : wire_reject(error, "\"count\" must be true");
}

enum rc
rows_conditions_read(struct rows_conditions *conditions, const char *field,
                     const struct json_doc *doc, const struct json_value *value,
                     char error[WIRE_ERROR_MAX])
{
    static enum rc (*const READ[ROWS_CONDITIONS_COUNT])(
        struct rows_conditions *, const struct json_doc *, const struct json_value *,
        char[WIRE_ERROR_MAX]) = {read_where, read_order, read_after, read_limit, read_count};

    for (size_t i = 0; i < ROWS_CONDITIONS_COUNT; i++) {
        if (strcmp(field, ROWS_CONDITIONS_FIELDS[i]) == 0)
            return READ[i](conditions, doc, value, error);
    }
    return wire_reject(error, "unknown field \"%s\"", field);
}

static enum rc
report_load_error(const struct json_doc_error *load, const char *field, char error[WIRE_ERROR_MAX])
{
    const char *point = load->path[0] != '\0' ? "." : "";

    switch (load->fault) {
    case JSON_FAULT_RANGE:
        return wire_reject(error, "number in \"%s%s%s\" out of range", field, point, load->path);
    case JSON_FAULT_NUL:
        return wire_reject(error, "NUL character in \"%s%s%s\"", field, point, load->path);
    case JSON_FAULT_SURROGATE:
        return wire_reject(error, "half of a surrogate pair in \"%s%s%s\"", field, point,
                           load->path);
    case JSON_FAULT_DUPLICATE:
        return wire_reject(error, "duplicate field in \"%s%s%s\"", field, point, load->path);
    default:
        return wire_reject(error, "\"%s\" is not valid JSON: %.100s", field, load->text);
    }
}

enum rc
rows_conditions_parse(struct rows_conditions *conditions, const char *field, const char *text,
                      size_t len, char error[WIRE_ERROR_MAX])
{
    struct json_doc doc;
    struct json_doc_error load;
    enum rc rc = json_doc_parse(&doc, text, len, true, &load);

    rc = rc == RC_OK ? rows_conditions_read(conditions, field, &doc, json_doc_root(&doc), error)
                     : report_load_error(&load, field, error);
    json_doc_free(&doc);
    return rc;
}

static size_t
len_of(const char *text)
{
    return text != NULL ? strlen(text) : 0;
}

enum rc
rows_conditions_check(const struct rows_conditions *conditions, char error[WIRE_ERROR_MAX])
{
    size_t bytes =
        len_of(conditions->where) + len_of(conditions->order) + len_of(conditions->after);

    if (bytes > ROWS_CONDITIONS_BYTES_MAX)
        return wire_reject(error,
                           "\"where\", \"order\" and \"after\" must have at most %d bytes together",
                           ROWS_CONDITIONS_BYTES_MAX);
    if (conditions->is_count &&
        (conditions->order != NULL || conditions->after != NULL || conditions->limit != 0))
        return wire_reject(error, "\"count\" excludes \"order\", \"after\" and \"limit\"");
    return RC_OK;
}

enum rc
rows_conditions_check_limit(const struct rows_conditions *conditions, int max_rows,
                            char error[WIRE_ERROR_MAX])
{
    if (conditions->limit <= max_rows)
        return RC_OK;
    return wire_reject(error, "\"limit\" must be an integer from 1 to %d (rows.max_rows)",
                       max_rows);
}

bool
rows_conditions_exist(const struct rows_conditions *conditions)
{
    return conditions->where != NULL || conditions->order != NULL || conditions->after != NULL ||
           conditions->limit != 0 || conditions->is_count;
}

static char *
copy_of(const char *text)
{
    return text != NULL ? memory_text(text, strlen(text)) : NULL;
}

struct rows_conditions
rows_conditions_copy(const struct rows_conditions *conditions)
{
    return (struct rows_conditions){.where = copy_of(conditions->where),
                                    .order = copy_of(conditions->order),
                                    .after = copy_of(conditions->after),
                                    .limit = conditions->limit,
                                    .is_count = conditions->is_count};
}

void
rows_conditions_free(struct rows_conditions *conditions)
{
    free(conditions->where);
    free(conditions->order);
    free(conditions->after);
    *conditions = (struct rows_conditions){0};
}
