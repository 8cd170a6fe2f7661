/* http_head.c: parses the head of an HTTP request, and guards against request smuggling. */
#include "wire/http_head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/text.h"
#include "wire/bytes.h"

/* Headers that must be unique, because parsers differ in which duplicate they use. */
static const char *const SINGLE[] = {
    "host",    "content-length",    "transfer-encoding",     "authorization",   "origin",
    "upgrade", "sec-websocket-key", "sec-websocket-version", "idempotency-key", "last-event-id",
    "expect",
};
enum {
    SINGLE_HOST = 0,
    SINGLE_LENGTH = 1,
    SINGLE_ENCODING = 2,
    SINGLE_ORIGIN = 4,
    SINGLE_UPGRADE = 5,
};

/* True if the text is a token (RFC 9110). */
static bool
is_token(const char *text, size_t len)
{
    static const char OTHERS[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c != '\0' && strchr(OTHERS, c) != NULL)))
            return false;
    }
    return len > 0;
}

static bool
has_control(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
            return true;
    }
    return false;
}

/* 00 to 1f, and 7f. */
static bool
is_hex_of_control(const char *hex)
{
    return hex[0] == '0' || hex[0] == '1' || (hex[0] == '7' && (hex[1] == 'f' || hex[1] == 'F'));
}

/*
 * RFC 3986, 2.1. Decoded arguments are C strings, which %00 would terminate. No valid argument
 * contains a control character.
 */
static enum rc
check_target(const char *target, const char *end, const char **ret_why)
{
    int arguments = 0;

    *ret_why = NULL;
    if (has_control(target, (size_t)(end - target)))
        *ret_why = "control character in the request target";
    for (const char *at = target; at < end && *ret_why == NULL; at++) {
        if (*at == '%' && (end - at < 3 || hex_value(at[1]) < 0 || hex_value(at[2]) < 0))
            *ret_why = "% without two hexadecimal digits in the request target";
        else if (*at == '%' && at[1] == '0' && at[2] == '0')
            *ret_why = "%00 in the request target";
        else if (*at == '%' && is_hex_of_control(at + 1))
            *ret_why = "encoded control character in the request target";
        else if (*at == '&' && ++arguments == HTTP_HEAD_ARGUMENTS_MAX)
            *ret_why = "too many query arguments";
    }
    return *ret_why == NULL ? RC_OK : RC_BAD;
}

static bool
is_path_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '~';
}

bool
http_head_has_plain_path(const struct http_head *head)
{
    char before = '\0';

    for (size_t i = 0; i < head->path_len; i++) {
        char c = head->bytes[head->target + i];

        if (!is_path_letter(c) && ((c != '/' && c != '.') || before == '/'))
            return false;
        before = c;
    }
    return true;
}

bool
http_head_is_websocket(const struct http_head *head)
{
    return head->offers_websocket && head->connects_upgrade;
}

static enum http_method
method_of(const char *text, size_t len)
{
    static const char *const NAMES[] = {[HTTP_GET] = "GET",
                                        [HTTP_HEAD] = "HEAD",
                                        [HTTP_POST] = "POST",
                                        [HTTP_OPTIONS] = "OPTIONS",
                                        [HTTP_DELETE] = "DELETE"};

    for (int i = 0; i < HTTP_OTHER; i++) {
        if (strlen(NAMES[i]) == len && memcmp(NAMES[i], text, len) == 0)
            return (enum http_method)i;
    }
    return HTTP_OTHER;
}

/*
 * RFC 9112, 3.2: a server must reject a Host with other characters than those of a host and a port.
 * An empty one is valid.
 */
static bool
is_host(struct bytes value)
{
    static const char OTHERS[] = "-._~!$&'()*+,;=%:[]";

    for (size_t i = 0; i < value.len; i++) {
        char c = (char)value.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c != '\0' && strchr(OTHERS, c) != NULL)))
            return false;
    }
    return true;
}

/* Returns the authority of a target in absolute form, otherwise an empty one at the target. */
static struct bytes
find_authority(const char *target, const char *end)
{
    static const char *const SCHEMES[] = {"http://", "https://"};
    struct bytes found = {(const unsigned char *)target, 0};

    for (size_t i = 0; i < sizeof(SCHEMES) / sizeof(SCHEMES[0]); i++) {
        size_t len = strlen(SCHEMES[i]);

        if ((size_t)(end - target) <= len || strncasecmp(target, SCHEMES[i], len) != 0)
            continue;
        found.at += len;
        while ((const char *)found.at + found.len < end && found.at[found.len] != '/' &&
               found.at[found.len] != '?')
            found.len++;
    }
    return found;
}

/*
 * RFC 9112, 3.2: a path, an absolute URI, or * for OPTIONS. The URI has a host (RFC 9110, 4.2.1),
 * and no user (4.2.4); it may have no path.
 */
static enum rc
parse_target(struct http_head *head, const char *bytes, const char *target, const char *end,
             const char **ret_why)
{
    struct bytes authority = find_authority(target, end);
    const char *path = (const char *)authority.at + authority.len, *query;

    if (head->method == HTTP_OPTIONS && end - target == 1 && *target == '*') {
        path = end;
    } else if (path == target ? *target != '/'
                              : authority.len == 0 || *authority.at == ':' || !is_host(authority)) {
        *ret_why = "request target is neither a path nor a valid absolute URI";
        return RC_BAD;
    }
    head->authority_len = (uint16_t)authority.len;
    head->target = (uint16_t)(path - bytes);
    head->target_len = (uint16_t)(end - path);
    query = memchr(path, '?', head->target_len);
    head->path_len = query != NULL ? (uint16_t)(query - path) : head->target_len;
    return check_target(path, end, ret_why);
}

/* Parses "GET /path HTTP/1.1". */
static enum rc
parse_first_line(struct http_head *head, const char *bytes, const char *line, size_t len,
                 const char **ret_why)
{
    static const char VERSION[] = "HTTP/1.";
    const char *blank = memchr(line, ' ', len);
    const char *end = line + len, *second;

    if (blank == NULL || !is_token(line, (size_t)(blank - line))) {
        *ret_why = "request line without a method";
        return RC_BAD;
    }
    second = memchr(blank + 1, ' ', (size_t)(end - blank - 1));
    if (second == NULL || end - second != (ptrdiff_t)sizeof(VERSION) + 1 ||
        memcmp(second + 1, VERSION, sizeof(VERSION) - 1) != 0 ||
        (end[-1] != '0' && end[-1] != '1')) {
        *ret_why = "request line does not end with HTTP/1.1";
        return RC_BAD;
    }
    head->is_1_1 = end[-1] == '1';
    head->method = method_of(line, (size_t)(blank - line));
    return parse_target(head, bytes, blank + 1, second, ret_why);
}

static bool
is_header_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct bytes
trim(const char *at, const char *end)
{
    while (at < end && is_header_blank(*at))
        at++;
    while (end > at && is_header_blank(end[-1]))
        end--;
    return (struct bytes){(const unsigned char *)at, (size_t)(end - at)};
}

static bool
is_word(struct bytes text, const char *word)
{
    return text.len == strlen(word) && strncasecmp((const char *)text.at, word, text.len) == 0;
}

/* True if the comma-separated value contains `word`, case-insensitively. */
static bool
contains_token(struct bytes value, const char *word)
{
    const char *at = (const char *)value.at, *end = at + value.len;

    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;

        if (is_word(trim(at, stop), word))
            return true;
        at = stop + 1;
    }
    return false;
}

/*
 * RFC 9112, 6.3: any other length would make the end of the request ambiguous. False: not a number.
 */
static bool
parse_length(struct bytes value, int64_t *ret_length)
{
    int64_t length = 0;

    for (size_t i = 0; i < value.len; i++) {
        int digit = value.at[i] - '0';

        if (digit < 0 || digit > 9)
            return false;
        length = length > (INT64_MAX - digit) / 10 ? INT64_MAX : length * 10 + digit;
    }
    *ret_length = length;
    return value.len > 0;
}

/* Parses a header that must be unique; `i` is its index in SINGLE. Returns an error or NULL. */
static const char *
parse_single(struct http_head *head, int i, struct bytes value)
{
    if ((head->seen & 1u << i) != 0)
        return "duplicate header that must be unique";
    head->seen |= 1u << i;
    switch (i) {
    case SINGLE_HOST:
        return is_host(value) ? NULL : "Host is not a host and a port";
    case SINGLE_LENGTH:
        head->has_length = true;
        return parse_length(value, &head->content_length) ? NULL : "Content-Length is not a number";
    case SINGLE_ENCODING:
        head->is_chunked = is_word(value, "chunked");
        return head->is_chunked && head->is_1_1 ? NULL : "Transfer-Encoding is not chunked";
    case SINGLE_ORIGIN:
        /*
         * RFC 6454, 7.1: a page without an origin sends "null". An empty Origin would look like an
         * absent Origin.
         */
        return value.len > 0 ? NULL : "empty Origin";
    case SINGLE_UPGRADE:
        head->offers_websocket = is_word(value, "websocket");
        return NULL;
    default:
        return NULL;
    }
}

static enum rc
parse_field(struct http_head *head, const char *line, size_t len, const char **ret_why)
{
    const char *colon = memchr(line, ':', len);
    struct bytes name, value;

    *ret_why = NULL;
    if (is_header_blank(line[0]))
        *ret_why = "obsolete line folding in a header";
    else if (colon == NULL || !is_token(line, (size_t)(colon - line)))
        *ret_why = "header without a name, or with whitespace before its colon";
    else if (has_control(colon, len - (size_t)(colon - line)))
        *ret_why = "control character in a header";
    if (*ret_why != NULL || colon == NULL)
        return RC_BAD;
    name = (struct bytes){(const unsigned char *)line, (size_t)(colon - line)};
    value = trim(colon + 1, line + len);
    if (is_word(name, "connection")) {
        head->is_last |= contains_token(value, "close");
        head->connects_upgrade |= contains_token(value, "upgrade");
    }
    for (int i = 0; i < (int)(sizeof(SINGLE) / sizeof(SINGLE[0])) && *ret_why == NULL; i++) {
        if (is_word(name, SINGLE[i]))
            *ret_why = parse_single(head, i, value);
    }
    return *ret_why == NULL ? RC_OK : RC_BAD;
}

/* The head is complete. */
static enum rc
finish(struct http_head *head, const char *bytes, const char **ret_why)
{
    head->bytes = bytes;
    head->len = head->parsed;
    if (head->has_length && head->is_chunked)
        *ret_why = "both Content-Length and Transfer-Encoding";
    else if (head->is_1_1 && (head->seen & 1u << SINGLE_HOST) == 0)
        *ret_why = "missing Host";
    else
        return RC_OK;
    return RC_BAD;
}

static enum rc
parse_lines(struct http_head *head, const char *bytes, size_t len, const char **ret_why)
{
    while (head->lines <= HTTP_HEAD_LINES_MAX) {
        const char *line = bytes + head->parsed;
        const char *feed = memchr(line, '\n', len - head->parsed);
        size_t line_len;
        enum rc rc;

        if (feed == NULL)
            return RC_AGAIN;
        if (feed == line || feed[-1] != '\r') {
            *ret_why = "line without a carriage return";
            return RC_BAD;
        }
        line_len = (size_t)(feed - 1 - line);
        head->parsed = (size_t)(feed + 1 - bytes);
        if (line_len == 0 && line == bytes)
            continue; /* RFC 9112, 2.2: some clients send an empty line after a body */
        if (line_len == 0 && head->lines == 0) {
            *ret_why = "empty request line";
            return RC_BAD;
        }
        if (line_len == 0)
            return finish(head, bytes, ret_why);
        rc = head->lines == 0 ? parse_first_line(head, bytes, line, line_len, ret_why)
                              : parse_field(head, line, line_len, ret_why);
        if (rc != RC_OK)
            return rc;
        if (head->lines++ == 0)
            head->fields = head->parsed;
    }
    return RC_LIMIT;
}

enum rc
http_head_parse(struct http_head *head, const char *bytes, size_t len, size_t max,
                const char **ret_why)
{
    const char *why = NULL;
    enum rc rc = parse_lines(head, bytes, len < max ? len : max, &why);

    if (rc == RC_AGAIN && len >= max)
        return RC_LIMIT;
    if (rc == RC_BAD)
        *ret_why = why;
    return rc;
}

/* Finds the next line of a header, after *at. False: none is left. */
static bool
next_value(const struct http_head *head, const char *name, const char **at, struct bytes *ret_value)
{
    const char *end = head->bytes + head->len - strlen("\r\n");

    while (*at < end) {
        const char *line = *at;
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        const char *colon = memchr(line, ':', (size_t)(feed - line));

        *at = feed + 1;
        if ((size_t)(colon - line) == strlen(name) &&
            strncasecmp(line, name, (size_t)(colon - line)) == 0) {
            *ret_value = trim(colon + 1, feed - 1);
            return true;
        }
    }
    return false;
}

bool
http_head_has(const struct http_head *head, const char *name)
{
    const char *at = head->bytes + head->fields;
    struct bytes value;

    return next_value(head, name, &at, &value);
}

bool
http_head_is(const struct http_head *head, const char *name, const char *value)
{
    const char *at = head->bytes + head->fields;
    struct bytes found;

    return next_value(head, name, &at, &found) && is_word(found, value);
}

static enum rc
bounded(char *text, size_t max, char **ret_text)
{
    if (text != NULL && strlen(text) > max) {
        free(text);
        return RC_LIMIT;
    }
    *ret_text = text;
    return RC_OK;
}

enum rc
http_head_text(const struct http_head *head, const char *name, size_t max, char **ret_text)
{
    const char *at = head->bytes + head->fields;
    struct bytes value;
    char *text = NULL;
    size_t len = 0;

    while (next_value(head, name, &at, &value)) {
        if (value.len == 0)
            continue;
        text = memory_grow(text, len + value.len + 2);
        if (len > 0)
            text[len++] = ',';
        memcpy(text + len, value.at, value.len);
        len += value.len;
        text[len] = '\0';
    }
    return bounded(text, max, ret_text);
}

/* Decodes a text in which each % was validated. `blank`: the character that stands for a blank. */
static char *
decode(const char *at, const char *end, char blank)
{
    char *text = memory_new((size_t)(end - at) + 1);
    char *to = text;

    for (; at < end; at++) {
        if (*at == '%') {
            *to++ = (char)(hex_value(at[1]) << 4 | hex_value(at[2]));
            at += 2;
        } else {
            *to++ = *at == blank ? ' ' : *at;
        }
    }
    return text;
}

enum rc
http_head_host(const struct http_head *head, size_t max, char **ret_text)
{
    const size_t len = head->authority_len;

    if (len == 0)
        return http_head_text(head, "host", max, ret_text);
    return bounded(memory_text(head->bytes + head->target - len, len), max, ret_text);
}

static enum rc
find_argument(const char *at, const char *end, const char *name, size_t max, char **ret_text)
{
    size_t name_len = strlen(name);

    while (at < end) {
        const char *stop = memchr(at, '&', (size_t)(end - at));

        if (stop == NULL)
            stop = end;
        if ((size_t)(stop - at) >= name_len && memcmp(at, name, name_len) == 0)
            return bounded(decode(at + name_len, stop, '+'), max, ret_text);
        at = stop + 1;
    }
    *ret_text = NULL;
    return RC_OK;
}

enum rc
http_head_argument(const struct http_head *head, const char *name, size_t max, char **ret_text)
{
    return find_argument(head->bytes + head->target + head->path_len + 1,
                         head->bytes + head->target + head->target_len, name, max, ret_text);
}

enum rc
http_form_argument(const char *body, size_t len, const char *name, size_t max, char **ret_text)
{
    for (size_t i = 0; i < len; i++)
        if (body[i] == '\0' ||
            (body[i] == '%' && (len - i < 3 || hex_value(body[i + 1]) < 0 ||
                                hex_value(body[i + 2]) < 0 || memcmp(body + i, "%00", 3) == 0)))
            len = 0; /* invalid */
    return find_argument(body, body + len, name, max, ret_text);
}

enum rc
http_head_segment(const struct http_head *head, const char *prefix, const char *suffix, size_t max,
                  char **ret_text)
{
    const char *path = head->bytes + head->target, *at = path + strlen(prefix);
    size_t ends_len = strlen(prefix) + strlen(suffix), len = head->path_len - ends_len;

    if (head->path_len <= ends_len || memcmp(path, prefix, strlen(prefix)) != 0 ||
        memcmp(at + len, suffix, strlen(suffix)) != 0 || memchr(at, '/', len) != NULL ||
        (len <= 2 && memcmp(at, "..", len) == 0)) {
        *ret_text = NULL;
        return RC_OK;
    }
    return bounded(decode(at, at + len, '\0'), max, ret_text);
}
