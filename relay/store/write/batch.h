/* batch.h: a batch of frames, encoded as arguments of the ingest script. */
#ifndef CLAIRON_STORE_BATCH_H
#define CLAIRON_STORE_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

/* Number of leading arguments, which the caller sets. The frames follow. */
#define BATCH_RESERVED 10
#define BATCH_AFTER 7 /* the one with the dependencies on other shards */

/*
 * Kind of a notification whose users are staged: with acks, and without them for its Web Push. The
 * offsets of a notification's id, route, data and targets.
 */
#define BATCH_STAGED "S"
#define BATCH_STAGED_PUSH "P"
#define BATCH_ID 2
#define BATCH_ROUTE 3
#define BATCH_DATA 4
#define BATCH_ACK_TARGETS 7

/* The part of a batch for one shard. */
struct batch {
    const char **argv;
    size_t *lens;
    size_t argc;
    size_t room;
    size_t count;         /* number of frames */
    size_t notifications; /* number of notifications */
    /* contains only commits and notifications without acks and Web Pushes: no script is needed */
    bool is_simple;
    size_t large; /* bytes of the last notification, if it is large (STORE_LARGE_BYTES); else 0 */
    /* pairs of notifications for named users that need acks or have Web Pushes */
    size_t users;
    bool has_groups;      /* contains such notifications for groups */
    const char *position; /* position of the last frame; NULL: no frame */
    size_t bytes;         /* sum of the arguments' lengths */
    char **blocks;        /* positions, ids and counts as strings; reused */
    size_t block_count;
    size_t text_count; /* number of strings in use */
    char **heads;      /* copies of changed headers */
    size_t head_count;
};

struct store_batch {
    struct store *store;
    size_t count; /* all frames, even stored frames and frames that only advance progress */
    size_t bytes;
    unsigned part_count;
    struct batch parts[]; /* by shard */
};

/* One notification of a simple batch. */
struct batch_notification {
    struct bytes id;
    struct bytes route;
    struct bytes data;
};
/* Iterates over the notifications: `*at` starts at 0. RC_CLOSED: the end. */
MUST_CHECK enum rc batch_next_notification(const struct batch *batch, size_t *at,
                                           struct batch_notification *ret_notification);

/*
 * True if the first frame is a notification whose data are too large for a script. It is the only
 * notification of the batch.
 */
bool batch_is_prepared(const struct batch *batch);

/* Allocates the caller's arguments, even in an empty batch. */
void batch_reserve(struct batch *batch);

/* Advances the progress to `position` without a frame. The string must outlive the batch. */
void batch_add_position(struct batch *batch, const char *position);

/* Removes the frames; the memory is reused. */
void batch_clear(struct store_batch *batch);

#endif
