/* urls.c: splits store.url into its servers. */
#include "base/urls.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

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
