/* link.h: one connection to the store; it reconnects by itself. */
#ifndef CLAIRON_STORE_LINK_H
#define CLAIRON_STORE_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "base/rc.h"
#include "base/stats.h"
#include "store/scripts/scripts.h"

struct ev_loop;
struct link;
struct redisReply;

struct link_events {
    void (*on_up)(void *ctx); /* ready: data loaded, scripts known */
    /* Pending replies were given up, or are as soon as the one that is at work returns. */
    void (*on_down)(void *ctx, const char *reason);
    bool (*is_excused)(void *ctx); /* silence is no fault now; NULL: it always is */
    void *ctx;
};

/*
 * `reply` is hiredis' own and dies after the callback, see reply.h; NULL: the connection broke, and
 * whether the command took effect is not known. Called from the loop.
 */
typedef void link_reply(void *ctx, const struct redisReply *reply);

/*
 * Connects to `url`, as store.url has it, now and again whenever it breaks, with backoff. A command
 * that is not answered within `patience_s` breaks the connection. `name` speaks in the log.
 */
struct link *link_open(struct ev_loop *loop, const struct config *config, const char *url,
                       const char *name, double patience_s, const struct link_events *events);
void link_close(struct link *link); /* gives up pending replies first; accepts NULL */

bool link_is_up(const struct link *link);

/* From now on tells stats how long scripts take. */
void link_measure(struct link *link, struct stats *stats);

/* The connection has proved itself: the next break is tried again soon. */
void link_settle(struct link *link);

/*
 * Breaks the connection and starts over: for replies that cannot be. No reason (NULL): nothing
 * failed. Accepts NULL.
 */
void link_restart(struct link *link, const char *reason);

/*
 * Sends one command; RC_AGAIN when the link is down: nothing was sent, `reply` is not called.
 * `lens` NULL: all are texts.
 */
MUST_CHECK enum rc link_send(struct link *link, link_reply *reply, void *ctx, int argc,
                             const char **argv, const size_t *lens);

/*
 * Sends so many commands that are already in the store's protocol, in a row; takes the bytes
 * (malloc). `reply` is called once for each of them, in their order; `what` counts until the last.
 */
MUST_CHECK enum rc link_send_ready(struct link *link, enum time_of what, link_reply *reply,
                                   void *ctx, char *bytes, size_t len, size_t count);

/* As link_send for one of the scripts: `argv` holds the keys, then the arguments. */
MUST_CHECK enum rc link_call(struct link *link, enum store_script script, int key_count,
                             link_reply *reply, void *ctx, int argc, const char **argv,
                             const size_t *lens);

#endif
