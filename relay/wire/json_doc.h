/*
 * json_doc.h: a strict reader of JSON (RFC 8259) that was sent by others. Pure.
 *
 * The text is scanned once, and each value becomes one entry of a list that refers to its bytes.
 * Rejected as well: invalid UTF-8, duplicate names in an object, U+0000, numbers that an int64_t or
 * a double cannot hold, and values nested too deeply.
 */
#ifndef CLAIRON_WIRE_JSON_DOC_H
#define CLAIRON_WIRE_JSON_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/rc.h"

#define JSON_DOC_ERROR_MAX 160
#define JSON_DOC_PATH_MAX 96
#define JSON_DOC_DEPTH_MAX 2048
#define JSON_DOC_FEW 64 /* documents with at most as many names and values use no heap */

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_FALSE,
    JSON_KIND_TRUE,
    JSON_KIND_INTEGER,
    JSON_KIND_REAL,
    JSON_KIND_TEXT,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT,
};

/* In the list, the name of a member precedes its value, and a container precedes its contents. */
struct json_value {
    uint32_t at;   /* position of the first byte; of a string, behind its quote */
    uint32_t len;  /* bytes; of a string, without its quotes and escapes */
    uint32_t next; /* index after the value and its contents; of a name, after the member's value */
    uint8_t kind;  /* enum json_kind */
    bool is_copied; /* `at` is a position in doc->texts */
};

struct json_doc {
    const char *text; /* must outlive the document */
    size_t len;
    struct json_value *values; /* the first is the whole document */
    uint32_t count;
    uint32_t room;
    bool has_blanks; /* white space between tokens */
    char *texts;     /* zero-terminated copies of strings, without escapes */
    size_t texts_len;
    struct json_value few[JSON_DOC_FEW];
};

enum json_fault {
    JSON_FAULT_SYNTAX,
    JSON_FAULT_DUPLICATE,
    JSON_FAULT_RANGE, /* of a number */
    JSON_FAULT_NUL,
    JSON_FAULT_SURROGATE, /* half of an escaped character, as JSON.stringify() writes it */
    JSON_FAULT_DEPTH,
};

struct json_doc_error {
    enum json_fault fault;
    int line; /* from 1; of the end of the token that is named in `text` */
    int column;
    char text[JSON_DOC_ERROR_MAX];
    char path[JSON_DOC_PATH_MAX]; /* names of the members that contain the error: a.b; or empty */
};

/*
 * Parses an object or an array, or any value with `any`. Initializes `doc` in any case; the caller
 * frees it with json_doc_free. RC_BAD: ret_error describes the first error, and `doc` contains the
 * values before it; duplicate names are noticed at the end of their object.
 */
MUST_CHECK enum rc json_doc_parse(struct json_doc *doc, const char *text, size_t len, bool any,
                                  struct json_doc_error *ret_error);
void json_doc_free(struct json_doc *doc);

/* NULL: `doc` was not parsed. */
const struct json_value *json_doc_root(const struct json_doc *doc);

/* White space between tokens. */
static inline bool
json_is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* The bytes of the value in the text; of a string, without quotes and escapes. */
static inline const char *
json_bytes(const struct json_doc *doc, const struct json_value *value)
{
    return (value->is_copied ? doc->texts : doc->text) + value->at;
}

/* False for NULL, an absent value. */
static inline bool
json_is(const struct json_value *value, enum json_kind kind)
{
    return value != NULL && value->kind == kind;
}

static inline bool
json_is_bool(const struct json_value *value)
{
    return json_is(value, JSON_KIND_TRUE) || json_is(value, JSON_KIND_FALSE);
}

static inline bool
json_is_numeric(const struct json_value *value)
{
    return json_is(value, JSON_KIND_INTEGER) || json_is(value, JSON_KIND_REAL);
}

/* The value of a member; NULL: none, or not an object. */
const struct json_value *json_doc_member(const struct json_doc *doc,
                                         const struct json_value *object, const char *name);
/* Returns the first item of an array, or the name of the first member; NULL: none. */
const struct json_value *json_doc_first(const struct json_doc *doc,
                                        const struct json_value *container);
/* Returns the item or name that follows; NULL: none. */
const struct json_value *json_doc_next(const struct json_doc *doc,
                                       const struct json_value *container,
                                       const struct json_value *item);
/* The number of items or members; 0: not a container. */
size_t json_doc_count(const struct json_doc *doc, const struct json_value *container);

/* The value of the member with this name. */
static inline const struct json_value *
json_value_of(const struct json_value *name)
{
    return name + 1;
}

/* Returns the string without escapes, zero-terminated and owned by `doc`; NULL: not a string. */
const char *json_doc_text(struct json_doc *doc, const struct json_value *value);
/* Its length; 0: not a string. */
static inline size_t
json_text_len(const struct json_value *value)
{
    return json_is(value, JSON_KIND_TEXT) ? value->len : 0;
}
/* 0: not an integer. */
int64_t json_doc_integer(const struct json_doc *doc, const struct json_value *value);
/* 0: neither an integer nor a real. */
double json_doc_number(const struct json_doc *doc, const struct json_value *value);

/*
 * Adds the value without white space between tokens. Numbers, and the strings in a container,
 * remain as they were sent.
 */
MUST_CHECK enum rc json_doc_add(const struct json_doc *doc, const struct json_value *value,
                                struct buffer *out);

#define WIRE_ERROR_MAX 192

/* Writes the reason why a valid document is rejected; a longer one is cut. Returns RC_BAD. */
enum rc wire_reject(char error[WIRE_ERROR_MAX], const char *format, ...) PRINTF_LIKE(2, 3);

#endif
