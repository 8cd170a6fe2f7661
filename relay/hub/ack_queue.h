/* ack_queue.h: acknowledgements that wait for the store. */
#ifndef CLAIRON_HUB_ACK_QUEUE_H
#define CLAIRON_HUB_ACK_QUEUE_H

struct hub;

/*
 * Copies the strings. `shard` is the shard of the notification; -1: unknown. If the queue is full,
 * the ack is dropped and logged; the notification remains pending and will be retried.
 */
void acks_add(struct hub *hub, const char *user, const char *id, int shard);

/* Sends delivery reports, then one batch of acks, unless one is in flight. */
void acks_flush(struct hub *hub);

/*
 * Called when the store is up. Sends all acks, including acks that waited for an unavailable shard.
 */
void acks_resume(struct hub *hub);

void acks_free(struct hub *hub);

#endif
