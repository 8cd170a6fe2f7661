/* batch.h: frames as arguments of the ingest script. */
#ifndef CLAIRON_STORE_BATCH_H
#define CLAIRON_STORE_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

/* The first arguments are set by the caller; the frames follow. */
#define BATCH_RESERVED 8

/* The part of a batch for one shard. */
struct batch {
    const char **argv;
    size_t *lens;
    size_t argc;
    size_t room;
    size_t count;         /* frames */
    size_t notifications; /* notifications */
    bool is_simple;       /* only commits, and notifications without acks: no script is needed */
    const char *position; /* of the last frame; NULL: none */
    size_t bytes;         /* sum of the arguments' lengths */
    char **blocks;        /* positions, ids and counts as text; reused */
    size_t block_count;
    size_t text_count; /* in use */
};

struct store_batch {
    struct store *store;
    size_t count; /* frames, including stored ones and those that only advance the progress */
    size_t bytes;
    unsigned part_count;
    struct batch parts[]; /* by shard */
};

/* A notification of a simple batch. */
struct batch_notification {
    struct bytes id;
    struct bytes route;
    struct bytes data;
};
/* Iterates over the notifications: `*at` starts at 0. RC_CLOSED: the end. */
MUST_CHECK enum rc batch_next_notification(const struct batch *batch, size_t *at,
                                           struct batch_notification *ret_notification);

/* Makes room for the caller's arguments, even in an empty batch. */
void batch_reserve(struct batch *batch);

/* Advances the progress to `position` without a frame. The text must outlive the batch. */
void batch_add_position(struct batch *batch, const char *position);

/* Removes the frames and keeps the memory. */
void batch_clear(struct store_batch *batch);

#endif
