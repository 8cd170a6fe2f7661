/* send_queue.h: commands to the store, written at the end of a turn as the socket accepts. */
#ifndef CLAIRON_STORE_SEND_QUEUE_H
#define CLAIRON_STORE_SEND_QUEUE_H

#include <hiredis/async.h>
#include <stddef.h>

#include "base/rc.h"

struct ev_loop;
struct send_queue;

struct send_queue *send_queue_new(struct ev_loop *loop);
void send_queue_free(struct send_queue *queue); /* only when it is unused; accepts NULL */

/* From now on for this connection, whose events it attaches to the loop. */
void send_queue_use(struct send_queue *queue, redisAsyncContext *redis);
/* The connection is lost: unsent commands get a NULL reply. */
void send_queue_end(struct send_queue *queue);

/* Sends one command. RC_AGAIN: not sent. */
MUST_CHECK enum rc send_queue_send(struct send_queue *queue, redisCallbackFn *answer, void *ctx,
                                   int argc, const char **argv, const size_t *lens);

/* So many commands in the store's protocol; takes the bytes (malloc). `answer` comes for each. */
void send_queue_send_ready(struct send_queue *queue, redisCallbackFn *answer, void *ctx,
                           char *bytes, size_t len, size_t count);

#endif
