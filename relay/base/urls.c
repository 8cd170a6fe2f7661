/* urls.c: splits store.url into its servers, and parses each; checks libpq connection strings. */
#include "base/urls.h"

#include <errno.h>
#include <libpq-fe.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static const struct {
    const char *scheme;
    enum urls_kind kind;
    const char *of_server;
} schemes[] = {
    {"redis+sentinel://", URLS_SENTINEL, "redis://"},
    {"rediss+sentinel://", URLS_SENTINEL, "rediss://"},
    {"redis+cluster://", URLS_CLUSTER, "redis://"},
    {"rediss+cluster://", URLS_CLUSTER, "rediss://"},
};

/* The parts of scheme://credentials@host:port,host:port/rest. */
struct parts {
    enum urls_kind kind;
    const char *of_server;   /* scheme for one server */
    const char *credentials; /* including the @ */
    const char *hosts;
    const char *end; /* end of the hosts: a slash or the end of the URL */
};

/* The hosts start after the last @, because a password may contain @, commas and slashes. */
static struct parts
parts_of(const char *url)
{
    struct parts parts = {.kind = URLS_SINGLE, .of_server = ""};
    const char *sign;

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t len = strlen(schemes[i].scheme);

        if (strncmp(url, schemes[i].scheme, len) != 0)
            continue;
        parts.kind = schemes[i].kind;
        parts.of_server = schemes[i].of_server;
        url += len;
    }
    sign = strrchr(url, '@');
    parts.credentials = url;
    parts.hosts = sign != NULL ? sign + 1 : url;
    parts.end = parts.hosts + strcspn(parts.hosts, "/");
    return parts;
}

enum urls_kind
urls_kind(const char *url)
{
    return parts_of(url).kind;
}

unsigned
urls_count(const char *url)
{
    const struct parts parts = parts_of(url);
    unsigned count = 1;

    for (const char *at = parts.hosts; parts.kind != URLS_SINGLE && at < parts.end; at++)
        count += *at == ',';
    return count;
}

char *
urls_at(const char *url, unsigned number)
{
    const struct parts parts = parts_of(url);
    const char *host = parts.hosts;
    size_t len, room;
    char *one;

    if (parts.kind == URLS_SINGLE)
        return memory_text(url, strlen(url));
    for (; number > 0; number--)
        host += strcspn(host, ",") + 1;
    len = strcspn(host, ",/");
    room = strlen(parts.of_server) + (size_t)(parts.hosts - parts.credentials) + len + 1;
    one = memory_new(room);
    snprintf(one, room, "%s%.*s%.*s", parts.of_server, (int)(parts.hosts - parts.credentials),
             parts.credentials, (int)len, host);
    return one;
}

const char *
urls_rest(const char *url)
{
    const struct parts parts = parts_of(url);

    return parts.kind == URLS_SINGLE || *parts.end == '\0' ? "" : parts.end + 1;
}

/* ---- parses the URL of one server */

#define DEFAULT_PORT 6379
#define DATABASE_MAX 1000000

/* Copies [at, end) and decodes %xx. */
static enum rc
copy_decoded(char out[URL_TEXT_MAX], const char *at, const char *end)
{
    size_t len = 0;

    while (at < end) {
        char c = *at++;
        if (c == '%') {
            if (end - at < 2 || hex_value(at[0]) < 0 || hex_value(at[1]) < 0)
                return RC_BAD;
            c = (char)(hex_value(at[0]) << 4 | hex_value(at[1]));
            at += 2;
        }
        if (len + 1 >= URL_TEXT_MAX || c == '\0')
            return RC_BAD;
        out[len++] = c;
    }
    out[len] = '\0';
    return RC_OK;
}

static enum rc
read_number(const char *at, const char *end, long max, int *ret_number)
{
    char *stop;
    long number;

    errno = 0;
    number = strtol(at, &stop, 10);
    if (at == end || stop != end || errno != 0 || number < 0 || number > max)
        return RC_BAD;
    *ret_number = (int)number;
    return RC_OK;
}

static enum rc
read_host(const char *at, const char *end, struct url *address)
{
    const char *host_end = end;
    const char *port = NULL;

    if (at < end && *at == '[') {
        host_end = memchr(at, ']', (size_t)(end - at));
        if (host_end == NULL)
            return RC_BAD;
        at++;
        if (host_end + 1 < end) {
            if (host_end[1] != ':')
                return RC_BAD;
            port = host_end + 2;
        }
    } else {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        if (colon != NULL) {
            host_end = colon;
            port = colon + 1;
        }
    }
    if (host_end == at || copy_decoded(address->host, at, host_end) != RC_OK)
        return RC_BAD;
    if (port == NULL)
        return RC_OK;
    return read_number(port, end, 65535, &address->port);
}

static enum rc
read_tcp(const char *at, struct url *address)
{
    const char *slash = strchr(at, '/');
    const char *end = slash != NULL ? slash : at + strlen(at);
    const char *sign = memrchr(at, '@', (size_t)(end - at));

    if (slash != NULL && slash[1] != '\0' &&
        read_number(slash + 1, slash + strlen(slash), DATABASE_MAX, &address->database) != RC_OK)
        return RC_BAD;
    if (sign != NULL) {
        const char *colon = memchr(at, ':', (size_t)(sign - at));

        if (copy_decoded(address->user, at, colon != NULL ? colon : sign) != RC_OK ||
            (colon != NULL && copy_decoded(address->password, colon + 1, sign) != RC_OK))
            return RC_BAD;
        at = sign + 1;
    }
    return read_host(at, end, address);
}

enum rc
url_read(const char *url, struct url *ret_address)
{
    struct url address = {.port = DEFAULT_PORT};

    if (strncmp(url, "unix://", 7) == 0) {
        if (url[7] != '/' || strlen(url + 7) >= sizeof(address.path))
            return RC_BAD;
        memcpy(address.path, url + 7, strlen(url + 7) + 1);
    } else if (strncmp(url, "rediss://", 9) == 0) {
        address.tls = true;
        if (read_tcp(url + 9, &address) != RC_OK)
            return RC_BAD;
    } else if (strncmp(url, "redis://", 8) != 0 || read_tcp(url + 8, &address) != RC_OK) {
        return RC_BAD;
    }
    *ret_address = address;
    return RC_OK;
}

void
url_format(const struct url *address, char ret_text[URL_FORMAT_MAX])
{
    if (address->path[0] != '\0')
        snprintf(ret_text, URL_FORMAT_MAX, "%s", address->path);
    else
        snprintf(ret_text, URL_FORMAT_MAX, "%s:%d", address->host, address->port);
}

/* ---- checks a libpq connection string, and returns libpq's message without secrets */

#define FAULT_MAX 480
#define REDACTED_MAX 200
#define KEYWORDS_MAX 128

#define FORM                                                                                       \
    "must be a libpq connection string: keyword=value pairs such as host=/run/postgresql "         \
    "dbname=app user=clairon, a value with blanks in '..', or postgresql://user@host/app"

static const char MISSING[] = "missing \"=\"";
static const char *const UNKNOWN[] = {"invalid connection option", "invalid URI query parameter"};

/* Returns the libpq keyword closest to `word`, or NULL if none is similar. */
static const char *
nearest_keyword(const char *word)
{
    PQconninfoOption *options = PQconndefaults();
    const char *names[KEYWORDS_MAX] = {NULL}, *nearest;
    static char keyword[64];
    size_t count = 0;

    for (PQconninfoOption *one = options; one != NULL && one->keyword != NULL; one++)
        if (count < KEYWORDS_MAX)
            names[count++] = one->keyword;
    nearest = suggest_word(word, names, count);
    if (nearest != NULL)
        (void)snprintf(keyword, sizeof keyword, "%s", nearest);
    PQconninfoFree(options);
    return nearest != NULL ? keyword : NULL;
}

static const char *
suggestion(const char *message, const char *quoted, size_t len)
{
    char word[SUGGEST_WORD_MAX + 1];

    for (size_t i = 0; i < sizeof UNKNOWN / sizeof UNKNOWN[0]; i++) {
        if (strncmp(message, UNKNOWN[i], strlen(UNKNOWN[i])) != 0 || len >= sizeof word)
            continue;
        memcpy(word, quoted, len);
        word[len] = '\0';
        return nearest_keyword(word);
    }
    return NULL;
}

/* Redacts from the first to the last quote: the part that libpq quotes may contain quotes. */
static void
redact_quoted(const char *message, char redacted[REDACTED_MAX])
{
    size_t start = strncmp(message, MISSING, strlen(MISSING)) == 0 ? strlen(MISSING) : 0;
    size_t len = strcspn(message, "\n");
    const char *first = strchr(message + start, '"'), *last = strrchr(message + start, '"');
    const char *keyword;

    if (first == NULL || last == first) {
        (void)snprintf(redacted, REDACTED_MAX, "%.*s", (int)len, message);
        return;
    }
    keyword = suggestion(message, first + 1, (size_t)(last - first - 1));
    (void)snprintf(redacted, REDACTED_MAX, "%.*s\"..\"%.*s%s%s%s", (int)(first - message), message,
                   (int)strcspn(last + 1, "\n"), last + 1, keyword != NULL ? "; did you mean " : "",
                   keyword != NULL ? keyword : "", keyword != NULL ? "?" : "");
}

const char *
conninfo_error(const char *text)
{
    static char fault[FAULT_MAX];
    char *message = NULL, redacted[REDACTED_MAX];
    PQconninfoOption *options = PQconninfoParse(text, &message);

    if (options != NULL) {
        PQconninfoFree(options);
        return NULL;
    }
    redact_quoted(message != NULL ? message : "out of memory", redacted);
    if (message != NULL)
        explicit_bzero(message, strlen(message));
    PQfreemem(message);
    (void)snprintf(fault, sizeof fault, "%s (libpq: %s)", FORM, redacted);
    return fault;
}

char *
conninfo_passfile(const char *text)
{
    PQconninfoOption *options = PQconninfoParse(text, NULL);
    char *path = NULL;

    for (PQconninfoOption *one = options; one != NULL && one->keyword != NULL; one++)
        if (strcmp(one->keyword, "passfile") == 0 && one->val != NULL)
            path = memory_text(one->val, strlen(one->val));
    PQconninfoFree(options);
    return path;
}
