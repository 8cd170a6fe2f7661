/* names.h: the addresses of host names, looked up by the relay's resolver and kept for a minute. */
#ifndef CLAIRON_HTTP_CLIENT_NAMES_H
#define CLAIRON_HTTP_CLIENT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

#include "base/memory.h"
#include "base/rc.h"

struct ev_loop;

#define NAME_LEN_MAX 253        /* RFC 1035 */
#define NAME_ADDRESSES_MAX 1024 /* bytes of a list of addresses */

struct name {
    UT_hash_handle hh;
    bool is_numeric;         /* an address, no lookup is needed */
    int users;               /* kept while positive */
    struct resolve *lookup;  /* NULL: none in progress */
    int64_t found_us;        /* of the addresses; monotonic; 0: none */
    struct buffer addresses; /* "[2001:db8::1],192.0.2.1" */
    struct names *names;
    char text[];
};

struct names {
    struct ev_loop *loop;
    /* A lookup has ended. `error`: the reason if no address was found, otherwise NULL. */
    void (*done)(void *ctx, const struct name *name, const char *error);
    void *ctx;
    struct name *all; /* hash */
    int lookup_count; /* in progress */
};

/* Returns a name with one more user; it may not be known yet. */
struct name *name_ref(struct names *names, const char *text, bool is_numeric);
void name_unref(struct name *name);

/* True if the name is numeric, or was looked up in the last minute. */
bool name_is_known(const struct name *name);

/*
 * Starts a lookup, unless one is in progress. RC_LIMIT: too many are; call again after one has
 * ended. RC_IO: the lookup could not be started.
 */
MUST_CHECK enum rc name_look_up(struct name *name);

/* Stops all lookups. */
void names_free(struct names *names);

#endif
