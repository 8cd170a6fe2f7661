/* send_queue.h: sends commands to the store at the end of each loop iteration. */
#ifndef CLAIRON_STORE_SEND_QUEUE_H
#define CLAIRON_STORE_SEND_QUEUE_H

#include <hiredis/async.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

struct ev_loop;
struct send_queue;

struct send_queue *send_queue_new(struct ev_loop *loop);
void send_queue_free(struct send_queue *queue); /* requires send_queue_end; accepts NULL */

/* Attaches the queue and the loop to this connection. */
void send_queue_use(struct send_queue *queue, redisAsyncContext *redis);
/* Call it when the connection is lost: unsent commands receive a NULL reply. */
void send_queue_end(struct send_queue *queue);

/* Time of the last bytes that arrived on a connection of this queue; 0: none. */
int64_t send_queue_received_us(const struct send_queue *queue);

/* Sends one command. RC_AGAIN: not sent. */
MUST_CHECK enum rc send_queue_send(struct send_queue *queue, redisCallbackFn *on_reply, void *ctx,
                                   int argc, const char **argv, const size_t *lens);

/*
 * Sends `count` encoded commands. Takes ownership of `bytes` (malloc). `on_reply` is called for
 * each command.
 */
void send_queue_send_ready(struct send_queue *queue, redisCallbackFn *on_reply, void *ctx,
                           char *bytes, size_t len, size_t count);

#endif
