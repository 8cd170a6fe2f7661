/* resolve.h: resolves host names without blocking the loop. */
#ifndef CLAIRON_BASE_RESOLVE_H
#define CLAIRON_BASE_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

struct ev_loop;
struct resolve;

#define RESOLVE_ADDRESS_MAX 64
#define RESOLVE_HOSTS_MAX 8     /* per lookup */
#define RESOLVE_ADDRESSES_MAX 4 /* maximum addresses per host; further ones are dropped */

struct resolved {
    unsigned host; /* index of the host, from 0 */
    char address[RESOLVE_ADDRESS_MAX];
};

/* True if the host is not a numeric address and needs a lookup. */
bool resolve_is_needed(const char *host);

/*
 * `found` lists the addresses by host, in the system's order. If `count` is 0, `error` is the
 * reason.
 */
typedef void resolve_done(void *ctx, const struct resolved *found, size_t count, const char *error);

/*
 * Resolves up to RESOLVE_HOSTS_MAX hosts in a child process: getaddrinfo() blocks for half a minute
 * or longer if a name server does not respond. Calls back once, from the loop, unless resolve_stop
 * is called first; both free the lookup. NULL: no child process could be started.
 */
struct resolve *resolve_start(struct ev_loop *loop, const char *const *hosts, size_t count,
                              resolve_done *done, void *ctx);
void resolve_stop(struct resolve *resolve); /* accepts NULL */

#endif
