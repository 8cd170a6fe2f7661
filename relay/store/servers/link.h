/* link.h: one connection to the store, with automatic reconnects. */
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
struct servers;

struct link_events {
    void (*on_up)(void *ctx); /* called when the server has loaded its dataset and the scripts */
    /* Pending callbacks were called with NULL, or will be when the running callback returns. */
    void (*on_down)(void *ctx, const char *reason);
    bool (*ignores_timeout)(void *ctx); /* returns true to ignore an overdue reply; may be NULL */
    /*
     * An attempt to connect to `server` failed, or a usable connection: `server` is then NULL. May
     * be NULL. Other callbacks are not called yet.
     */
    void (*on_failed)(void *ctx, const char *server, const char *reason);
    void *ctx;
};

/*
 * `reply` belongs to hiredis and is valid only during the callback (reply.h). NULL: the connection
 * broke, and the command may or may not have taken effect. Called from the loop.
 */
typedef void link_reply(void *ctx, const struct redisReply *reply);

/* The shard to which a link connects, and its component name in the log. */
struct link_target {
    struct servers *servers;
    unsigned shard;
    const char *name;
    bool may_pause; /* a person may pause the process */
};

/*
 * Connects to the shard's server. Reconnects with backoff when the connection breaks, and
 * immediately when the shard is found on another server. The connection breaks if a command
 * is pending, and no bytes of a reply arrive for `timeout_s`.
 */
struct link *link_open(struct ev_loop *loop, const struct config *config,
                       const struct link_target *target, double timeout_s,
                       const struct link_events *events);
void link_close(struct link *link); /* calls pending callbacks with NULL; accepts NULL */

bool link_is_up(const struct link *link);
/* The server runs a script that takes long. */
bool link_is_busy(const struct link *link);

/* Returns the monotonic time of the last reply of a usable connection (link_set_usable). */
int64_t link_heard_us(const struct link *link);

/* Measures the duration of scripts from now on. */
void link_measure(struct link *link, struct stats *stats);

/* Call it when the connection works. Resets the backoff. */
void link_set_usable(struct link *link);

/*
 * Reconnects, for example after an invalid reply. `reason` NULL: no failure, not logged. `link` may
 * be NULL.
 */
void link_restart(struct link *link, const char *reason);

/*
 * True if the error means that the shard is moving or has moved to another server. The request had
 * no effect; after link_restart the link searches for the server. Such an error is expected, and
 * not logged. Always false with a store of one server.
 */
bool link_is_redirected(const struct link *link, const char *error);

/*
 * Sends one command. RC_AGAIN if the link is down: nothing was sent, and `reply` is not called.
 * `lens` NULL: all arguments end with a NUL byte.
 */
MUST_CHECK enum rc link_send(struct link *link, link_reply *reply, void *ctx, int argc,
                             const char **argv, const size_t *lens);

/*
 * Sends `count` encoded commands. Takes ownership of `bytes` (malloc), even on error. `reply` is
 * called once per command, in order. The time until the last reply is measured as `what`.
 */
MUST_CHECK enum rc link_send_ready(struct link *link, enum time_of what, link_reply *reply,
                                   void *ctx, char *bytes, size_t len, size_t count);

/* Return the text of a script, and what it is measured as, for link_send_ready. */
const char *link_script_text(enum store_script script);
enum time_of link_script_time(enum store_script script);

/* Returns a key that never exists, for link_send_ready. */
const char *link_none_key(const struct link *link);

/*
 * Like link_send, for a script: `argv` contains the keys, then the arguments. KEY_NONE is declared
 * as an additional key (keys.h).
 */
MUST_CHECK enum rc link_call(struct link *link, enum store_script script, int key_count,
                             link_reply *reply, void *ctx, int argc, const char **argv,
                             const size_t *lens);

#endif
