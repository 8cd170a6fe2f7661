/*
 * outbox.h: what goes out on a connection to the store: at the end of a turn, as much as its socket
 * takes.
 */
#ifndef CLAIRON_STORE_OUTBOX_H
#define CLAIRON_STORE_OUTBOX_H

#include <hiredis/async.h>
#include <stddef.h>

#include "base/rc.h"

struct ev_loop;
struct outbox;

struct outbox *outbox_new(struct ev_loop *loop);
void outbox_free(struct outbox *outbox); /* only when it is unused; accepts NULL */

/* From now on for this connection, whose events it attaches to the loop. */
void outbox_use(struct outbox *outbox, redisAsyncContext *redis);
/* The connection is gone: what was not sent is answered with nothing. */
void outbox_end(struct outbox *outbox);

/* One command. RC_AGAIN: nothing was taken. */
MUST_CHECK enum rc outbox_send(struct outbox *outbox, redisCallbackFn *answer, void *ctx, int argc,
                               const char **argv, const size_t *lens);

/* So many commands in the store's protocol; takes the bytes (malloc). `answer` comes for each. */
void outbox_send_ready(struct outbox *outbox, redisCallbackFn *answer, void *ctx, char *bytes,
                       size_t len, size_t count);

#endif
