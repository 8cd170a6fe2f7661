/* resolve.h: looks up the addresses of hosts without holding up the loop. */
#ifndef CLAIRON_BASE_RESOLVE_H
#define CLAIRON_BASE_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

struct ev_loop;
struct resolve;

#define RESOLVE_ADDRESS_MAX 64
#define RESOLVE_HOSTS_MAX 8     /* at a time */
#define RESOLVE_ADDRESSES_MAX 4 /* of a host; of more the first */

struct resolved {
    unsigned host; /* which of them, from 0 on */
    char address[RESOLVE_ADDRESS_MAX];
};

/* A name that only a lookup makes an address of. */
bool resolve_is_needed(const char *host);

/* What was found, host by host, as the system orders it. None at all: `error` says why. */
typedef void resolve_done(void *ctx, const struct resolved *found, size_t count, const char *error);

/*
 * Looks up to RESOLVE_HOSTS_MAX hosts up, in a process of its own: a name server that is silent
 * keeps who asks waiting for half a minute and longer. Calls back once, from the loop, unless
 * resolve_stop comes first; then the lookup is gone. NULL: the system has no process for it, errno
 * says why.
 */
struct resolve *resolve_start(struct ev_loop *loop, const char *const *hosts, size_t count,
                              resolve_done *done, void *ctx);
void resolve_stop(struct resolve *resolve); /* accepts NULL */

#endif
