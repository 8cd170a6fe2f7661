/* json_doc.c: scans a JSON text into a list of its values. */
#include "wire/json_doc.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define NONE UINT32_MAX
#define CONTEXT_MAX 20 /* bytes of the longest token that an error repeats */
#define FEW_NAMES 16   /* up to this number, duplicates are found without sorting */
#define SAFE_DIGITS 18 /* an int64_t holds any number of this size */
#define PATH_NAMES_MAX 8

/* What peek returns instead of a byte. */
#define BYTE_END (-1)
#define BYTE_INVALID (-2)

/* The other tokens are characters: {}[]:, */
enum token {
    TOKEN_END,
    TOKEN_INVALID,
    TOKEN_TEXT,
    TOKEN_INTEGER,
    TOKEN_REAL,
    TOKEN_TRUE,
    TOKEN_FALSE,
    TOKEN_NULL,
};

struct scan {
    struct json_doc *doc;
    struct json_doc_error *error;
    bool has_failed;
    const char *at;
    const char *end;
    const char *start; /* of the last token, which ends at `at` */
    int token;
    struct json_value value; /* of the last token, if it is a string */
    bool has_nul;            /* the string contains \u0000 */
    uint32_t open;           /* the innermost container that is not closed; NONE */
    unsigned depth;          /* open containers */
};

static bool
is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

static bool
is_letter(int byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* ---- errors */

/* Columns count characters; the last one is the end of the token. */
static void
set_position(const struct scan *scan)
{
    const char *line = scan->doc->text;

    scan->error->line = 1;
    scan->error->column = 0;
    for (const char *at = line; at < scan->at; at++) {
        if (*at == '\n') {
            scan->error->line++;
            scan->error->column = 0;
        } else if (((unsigned char)*at & 0xc0u) != 0x80) {
            scan->error->column++;
        }
    }
}

/* The last value is the name of a member whose value has not been read. */
static bool
ends_with_name(const struct scan *scan)
{
    const struct json_value *last = scan->doc->values + scan->doc->count;

    return scan->open != NONE && scan->doc->values[scan->open].kind == JSON_KIND_OBJECT &&
           (--last)->kind == JSON_KIND_TEXT && last->next == 0;
}

/*
 * Names the members that contain the error, unless these are many or long. `names`: those within
 * the open containers, innermost first.
 */
static void
set_path(const struct scan *scan, const struct json_value *names[PATH_NAMES_MAX], size_t count)
{
    const struct json_value *values = scan->doc->values;
    char *path = scan->error->path;
    size_t len = 0;

    path[0] = '\0';
    for (uint32_t at = scan->open; at != NONE && values[at].next != NONE; at = values[at].next) {
        if (values[values[at].next].kind != JSON_KIND_OBJECT)
            continue;
        if (count == PATH_NAMES_MAX)
            return;
        names[count++] = &values[at - 1];
    }
    for (size_t i = 0; i < count; i++)
        len += names[i]->len + 1;
    if (len > JSON_DOC_PATH_MAX)
        return;
    while (count-- > 0) {
        memcpy(path, json_bytes(scan->doc, names[count]), names[count]->len);
        path += names[count]->len;
        *path++ = count > 0 ? '.' : '\0';
    }
}

/* Describes the first error, near the last token. Returns false. */
static bool PRINTF_LIKE(3, 4)
    fail(struct scan *scan, enum json_fault fault, const char *format, ...)
{
    size_t token_len = (size_t)(scan->at - scan->start), len;
    const struct json_value *names[PATH_NAMES_MAX];
    char *text = scan->error->text;
    va_list args;

    if (scan->has_failed)
        return false;
    scan->has_failed = true;
    scan->error->fault = fault;
    set_position(scan);
    names[0] = scan->doc->values + scan->doc->count - 1;
    set_path(scan, names, ends_with_name(scan));
    va_start(args, format);
    vsnprintf(text, JSON_DOC_ERROR_MAX, format, args);
    va_end(args);
    len = strlen(text);
    if (token_len == 0 && scan->at < scan->end)
        return false; /* the next byte is invalid */
    if (token_len == 0 || *scan->start == '\0')
        snprintf(text + len, JSON_DOC_ERROR_MAX - len, " near end of file");
    else if (token_len <= CONTEXT_MAX)
        snprintf(text + len, JSON_DOC_ERROR_MAX - len, " near '%.*s'", (int)token_len, scan->start);
    return false;
}

/* ---- tokens */

/* Returns the next byte. A byte above 0x7f starts a valid character. */
static int
peek(struct scan *scan)
{
    unsigned char byte;

    if (scan->at == scan->end)
        return BYTE_END;
    byte = (unsigned char)*scan->at;
    if (byte < 0x80 || utf8_char_len(scan->at, (size_t)(scan->end - scan->at)) > 0)
        return byte;
    (void)fail(scan, JSON_FAULT_SYNTAX, "unable to decode byte 0x%x", byte);
    return BYTE_INVALID;
}

static int
get(struct scan *scan)
{
    int byte = peek(scan);

    scan->at += byte >= 0;
    return byte;
}

/* Skips an escape. A surrogate is checked later. */
static bool
skip_escape(struct scan *scan)
{
    int byte;

    scan->at++;
    byte = get(scan);
    if (byte <= 0 || strchr("\"\\/bfnrtu", byte) == NULL)
        return fail(scan, JSON_FAULT_SYNTAX, "invalid escape");
    for (int i = 0; byte == 'u' && i < 4; i++) {
        if (hex_value((char)get(scan)) < 0)
            return fail(scan, JSON_FAULT_SYNTAX, "invalid escape");
    }
    return true;
}

/* Reads the four digits of a valid escape. */
static unsigned
code_unit(const char *digits)
{
    unsigned unit = 0;

    for (int i = 0; i < 4; i++)
        unit = unit << 4 | (unsigned)hex_value(digits[i]);
    return unit;
}

static char *
put_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    if (code < 0x800) {
        *to++ = (char)(0xc0u | code >> 6);
    } else {
        if (code < 0x10000) {
            *to++ = (char)(0xe0u | code >> 12);
        } else {
            *to++ = (char)(0xf0u | code >> 18);
            *to++ = (char)(0x80u | (code >> 12 & 0x3fu));
        }
        *to++ = (char)(0x80u | (code >> 6 & 0x3fu));
    }
    *to++ = (char)(0x80u | (code & 0x3fu));
    return to;
}

/* Reads \u and its digits, or two of them for a character beyond 16 bits. Advances *at. */
static bool
read_unicode(struct scan *scan, const char **at, unsigned *ret_code)
{
    unsigned code = code_unit(*at + 2), low;

    *at += 6;
    if (code >= 0xd800 && code <= 0xdbff && (*at)[0] == '\\' && (*at)[1] == 'u') {
        low = code_unit(*at + 2);
        *at += 6;
        if (low < 0xdc00 || low > 0xdfff)
            return fail(scan, JSON_FAULT_SURROGATE, "invalid Unicode '\\u%04X\\u%04X'", code, low);
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xd800 && code <= 0xdfff) {
        return fail(scan, JSON_FAULT_SURROGATE, "invalid Unicode '\\u%04X'", code);
    }
    scan->has_nul = scan->has_nul || code == 0;
    *ret_code = code;
    return true;
}

/*
 * Returns the end of the copies. A string is copied at most once, and its quotes leave room for the
 * terminating zero.
 */
static char *
texts_end(struct json_doc *doc)
{
    if (doc->texts == NULL)
        doc->texts = memory_new(doc->len + 1);
    return doc->texts + doc->texts_len;
}

/* Copies the string of the last token, whose escapes are complete, without its escapes. */
static bool
copy_unescaped(struct scan *scan)
{
    static const char LETTERS[] = "bfnrt", MEANINGS[] = "\b\f\n\r\t";
    struct json_doc *doc = scan->doc;
    char *start = texts_end(doc), *to = start;
    unsigned code = 0;

    for (const char *at = scan->start + 1; at < scan->at - 1;) {
        const char *letter;

        if (*at != '\\') {
            *to++ = *at++;
        } else if (at[1] == 'u') {
            if (!read_unicode(scan, &at, &code))
                return false;
            to = put_utf8(to, code);
        } else {
            letter = strchr(LETTERS, at[1]);
            *to++ = letter != NULL ? MEANINGS[letter - LETTERS] : at[1];
            at += 2;
        }
    }
    *to = '\0';
    scan->value = (struct json_value){.at = (uint32_t)doc->texts_len,
                                      .len = (uint32_t)(to - start),
                                      .kind = JSON_KIND_TEXT,
                                      .is_copied = true};
    doc->texts_len += (size_t)(to - start) + 1;
    return true;
}

/* Whether the byte continues a string without any check. */
static bool
is_plain(char byte)
{
    return (unsigned char)byte >= ' ' && (unsigned char)byte < 0x80 && byte != '"' && byte != '\\';
}

static int
scan_text(struct scan *scan)
{
    bool has_escapes = false;
    int byte;

    scan->has_nul = false;
    for (;;) {
        while (scan->at < scan->end && is_plain(*scan->at))
            scan->at++;
        byte = peek(scan);
        if (byte == '"')
            break;
        if (byte == '\\') {
            has_escapes = true;
            if (!skip_escape(scan))
                return TOKEN_INVALID;
        } else if (byte >= 0x80) {
            scan->at += utf8_char_len(scan->at, (size_t)(scan->end - scan->at));
        } else {
            if (byte == '\n')
                (void)fail(scan, JSON_FAULT_SYNTAX, "unexpected newline");
            else if (byte >= 0)
                (void)fail(scan, JSON_FAULT_SYNTAX, "control character 0x%x", (unsigned)byte);
            else
                (void)fail(scan, JSON_FAULT_SYNTAX, "premature end of input");
            return TOKEN_INVALID;
        }
    }
    scan->at++;
    scan->value = (struct json_value){.at = (uint32_t)(scan->start + 1 - scan->doc->text),
                                      .len = (uint32_t)(scan->at - scan->start - 2),
                                      .kind = JSON_KIND_TEXT};
    return !has_escapes || copy_unescaped(scan) ? TOKEN_TEXT : TOKEN_INVALID;
}

/* Skips digits. False: there is none. */
static bool
skip_digits(struct scan *scan)
{
    const char *first = scan->at;

    while (scan->at < scan->end && is_digit(*scan->at))
        scan->at++;
    (void)peek(scan); /* what follows must be valid */
    return scan->at > first;
}

static bool
read_integer(const char *at, size_t len, int64_t *ret_number)
{
    bool is_negative = *at == '-';
    int64_t number = 0;

    for (size_t i = is_negative; i < len; i++) {
        int digit = at[i] - '0';

        if (__builtin_mul_overflow(number, (int64_t)10, &number) ||
            __builtin_sub_overflow(number, (int64_t)digit, &number))
            return false;
    }
    if (!is_negative && number == INT64_MIN)
        return false;
    *ret_number = is_negative ? number : -number;
    return true;
}

static bool
read_real(const char *at, size_t len, double *ret_number)
{
    char few[64];
    char *text = len < sizeof(few) ? few : memory_new(len + 1);

    memcpy(text, at, len);
    text[len] = '\0';
    errno = 0;
    *ret_number = strtod(text, NULL);
    if (text != few)
        free(text);
    return errno != ERANGE || fabs(*ret_number) != HUGE_VAL;
}

static int
integer_token(struct scan *scan)
{
    size_t len = (size_t)(scan->at - scan->start);
    int64_t number;

    if (len <= SAFE_DIGITS || read_integer(scan->start, len, &number))
        return TOKEN_INTEGER;
    if (*scan->start == '-')
        (void)fail(scan, JSON_FAULT_RANGE, "too big negative integer");
    else
        (void)fail(scan, JSON_FAULT_RANGE, "too big integer");
    return TOKEN_INVALID;
}

static int
scan_number(struct scan *scan, int first)
{
    double number;
    int byte;

    scan->at -= first != '-';
    byte = peek(scan);
    if (byte == '0') {
        scan->at++;
        if (is_digit(peek(scan)))
            return TOKEN_INVALID;
    } else if (!skip_digits(scan)) {
        return TOKEN_INVALID;
    }
    byte = peek(scan);
    if (byte != '.' && byte != 'e' && byte != 'E')
        return scan->has_failed ? TOKEN_INVALID : integer_token(scan);
    if (byte == '.') {
        scan->at++;
        if (!skip_digits(scan))
            return TOKEN_INVALID;
        byte = peek(scan);
    }
    if (byte == 'e' || byte == 'E') {
        scan->at++;
        byte = peek(scan);
        if (byte == '+' || byte == '-')
            scan->at++;
        if (!skip_digits(scan))
            return TOKEN_INVALID;
    }
    if (scan->has_failed)
        return TOKEN_INVALID;
    if (read_real(scan->start, (size_t)(scan->at - scan->start), &number))
        return TOKEN_REAL;
    (void)fail(scan, JSON_FAULT_RANGE, "real number overflow");
    return TOKEN_INVALID;
}

static bool
is_word(const struct scan *scan, const char *word, size_t len)
{
    return (size_t)(scan->at - scan->start) == len && memcmp(scan->start, word, len) == 0;
}

static int
scan_word(struct scan *scan)
{
    while (scan->at < scan->end && is_letter(*scan->at))
        scan->at++;
    if (peek(scan) == BYTE_INVALID)
        return TOKEN_INVALID;
    if (is_word(scan, "true", 4))
        return TOKEN_TRUE;
    if (is_word(scan, "false", 5))
        return TOKEN_FALSE;
    return is_word(scan, "null", 4) ? TOKEN_NULL : TOKEN_INVALID;
}

static int
scan_token(struct scan *scan)
{
    int byte;

    if (scan->at < scan->end && json_is_blank(*scan->at)) {
        scan->doc->has_blanks = true;
        while (scan->at < scan->end && json_is_blank(*scan->at))
            scan->at++;
    }
    scan->start = scan->at;
    byte = get(scan);
    switch (byte) {
    case BYTE_END:
        return TOKEN_END;
    case BYTE_INVALID:
        return TOKEN_INVALID;
    case '{':
    case '}':
    case '[':
    case ']':
    case ':':
    case ',':
        return byte;
    case '"':
        return scan_text(scan);
    default:
        break;
    }
    if (is_digit(byte) || byte == '-')
        return scan_number(scan, byte);
    if (is_letter(byte))
        return scan_word(scan);
    if (byte >= 0x80)
        scan->at += utf8_char_len(scan->start, (size_t)(scan->end - scan->start)) - 1;
    return TOKEN_INVALID;
}

static void
next_token(struct scan *scan)
{
    scan->token = scan_token(scan);
}

/* ---- values */

static void
add_value(struct scan *scan, struct json_value value)
{
    struct json_doc *doc = scan->doc;

    if (doc->count == doc->room) {
        struct json_value *old = doc->values == doc->few ? NULL : doc->values;

        doc->room *= 2;
        doc->values = memory_grow(old, doc->room * sizeof(doc->values[0]));
        if (old == NULL)
            memcpy(doc->values, doc->few, sizeof(doc->few));
    }
    doc->values[doc->count++] = value;
}

struct name {
    const char *at;
    uint32_t len;
    uint32_t index;
};

static int
order_of_names(const void *left, const void *right)
{
    const struct name *a = left, *b = right;
    int order = a->len != b->len ? (a->len < b->len ? -1 : 1) : memcmp(a->at, b->at, a->len);

    return order != 0 ? order : (a->index < b->index ? -1 : a->index > b->index);
}

static bool
names_equal(const struct name *a, const struct name *b)
{
    return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

/* Returns the index of the first name that occurred before; NONE. Many names are sorted. */
static uint32_t
find_duplicate(struct name *names, size_t count)
{
    uint32_t first = NONE;

    if (count > FEW_NAMES)
        qsort(names, count, sizeof(names[0]), order_of_names);
    for (size_t i = 1; i < count; i++) {
        for (size_t j = count > FEW_NAMES ? i - 1 : 0; j < i; j++) {
            if (names[i].index < first && names_equal(&names[i], &names[j]))
                first = names[i].index;
        }
    }
    return first;
}

static bool
check_names(struct scan *scan, const struct json_value *object)
{
    const struct json_doc *doc = scan->doc;
    const struct json_value *name = json_doc_first(doc, object), *path[PATH_NAMES_MAX];
    bool is_member = scan->open != NONE && doc->values[scan->open].kind == JSON_KIND_OBJECT;
    struct name few[FEW_NAMES], *names = few;
    size_t count = 0;
    uint32_t duplicate;

    for (; name != NULL; name = json_doc_next(doc, object, name)) {
        if (count == FEW_NAMES) {
            names = memory_new(json_doc_count(doc, object) * sizeof(names[0]));
            memcpy(names, few, sizeof(few));
        }
        names[count++] =
            (struct name){json_bytes(doc, name), name->len, (uint32_t)(name - doc->values)};
    }
    duplicate = find_duplicate(names, count);
    if (names != few)
        free(names);
    if (duplicate == NONE)
        return true;
    name = &doc->values[duplicate];
    scan->start = scan->at = doc->text; /* the error does not repeat the last token */
    if (name->len + 2 <= CONTEXT_MAX)
        (void)fail(scan, JSON_FAULT_DUPLICATE, "duplicate object key near '\"%.*s\"'",
                   (int)name->len, json_bytes(doc, name));
    else
        (void)fail(scan, JSON_FAULT_DUPLICATE, "duplicate object key");
    path[0] = name;
    path[1] = object - 1;
    set_path(scan, path, 1 + is_member);
    return false;
}

/* The value and its contents are complete. */
static void
end_value(struct scan *scan, uint32_t index)
{
    struct json_value *values = scan->doc->values;

    values[index].next = scan->doc->count;
    if (scan->open != NONE && values[scan->open].kind == JSON_KIND_OBJECT)
        values[index - 1].next = scan->doc->count; /* its name */
}

/* The last token must close the innermost container. */
static bool
close_container(struct scan *scan)
{
    const uint32_t index = scan->open;
    struct json_value *container = &scan->doc->values[index];
    const bool is_object = container->kind == JSON_KIND_OBJECT;

    if (scan->token != (is_object ? '}' : ']'))
        return fail(scan, JSON_FAULT_SYNTAX, "'%c' expected", is_object ? '}' : ']');
    container->len = (uint32_t)(scan->at - scan->doc->text) - container->at;
    scan->open = container->next;
    scan->depth--;
    end_value(scan, index);
    return !is_object || check_names(scan, container);
}

/* While a container is open, its `next` is the container around it. */
static void
open_container(struct scan *scan, enum json_kind kind)
{
    const uint32_t index = scan->doc->count;

    add_value(scan, (struct json_value){.at = (uint32_t)(scan->start - scan->doc->text),
                                        .next = scan->open,
                                        .kind = (uint8_t)kind});
    scan->open = index;
    scan->depth++;
}

static void
add_scalar(struct scan *scan, enum json_kind kind)
{
    if (kind != JSON_KIND_TEXT)
        scan->value = (struct json_value){.at = (uint32_t)(scan->start - scan->doc->text),
                                          .len = (uint32_t)(scan->at - scan->start),
                                          .kind = (uint8_t)kind};
    add_value(scan, scan->value);
    end_value(scan, scan->doc->count - 1);
}

/* The last token must be a value, or the start of one. */
static bool
begin_value(struct scan *scan)
{
    static const enum json_kind KINDS[] = {
        [TOKEN_TEXT] = JSON_KIND_TEXT,   [TOKEN_INTEGER] = JSON_KIND_INTEGER,
        [TOKEN_REAL] = JSON_KIND_REAL,   [TOKEN_TRUE] = JSON_KIND_TRUE,
        [TOKEN_FALSE] = JSON_KIND_FALSE, [TOKEN_NULL] = JSON_KIND_NULL};

    if (scan->depth == JSON_DOC_DEPTH_MAX)
        return fail(scan, JSON_FAULT_DEPTH, "maximum parsing depth reached");
    switch (scan->token) {
    case '{':
        open_container(scan, JSON_KIND_OBJECT);
        return true;
    case '[':
        open_container(scan, JSON_KIND_ARRAY);
        return true;
    case TOKEN_TEXT:
        if (scan->has_nul)
            return fail(scan, JSON_FAULT_NUL, "\\u0000 is not allowed without JSON_ALLOW_NUL");
        break;
    case TOKEN_INTEGER:
    case TOKEN_REAL:
    case TOKEN_TRUE:
    case TOKEN_FALSE:
    case TOKEN_NULL:
        break;
    case TOKEN_INVALID:
        return fail(scan, JSON_FAULT_SYNTAX, "invalid token");
    default:
        return fail(scan, JSON_FAULT_SYNTAX, "unexpected token");
    }
    add_scalar(scan, KINDS[scan->token]);
    return true;
}

/* The last token must be the name of a member. Reads the colon, and the token after it. */
static bool
read_name(struct scan *scan)
{
    if (scan->token != TOKEN_TEXT)
        return fail(scan, JSON_FAULT_SYNTAX, "string or '}' expected");
    if (scan->has_nul)
        return fail(scan, JSON_FAULT_NUL, "NUL byte in object key not supported");
    add_value(scan, scan->value);
    next_token(scan);
    if (scan->token != ':')
        return fail(scan, JSON_FAULT_SYNTAX, "':' expected");
    next_token(scan);
    return true;
}

/* The last token starts a member or an item of the innermost container. */
static bool
begin_item(struct scan *scan)
{
    if (scan->doc->values[scan->open].kind == JSON_KIND_OBJECT)
        return read_name(scan);
    return scan->token != TOKEN_END || fail(scan, JSON_FAULT_SYNTAX, "']' expected");
}

/* Reads the value that starts with the last token, without recursion: senders choose the depth. */
static bool
read_value(struct scan *scan)
{
    for (;;) {
        uint32_t open = scan->open;

        if (!begin_value(scan))
            return false;
        if (scan->open != open) { /* the value is a container, which may be empty */
            bool is_object = scan->doc->values[scan->open].kind == JSON_KIND_OBJECT;

            next_token(scan);
            if (scan->token != (is_object ? '}' : ']')) {
                if (!begin_item(scan))
                    return false;
                continue;
            }
            if (!close_container(scan))
                return false;
        }
        for (;;) {
            if (scan->open == NONE)
                return true;
            next_token(scan);
            if (scan->token == ',')
                break;
            if (!close_container(scan))
                return false;
        }
        next_token(scan);
        if (!begin_item(scan))
            return false;
    }
}

/* After an error: closes all containers, and drops a name without a value. */
static void
keep_complete_values(struct scan *scan)
{
    struct json_doc *doc = scan->doc;

    if (ends_with_name(scan))
        doc->count--;
    while (scan->open != NONE) {
        const uint32_t index = scan->open;

        scan->open = doc->values[index].next;
        end_value(scan, index);
    }
}

enum rc
json_doc_parse(struct json_doc *doc, const char *text, size_t len, bool any,
               struct json_doc_error *ret_error)
{
    struct scan scan = {.doc = doc, .error = ret_error, .open = NONE};

    assert(len < UINT32_MAX);
    doc->text = scan.at = scan.start = text;
    scan.end = text + len;
    doc->len = len;
    doc->values = doc->few;
    doc->room = JSON_DOC_FEW;
    doc->count = 0;
    doc->has_blanks = false;
    doc->texts = NULL;
    doc->texts_len = 0;
    next_token(&scan);
    if (!any && scan.token != '{' && scan.token != '[')
        (void)fail(&scan, JSON_FAULT_SYNTAX, "'[' or '{' expected");
    else if (read_value(&scan)) {
        next_token(&scan);
        if (scan.token != TOKEN_END)
            (void)fail(&scan, JSON_FAULT_SYNTAX, "end of file expected");
    }
    if (!scan.has_failed)
        return RC_OK;
    keep_complete_values(&scan);
    return RC_BAD;
}

void
json_doc_free(struct json_doc *doc)
{
    if (doc->values != doc->few)
        free(doc->values);
    free(doc->texts);
    doc->values = NULL;
    doc->texts = NULL;
    doc->count = 0;
}

/* ---- access */

const char *
json_doc_text(struct json_doc *doc, const struct json_value *value)
{
    struct json_value *own;
    char *copy;

    if (!json_is(value, JSON_KIND_TEXT))
        return NULL;
    if (!value->is_copied) {
        own = &doc->values[value - doc->values];
        copy = texts_end(doc);
        memcpy(copy, doc->text + own->at, own->len);
        copy[own->len] = '\0';
        own->at = (uint32_t)doc->texts_len;
        own->is_copied = true;
        doc->texts_len += own->len + 1;
    }
    return doc->texts + value->at;
}

int64_t
json_doc_integer(const struct json_doc *doc, const struct json_value *value)
{
    int64_t number = 0;

    if (json_is(value, JSON_KIND_INTEGER))
        (void)read_integer(doc->text + value->at, value->len, &number);
    return number;
}

double
json_doc_number(const struct json_doc *doc, const struct json_value *value)
{
    double number = 0;

    if (json_is(value, JSON_KIND_REAL))
        (void)read_real(doc->text + value->at, value->len, &number);
    else
        number = (double)json_doc_integer(doc, value);
    return number;
}
