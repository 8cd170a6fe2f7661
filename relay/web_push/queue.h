/* queue.h: sends the Web Pushes of notifications to absent users, from the queue in the store. */
#ifndef CLAIRON_WEB_PUSH_QUEUE_H
#define CLAIRON_WEB_PUSH_QUEUE_H

struct config;
struct ev_loop;
struct stats;
struct store;
struct web_push_queue;
struct web_push_sender;

/* The arguments must outlive it. */
struct web_push_queue *web_push_queue_open(struct ev_loop *loop, const struct config *config,
                                           struct store *store, struct stats *stats,
                                           struct web_push_sender *sender);
/* Takes nothing more out of the queue. What is under way continues. Accepts NULL. */
void web_push_queue_stop(struct web_push_queue *queue);
void web_push_queue_close(struct web_push_queue *queue); /* accepts NULL */

#endif
