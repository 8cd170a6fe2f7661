/*
 * hosts.c: resolves the hosts in a connection string without blocking.
 *
 * libpq would resolve them in PQconnectStart and block the loop until the name server answers or
 * times out. Hosts from a service file or the environment are left to libpq.
 */
#include "postgres/hosts.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

#define LIST_MAX 16384

static char *
copy(const char *text)
{
    return memory_text(text, strlen(text));
}

/* Splits a string at its commas. Returns false if there are too many parts. */
static bool
split_list(char *text, const char **ret_parts, size_t *ret_count)
{
    size_t count = 0;

    for (char *rest = text, *part; (part = strsep(&rest, ",")) != NULL;) {
        if (count == RESOLVE_HOSTS_MAX)
            return false;
        ret_parts[count++] = part;
    }
    *ret_count = count;
    return true;
}

/* Returns false if there are no hosts, or libpq must resolve them. */
static bool
parse_conninfo(struct postgres_hosts *hosts, const char *conninfo)
{
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    bool resolves = getenv("PGHOSTADDR") == NULL && getenv("PGSERVICE") == NULL;

    for (const PQconninfoOption *one = options; one != NULL && one->keyword != NULL; one++) {
        if (one->val == NULL || one->val[0] == '\0')
            continue;
        if (strcmp(one->keyword, "host") == 0)
            hosts->host_text = copy(one->val);
        else if (strcmp(one->keyword, "port") == 0)
            hosts->port_text = copy(one->val);
        else if (strcmp(one->keyword, "hostaddr") == 0 || strcmp(one->keyword, "service") == 0)
            resolves = false;
    }
    PQconninfoFree(options);
    return resolves && hosts->host_text != NULL &&
           split_list(hosts->host_text, hosts->hosts, &hosts->count) &&
           split_list(hosts->port_text, hosts->ports, &hosts->port_count) &&
           (hosts->port_count <= 1 || hosts->port_count == hosts->count);
}

static void
add(struct postgres_hosts *hosts, size_t i, const char *address)
{
    const char *comma = hosts->found_count > 0 ? "," : "";
    const char *port = hosts->port_count == 0   ? ""
                       : hosts->port_count == 1 ? hosts->ports[0]
                                                : hosts->ports[i];

    if (buffer_addf(&hosts->host, "%s%s", comma, hosts->hosts[i]) == RC_OK &&
        buffer_addf(&hosts->hostaddr, "%s%s", comma, address) == RC_OK &&
        buffer_addf(&hosts->port, "%s%s", comma, port) == RC_OK)
        hosts->found_count++;
}

/* Keeps the order in conninfo, and omits unresolved hosts. */
static void
make_lists(struct postgres_hosts *hosts, const struct resolved *found, size_t count)
{
    postgres_hosts_free(hosts);
    hosts->host.limit = hosts->hostaddr.limit = hosts->port.limit = LIST_MAX;
    for (size_t i = 0; i < hosts->count; i++) {
        if (!resolve_is_needed(hosts->hosts[i]))
            add(hosts, i, "");
        for (size_t k = 0; k < count; k++)
            if (hosts->looked_up[found[k].host % RESOLVE_HOSTS_MAX] == i)
                add(hosts, i, found[k].address);
    }
    hosts->found = (struct postgres_hosts_found){hosts->host.bytes, hosts->hostaddr.bytes,
                                                 hosts->port_count > 0 ? hosts->port.bytes : NULL};
}

static void
on_resolved(void *ctx, const struct resolved *found, size_t count, const char *error)
{
    struct postgres_hosts *hosts = ctx;

    hosts->resolve = NULL;
    make_lists(hosts, found, count);
    postgres_hosts_end(hosts);
    if (hosts->found_count > 0)
        hosts->found_us = clock_monotonic_us();
    hosts->done(hosts->ctx, hosts->found_count > 0 ? &hosts->found : NULL, error);
}

void
postgres_hosts_find(struct postgres_hosts *hosts, const char *conninfo, int64_t max_age_us)
{
    const struct postgres_hosts_found as_is = {NULL, NULL, NULL};
    const char *names[RESOLVE_HOSTS_MAX];
    size_t count = 0;

    if (hosts->found_us != 0 && clock_monotonic_us() - hosts->found_us < max_age_us) {
        hosts->done(hosts->ctx, &hosts->found, "");
        return;
    }
    if (parse_conninfo(hosts, conninfo)) {
        for (size_t i = 0; i < hosts->count; i++) {
            if (!resolve_is_needed(hosts->hosts[i]))
                continue;
            hosts->looked_up[count] = (unsigned)i;
            names[count++] = hosts->hosts[i];
        }
    }
    if (count > 0)
        hosts->resolve = resolve_start(hosts->loop, names, count, on_resolved, hosts);
    if (hosts->resolve != NULL)
        return;
    postgres_hosts_end(hosts);
    hosts->done(hosts->ctx, &as_is, "");
}

void
postgres_hosts_end(struct postgres_hosts *hosts)
{
    resolve_stop(hosts->resolve);
    hosts->resolve = NULL;
    free(hosts->host_text);
    free(hosts->port_text);
    hosts->host_text = hosts->port_text = NULL;
    hosts->count = hosts->port_count = 0;
}

void
postgres_hosts_free(struct postgres_hosts *hosts)
{
    buffer_free(&hosts->host);
    buffer_free(&hosts->hostaddr);
    buffer_free(&hosts->port);
    hosts->found_count = 0;
    hosts->found_us = 0;
}
