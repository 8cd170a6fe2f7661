/* http_head.c: validates the header of an HTTP request against request smuggling. */
#include "wire/http_head.h"

#include <string.h>
#include <strings.h>

/* Headers that must be unique, because parsers differ in which duplicate they use. */
static const char *const SINGLE[] = {
    "host",    "content-length",    "transfer-encoding",     "authorization",   "origin",
    "upgrade", "sec-websocket-key", "sec-websocket-version", "idempotency-key", "last-event-id",
};
enum { SINGLE_HOST = 0, SINGLE_LENGTH = 1, SINGLE_ENCODING = 2, SINGLE_ORIGIN = 4 };

struct head_scan {
    struct http_head head;
    unsigned seen; /* bitmap of the headers found in SINGLE */
    bool is_1_1;
    const char *upgrade; /* start of the header's line; NULL: absent */
    bool is_websocket;
    bool is_connection_upgrade;
    const char *why;
};

static enum rc
reject_head(struct head_scan *scan, const char *why)
{
    scan->why = why;
    return RC_BAD;
}

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

static bool
is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

/* 00 to 1f, and 7f. */
static bool
is_hex_of_control(const char *hex)
{
    return hex[0] == '0' || hex[0] == '1' || (hex[0] == '7' && (hex[1] == 'f' || hex[1] == 'F'));
}

/*
 * RFC 3986, 2.1. Decoded arguments are C strings, which %00 would terminate, and the library drops
 * line breaks (gate/net/lws_workarounds.h). No valid argument contains a control character.
 */
static enum rc
check_target(struct head_scan *scan)
{
    const char *at = scan->head.target, *end = at + scan->head.target_len;
    int arguments = 0;

    if (*at != '/')
        return reject_head(scan, "request target must be a path");
    if (has_control(at, scan->head.target_len))
        return reject_head(scan, "control character in the request target");
    for (; at < end; at++) {
        if (*at == '%' && (end - at < 3 || !is_hex(at[1]) || !is_hex(at[2])))
            return reject_head(scan, "% without two hexadecimal digits in the request target");
        if (*at == '%' && at[1] == '0' && at[2] == '0')
            return reject_head(scan, "%00 in the request target");
        if (*at == '%' && is_hex_of_control(at + 1))
            return reject_head(scan, "encoded control character in the request target");
        if (*at == '&' && ++arguments == HTTP_HEAD_ARGUMENTS_MAX)
            return reject_head(scan, "too many query arguments");
    }
    return RC_OK;
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
    const char *query = memchr(head->target, '?', head->target_len);
    size_t len = query != NULL ? (size_t)(query - head->target) : head->target_len;
    char before = '\0';

    for (size_t i = 0; i < len; i++) {
        char c = head->target[i];

        if (!is_path_letter(c) && ((c != '/' && c != '.') || before == '/'))
            return false;
        before = c;
    }
    return true;
}

/* Parses "GET /path HTTP/1.1". */
static enum rc
read_first_line(struct head_scan *scan, const char *line, size_t len)
{
    static const char VERSION[] = "HTTP/1.";
    const char *blank = memchr(line, ' ', len);
    const char *end = line + len, *second;

    if (blank == NULL || !is_token(line, (size_t)(blank - line)))
        return reject_head(scan, "request line without a method");
    second = memchr(blank + 1, ' ', (size_t)(end - blank - 1));
    if (second == NULL || end - second != (ptrdiff_t)sizeof(VERSION) + 1 ||
        memcmp(second + 1, VERSION, sizeof(VERSION) - 1) != 0 || (end[-1] != '0' && end[-1] != '1'))
        return reject_head(scan, "request line does not end with HTTP/1.1");
    scan->is_1_1 = end[-1] == '1';
    scan->head = (struct http_head){.method = line,
                                    .method_len = (size_t)(blank - line),
                                    .target = blank + 1,
                                    .target_len = (size_t)(second - blank - 1)};
    return check_target(scan);
}

static enum rc
record_single(struct head_scan *scan, const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(SINGLE) / sizeof(SINGLE[0]); i++) {
        if (strlen(SINGLE[i]) != len || strncasecmp(SINGLE[i], name, len) != 0)
            continue;
        if ((scan->seen & 1u << i) != 0)
            return reject_head(scan, "duplicate header that must be unique");
        scan->seen |= 1u << i;
    }
    return RC_OK;
}

static bool
is_header_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void
trim(const char **at, const char **end)
{
    while (*at < *end && is_header_blank(**at))
        (*at)++;
    while (*end > *at && is_header_blank((*end)[-1]))
        (*end)--;
}

/* RFC 9112, 6.3: any other length would make the end of the request ambiguous. */
static bool
is_number(const char *at, const char *end)
{
    trim(&at, &end);
    if (at == end)
        return false;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at == end;
}

/* True if the value equals `word`, case-insensitively. */
static bool
is_word(const char *at, const char *end, const char *word)
{
    trim(&at, &end);
    return (size_t)(end - at) == strlen(word) && strncasecmp(at, word, strlen(word)) == 0;
}

/* True if the comma-separated value contains `word`, case-insensitively. */
static bool
contains_token(const char *at, const char *end, const char *word)
{
    size_t len = strlen(word);

    while (at < end) {
        const char *begin = at;

        while (at < end && !is_header_blank(*at) && *at != ',')
            at++;
        if ((size_t)(at - begin) == len && strncasecmp(begin, word, len) == 0)
            return true;
        at++;
    }
    return false;
}

static void
record_upgrade(struct head_scan *scan, const char *line, size_t name_len, const char *end)
{
    static const char WEBSOCKET[] = "websocket", UPGRADE[] = "upgrade", CONNECTION[] = "connection";
    const char *value = line + name_len + 1;

    if (name_len == strlen(CONNECTION) && strncasecmp(line, CONNECTION, name_len) == 0)
        scan->is_connection_upgrade |= contains_token(value, end, UPGRADE);
    if (name_len != strlen(UPGRADE) || strncasecmp(line, UPGRADE, name_len) != 0)
        return;
    scan->upgrade = line;
    scan->is_websocket = is_word(value, end, WEBSOCKET);
}

static enum rc
read_field(struct head_scan *scan, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len);
    unsigned before;
    enum rc rc;

    if (is_header_blank(line[0]))
        return reject_head(scan, "obsolete line folding in a header");
    if (colon == NULL || !is_token(line, (size_t)(colon - line)))
        return reject_head(scan, "header without a name, or with whitespace before its colon");
    if (has_control(colon, len - (size_t)(colon - line)))
        return reject_head(scan, "control character in a header");
    before = scan->seen;
    rc = record_single(scan, line, (size_t)(colon - line));
    if (rc == RC_OK && (scan->seen & ~before) == 1u << SINGLE_LENGTH &&
        !is_number(colon + 1, line + len))
        return reject_head(scan, "Content-Length is not a number");
    /*
     * RFC 6454, 7.1: a page without an origin sends "null". An empty Origin would look like an
     * absent Origin.
     */
    if (rc == RC_OK && (scan->seen & ~before) == 1u << SINGLE_ORIGIN &&
        is_word(colon + 1, line + len, ""))
        return reject_head(scan, "empty Origin");
    record_upgrade(scan, line, (size_t)(colon - line), line + len);
    return rc;
}

static enum rc
validate(struct head_scan *scan)
{
    const unsigned both = 1u << SINGLE_LENGTH | 1u << SINGLE_ENCODING;

    if ((scan->seen & both) == both)
        return reject_head(scan, "both Content-Length and Transfer-Encoding");
    if (scan->is_1_1 && (scan->seen & 1u << SINGLE_HOST) == 0)
        return reject_head(scan, "missing Host");
    scan->head.is_websocket = scan->is_websocket && scan->is_connection_upgrade;
    if (!scan->head.is_websocket)
        scan->head.idle_upgrade = scan->upgrade;
    return RC_OK;
}

/* RC_AGAIN: the header is incomplete. */
static enum rc
scan_lines(struct head_scan *scan, const char *bytes, size_t len)
{
    const char *at = bytes, *end = bytes + len;

    for (int lines = 0; lines <= HTTP_HEAD_LINES_MAX; lines++) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        size_t line_len;
        enum rc rc;

        if (feed == NULL)
            return RC_AGAIN;
        if (feed == at || feed[-1] != '\r')
            return reject_head(scan, "line without a carriage return");
        line_len = (size_t)(feed - 1 - at);
        if (line_len == 0) {
            scan->head.len = (size_t)(feed + 1 - bytes);
            return lines > 0 ? validate(scan) : reject_head(scan, "empty request line");
        }
        rc = lines == 0 ? read_first_line(scan, at, line_len) : read_field(scan, at, line_len);
        if (rc != RC_OK)
            return rc;
        at = feed + 1;
    }
    return RC_LIMIT;
}

enum rc
http_head_check(const char *bytes, size_t len, size_t max, struct http_head *ret_head,
                const char **ret_why)
{
    struct head_scan scan = {.why = NULL};
    enum rc rc = scan_lines(&scan, bytes, len < max ? len : max);

    if (rc == RC_AGAIN && len >= max)
        return RC_LIMIT;
    if (rc == RC_OK)
        *ret_head = scan.head;
    if (rc == RC_BAD)
        *ret_why = scan.why;
    return rc;
}
