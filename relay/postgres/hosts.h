/* hosts.h: resolves the hosts in a connection string without blocking. */
#ifndef CLAIRON_POSTGRES_HOSTS_H
#define CLAIRON_POSTGRES_HOSTS_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/resolve.h"

/*
 * Parameters for libpq: comma-separated lists of equal length. NULL: use the value in conninfo.
 * Valid until the next postgres_hosts_find.
 */
struct postgres_hosts_found {
    const char *host;
    const char *hostaddr;
    const char *port;
};

/* `found` is NULL if no host was resolved; `error` is the reason. */
typedef void postgres_hosts_done(void *ctx, const struct postgres_hosts_found *found,
                                 const char *error);

struct postgres_hosts {
    struct ev_loop *loop;
    postgres_hosts_done *done;
    void *ctx;
    struct resolve *resolve; /* NULL: no lookup is in progress */
    char *host_text;         /* the lists in conninfo, split in place */
    char *port_text;
    const char *hosts[RESOLVE_HOSTS_MAX];
    const char *ports[RESOLVE_HOSTS_MAX];
    size_t count;
    size_t port_count;                     /* 0: default port; 1: one port for all hosts */
    unsigned looked_up[RESOLVE_HOSTS_MAX]; /* index into hosts[] for each name looked up */
    struct postgres_hosts_found found;     /* the last result */
    struct buffer host;                    /* the strings in `found` */
    struct buffer hostaddr;
    struct buffer port;
    size_t found_count;
    int64_t found_us; /* monotonic; 0: never */
};

/*
 * Calls back once, from this call or from the loop, unless postgres_hosts_end is called first. A
 * result younger than `max_age_us` is reused.
 */
void postgres_hosts_find(struct postgres_hosts *hosts, const char *conninfo, int64_t max_age_us);
void postgres_hosts_end(struct postgres_hosts *hosts);  /* a no-op if nothing was started */
void postgres_hosts_free(struct postgres_hosts *hosts); /* call postgres_hosts_end first */

#endif
