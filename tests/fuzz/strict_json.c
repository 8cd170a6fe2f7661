/* strict_json.c: parses JSON strictly by RFC 8259 and reports the first error. */
#include "tests/fuzz/strict_json.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define DEPTH_MAX 10000

/* The depth of a column name: payload, after, name. */
#define NAMED_DEPTH 3

/* PostgreSQL has at most 1600 columns. */
#define KEYS_MAX 2000

struct key {
    const char *at;
    size_t len;
};

struct reader {
    const char *start;
    const char *at;
    const char *end;
    unsigned flags;
    const char *fault;
    int depth;
};

static bool read_value(struct reader *reader);

static bool
fail(struct reader *reader, const char *fault)
{
    if (reader->fault == NULL)
        reader->fault = fault;
    return false;
}

static int
peek(const struct reader *reader)
{
    return reader->at < reader->end ? (unsigned char)*reader->at : -1;
}

static bool
read_char(struct reader *reader, char wanted, const char *fault)
{
    if (peek(reader) != (unsigned char)wanted)
        return fail(reader, fault);
    reader->at++;
    return true;
}

static void
skip_blanks(struct reader *reader)
{
    if (!(reader->flags & STRICT_BLANKS))
        return;
    while (reader->at < reader->end && strchr(" \t\n\r", *reader->at) != NULL && *reader->at != 0)
        reader->at++;
}

static bool
read_hex4(struct reader *reader, uint32_t *ret_unit)
{
    uint32_t unit = 0;

    for (int i = 0; i < 4; i++) {
        int c = peek(reader);

        if (c >= '0' && c <= '9')
            unit = unit << 4 | (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            unit = unit << 4 | (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            unit = unit << 4 | (uint32_t)(c - 'A' + 10);
        else
            return fail(reader, "\\u without four hex digits");
        reader->at++;
    }
    *ret_unit = unit;
    return true;
}

static bool
read_escape(struct reader *reader)
{
    uint32_t unit;
    int c = peek(reader);

    if (c < 0 || strchr("\"\\/bfnrtu", c) == NULL || c == 0)
        return fail(reader, "unknown escape");
    reader->at++;
    if (c != 'u')
        return true;
    if (!read_hex4(reader, &unit))
        return false;
    if (unit >= 0xDC00 && unit <= 0xDFFF)
        return fail(reader, "lone low surrogate");
    if (unit < 0xD800 || unit > 0xDBFF)
        return true;
    if (!read_char(reader, '\\', "lone high surrogate") ||
        !read_char(reader, 'u', "lone high surrogate") || !read_hex4(reader, &unit))
        return false;
    return (unit >= 0xDC00 && unit <= 0xDFFF) || fail(reader, "lone high surrogate");
}

/* The Unicode standard's table of well-formed byte sequences, row by row. */
static bool
read_wide(struct reader *reader)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high;
        int rest;
    } rows[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1},
        {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
        {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2},
    };
    int first = peek(reader);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (first < rows[i].first_low || first > rows[i].first_high)
            continue;
        reader->at++;
        if (peek(reader) < rows[i].second_low || peek(reader) > rows[i].second_high)
            return fail(reader, "not UTF-8");
        reader->at++;
        for (int rest = rows[i].rest; rest > 0; rest--, reader->at++)
            if (peek(reader) < 0x80 || peek(reader) > 0xBF)
                return fail(reader, "not UTF-8");
        return true;
    }
    return fail(reader, "not UTF-8");
}

static bool
read_string(struct reader *reader, struct key *ret_inside)
{
    const char *inside;

    if (!read_char(reader, '"', "a string is missing"))
        return false;
    inside = reader->at;
    for (;;) {
        int c = peek(reader);

        if (c < 0)
            return fail(reader, "unterminated string");
        if (c < 0x20)
            return fail(reader, "unescaped control character");
        if (c >= 0x80) {
            if (!read_wide(reader))
                return false;
            continue;
        }
        reader->at++;
        if (c == '"')
            break;
        if (c == '\\' && !read_escape(reader))
            return false;
    }
    *ret_inside = (struct key){inside, (size_t)(reader->at - 1 - inside)};
    return true;
}

static bool
read_digits(struct reader *reader)
{
    if (peek(reader) < '0' || peek(reader) > '9')
        return fail(reader, "a digit is missing");
    while (peek(reader) >= '0' && peek(reader) <= '9')
        reader->at++;
    return true;
}

static bool
read_number(struct reader *reader)
{
    if (peek(reader) == '-')
        reader->at++;
    if (peek(reader) == '0')
        reader->at++;
    else if (!read_digits(reader))
        return false;
    if (peek(reader) == '.') {
        reader->at++;
        if (!read_digits(reader))
            return false;
    }
    if (peek(reader) == 'e' || peek(reader) == 'E') {
        reader->at++;
        if (peek(reader) == '+' || peek(reader) == '-')
            reader->at++;
        return read_digits(reader);
    }
    return true;
}

static bool
read_word(struct reader *reader, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, word, len) != 0)
        return fail(reader, "neither true, false nor null");
    reader->at += len;
    return true;
}

static bool
read_array(struct reader *reader)
{
    reader->at++;
    skip_blanks(reader);
    if (peek(reader) == ']') {
        reader->at++;
        return true;
    }
    for (;;) {
        if (!read_value(reader))
            return false;
        skip_blanks(reader);
        if (peek(reader) == ']') {
            reader->at++;
            return true;
        }
        if (!read_char(reader, ',', "a comma or ] is missing"))
            return false;
    }
}

static bool
check_key(struct reader *reader, const struct key *keys, int count)
{
    static const char *const expected[] = {"metadata", "payload", "routing"};
    const struct key *last = &keys[count - 1];

    for (int i = 0; i < count - 1; i++)
        if (keys[i].len == last->len && memcmp(keys[i].at, last->at, last->len) == 0)
            return fail(reader, "duplicate key");
    if (reader->depth != 1)
        return true;
    if (count > 3 || strlen(expected[count - 1]) != last->len ||
        memcmp(expected[count - 1], last->at, last->len) != 0)
        return fail(reader, "unexpected key of a notification");
    return true;
}

static bool
read_members(struct reader *reader, struct key *keys, int *ret_count)
{
    int count = 0;

    for (;;) {
        struct key key;

        skip_blanks(reader);
        if (!read_string(reader, &key))
            return false;
        if (keys != NULL) {
            if (count == KEYS_MAX)
                return fail(reader, "too many keys");
            keys[count++] = key;
            if (!check_key(reader, keys, count))
                return false;
        }
        skip_blanks(reader);
        if (!read_char(reader, ':', "a colon is missing") || !read_value(reader))
            return false;
        skip_blanks(reader);
        if (peek(reader) == '}') {
            *ret_count = count;
            return true;
        }
        if (!read_char(reader, ',', "a comma or } is missing"))
            return false;
    }
}

/*
 * Keys are compared only at the levels of the notification, because json columns may have duplicate
 * keys.
 */
static bool
read_named_object(struct reader *reader)
{
    struct key keys[KEYS_MAX];
    int count = 0;

    return read_members(reader, keys, &count) &&
           (reader->depth != 1 || count == 3 || fail(reader, "unexpected key of a notification"));
}

static bool
read_object(struct reader *reader)
{
    int count;

    reader->at++;
    skip_blanks(reader);
    if (peek(reader) != '}') {
        if ((reader->flags & STRICT_NOTIFICATION) && reader->depth <= NAMED_DEPTH) {
            if (!read_named_object(reader))
                return false;
        } else if (!read_members(reader, NULL, &count)) {
            return false;
        }
    } else if ((reader->flags & STRICT_NOTIFICATION) && reader->depth == 1) {
        return fail(reader, "unexpected key of a notification");
    }
    reader->at++;
    return true;
}

static bool
read_value(struct reader *reader)
{
    struct key inside;
    bool good;

    skip_blanks(reader);
    if (++reader->depth > DEPTH_MAX)
        return fail(reader, "too deep");
    if (reader->depth == 1 && (reader->flags & STRICT_NOTIFICATION) && peek(reader) != '{')
        return fail(reader, "not an object");
    switch (peek(reader)) {
    case '{':
        good = read_object(reader);
        break;
    case '[':
        good = read_array(reader);
        break;
    case '"':
        good = read_string(reader, &inside);
        break;
    case 't':
        good = read_word(reader, "true");
        break;
    case 'f':
        good = read_word(reader, "false");
        break;
    case 'n':
        good = read_word(reader, "null");
        break;
    default:
        good = read_number(reader);
    }
    reader->depth--;
    return good;
}

const char *
strict_json_check(const char *text, size_t len, unsigned flags, size_t *ret_at)
{
    struct reader reader = {.start = text, .at = text, .end = text + len, .flags = flags};

    if (read_value(&reader)) {
        skip_blanks(&reader);
        if (reader.at != reader.end)
            (void)fail(&reader, "trailing bytes after the value");
    }
    *ret_at = (size_t)(reader.at - text);
    return reader.fault;
}

static char *
put_utf8(char *dst, uint32_t code)
{
    if (code < 0x80) {
        *dst++ = (char)code;
        return dst;
    }
    if (code < 0x800) {
        *dst++ = (char)(0xC0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *dst++ = (char)(0xE0 | code >> 12);
        } else {
            *dst++ = (char)(0xF0 | code >> 18);
            *dst++ = (char)(0x80 | (code >> 12 & 0x3F));
        }
        *dst++ = (char)(0x80 | (code >> 6 & 0x3F));
    }
    *dst++ = (char)(0x80 | (code & 0x3F));
    return dst;
}

char *
strict_json_unescape(char *dst, const char *src, size_t len)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    struct reader reader = {.start = src, .at = src, .end = src + len};

    while (reader.at < reader.end) {
        uint32_t code;
        uint32_t low;
        char c = *reader.at++;

        if (c != '\\') {
            *dst++ = c;
            continue;
        }
        c = *reader.at++;
        if (c != 'u') {
            *dst++ = meant[strchr(letters, c) - letters];
            continue;
        }
        (void)read_hex4(&reader, &code);
        if (code >= 0xD800 && code <= 0xDBFF) {
            reader.at += 2;
            (void)read_hex4(&reader, &low);
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
        dst = put_utf8(dst, code);
    }
    return dst;
}
