/* feed_hosts.h: finds the addresses of hosts in a connection string without waiting for them. */
#ifndef CLAIRON_FEED_FEED_HOSTS_H
#define CLAIRON_FEED_FEED_HOSTS_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/resolve.h"

/*
 * As libpq has them: lists between commas, of as many each, or NULL: as conninfo has it. They live
 * until the next ones are looked for.
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
    struct feed_hosts_found found;         /* the last time */
    struct buffer host;                    /* its texts */
    struct buffer hostaddr;
    struct buffer port;
    size_t found_count;
    int64_t found_us; /* monotonic; 0: never */
};

/*
 * Calls back once, at once or from the loop, unless feed_hosts_end comes first. `known_us`: what
 * was found so lately is good enough.
 */
void feed_hosts_find(struct feed_hosts *hosts, const char *conninfo, int64_t known_us);
void feed_hosts_end(struct feed_hosts *hosts);  /* also of what was not begun */
void feed_hosts_free(struct feed_hosts *hosts); /* what it holds; after feed_hosts_end */

#endif
