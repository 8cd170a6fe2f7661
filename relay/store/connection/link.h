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
    /* Pending replies were called with NULL, or are once the running callback returns. */
    void (*on_down)(void *ctx, const char *reason);
    bool (*ignores_timeout)(void *ctx); /* true: ignore an overdue reply; may be NULL */
    void *ctx;
};

/*
 * `reply` belongs to hiredis and is valid only during the callback, see reply.h. NULL: the
 * connection broke, and the command may or may not have taken effect. Called from the loop.
 */
typedef void link_reply(void *ctx, const struct redisReply *reply);

/*
 * Connects to `url` (form: store.url), and reconnects with backoff whenever the connection breaks.
 * A command without a reply within `timeout_s` breaks it. `name` is the source in the log.
 */
struct link *link_open(struct ev_loop *loop, const struct config *config, const char *url,
                       const char *name, double timeout_s, const struct link_events *events);
void link_close(struct link *link); /* calls pending replies with NULL; accepts NULL */

bool link_is_up(const struct link *link);

/* From now on measures the duration of scripts. */
void link_measure(struct link *link, struct stats *stats);

/* The connection works: resets the backoff. */
void link_set_usable(struct link *link);

/*
 * Reconnects, for example after an invalid reply. `reason` NULL: nothing failed, nothing is logged.
 * `link` may be NULL.
 */
void link_restart(struct link *link, const char *reason);

/*
 * Sends one command. RC_AGAIN if the link is down: nothing was sent, and `reply` is not called.
 * `lens` NULL: all arguments end with a NUL byte.
 */
MUST_CHECK enum rc link_send(struct link *link, link_reply *reply, void *ctx, int argc,
                             const char **argv, const size_t *lens);

/*
 * Sends `count` commands that are already in the store's protocol. Takes ownership of `bytes`
 * (malloc), even on error. `reply` is called once per command, in order. `what` is measured until
 * the last reply.
 */
MUST_CHECK enum rc link_send_ready(struct link *link, enum time_of what, link_reply *reply,
                                   void *ctx, char *bytes, size_t len, size_t count);

/* Like link_send, for a script: `argv` holds the keys, then the arguments. */
MUST_CHECK enum rc link_call(struct link *link, enum store_script script, int key_count,
                             link_reply *reply, void *ctx, int argc, const char **argv,
                             const size_t *lens);

#endif
