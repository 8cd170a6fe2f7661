/* json_values.c: walks the values of a JSON document, writes them, and rejects documents. */
#include "wire/json_doc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum rc
wire_reject(char error[WIRE_ERROR_MAX], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, WIRE_ERROR_MAX, format, args);
    va_end(args);
    return RC_BAD;
}

const struct json_value *
json_doc_root(const struct json_doc *doc)
{
    return doc->count > 0 ? &doc->values[0] : NULL;
}

const struct json_value *
json_doc_first(const struct json_doc *doc, const struct json_value *container)
{
    const struct json_value *first;

    if (!json_is(container, JSON_KIND_ARRAY) && !json_is(container, JSON_KIND_OBJECT))
        return NULL;
    first = container + 1;
    return first < doc->values + container->next ? first : NULL;
}

const struct json_value *
json_doc_next(const struct json_doc *doc, const struct json_value *container,
              const struct json_value *item)
{
    return item->next < container->next ? doc->values + item->next : NULL;
}

const struct json_value *
json_doc_member(const struct json_doc *doc, const struct json_value *object, const char *name)
{
    const struct json_value *member;
    const size_t len = strlen(name);

    if (!json_is(object, JSON_KIND_OBJECT))
        return NULL;
    member = json_doc_first(doc, object);
    for (; member != NULL; member = json_doc_next(doc, object, member)) {
        if (member->len == len && memcmp(json_bytes(doc, member), name, len) == 0)
            return json_value_of(member);
    }
    return NULL;
}

size_t
json_doc_count(const struct json_doc *doc, const struct json_value *container)
{
    const struct json_value *item = json_doc_first(doc, container);
    size_t count = 0;

    for (; item != NULL; item = json_doc_next(doc, container, item))
        count++;
    return count;
}

/* Returns the end of the string that starts at `at`. */
static const char *
text_end(const char *at)
{
    for (at++; *at != '"'; at++) {
        if (*at == '\\')
            at++;
    }
    return at + 1;
}

/* Copies valid JSON without its white space. */
static enum rc
add_minified(const char *at, size_t len, struct buffer *out)
{
    const char *end = at + len, *from = at;
    enum rc rc = RC_OK;

    while (at < end && rc == RC_OK) {
        if (*at == '"') {
            at = text_end(at);
        } else if (json_is_blank(*at)) {
            rc = buffer_add(out, from, (size_t)(at - from));
            from = ++at;
        } else {
            at++;
        }
    }
    return rc == RC_OK ? buffer_add(out, from, (size_t)(end - from)) : rc;
}

enum rc
json_doc_add(const struct json_doc *doc, const struct json_value *value, struct buffer *out)
{
    const char *bytes = json_bytes(doc, value);

    if (value->kind == JSON_KIND_TEXT)
        return buffer_add_json(out, bytes, value->len);
    return doc->has_blanks ? add_minified(bytes, value->len, out)
                           : buffer_add(out, bytes, value->len);
}
