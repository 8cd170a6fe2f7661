/*
 * slot_counts.h: counts the keys of slots on the nodes of a cluster. All counts on a node share one
 * connection, because a relay with many shards counts all of them when it starts.
 */
#ifndef CLAIRON_STORE_SLOT_COUNTS_H
#define CLAIRON_STORE_SLOT_COUNTS_H

#include "base/config.h"
#include "store/connection/url.h"

struct ev_loop;
struct slot_count;
struct slot_counts;

struct slot_counts *slot_counts_open(struct ev_loop *loop, const struct config *config);
/* Call it after all counts have ended or were stopped. */
void slot_counts_close(struct slot_counts *counts);

/*
 * Called once, from the loop. `error` NULL: the node has `keys` keys of the slot. Otherwise the
 * node rejected the command or did not reply within a second; a count that was started on an
 * existing connection was then repeated on another one. The count is freed after the call.
 */
typedef void slot_counted(void *ctx, long long keys, const char *error);

struct slot_count *slot_count_start(struct slot_counts *counts, const struct url *address,
                                    unsigned slot, slot_counted *done, void *ctx);
void slot_count_stop(struct slot_count *count); /* `done` is not called; accepts NULL */

#endif
