/* feed_hosts.h: finds the addresses of hosts in a connection string without waiting for them. */
#ifndef CLAIRON_FEED_FEED_HOSTS_H
#define CLAIRON_FEED_FEED_HOSTS_H

#include "base/resolve.h"

/*
 * As libpq has them: lists between commas, of as many each, or NULL: as conninfo has it. They die
 * after the callback.
 */
struct feed_hosts_found {
    const char *host;
    const char *hostaddr;
    const char *port;
};

/* None found: `found` is NULL, and `error` says why. */
typedef void feed_hosts_done(void *ctx, const struct feed_hosts_found *found, const char *error);

struct feed_hosts {
    struct ev_loop *loop;
    feed_hosts_done *done;
    void *ctx;
    struct resolve *resolve; /* NULL: nothing is looked up */
    char *host_text;         /* the two lists, taken apart */
    char *port_text;
    const char *hosts[RESOLVE_HOSTS_MAX];
    const char *ports[RESOLVE_HOSTS_MAX];
    size_t count;
    size_t port_count;                     /* 0: the default; 1: that of all */
    unsigned looked_up[RESOLVE_HOSTS_MAX]; /* which of them, in the order of the lookup */
};

/* Calls back once, at once or from the loop, unless feed_hosts_end comes first. */
void feed_hosts_find(struct feed_hosts *hosts, const char *conninfo);
void feed_hosts_end(struct feed_hosts *hosts); /* also of what was not begun */

#endif
