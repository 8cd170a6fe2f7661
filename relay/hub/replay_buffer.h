/* replay_buffer.h: the newest notifications in memory, for sessions that are slightly behind. */
#ifndef CLAIRON_HUB_REPLAY_BUFFER_H
#define CLAIRON_HUB_REPLAY_BUFFER_H

#include <stdbool.h>

#include "hub/notification.h"
#include "store/entry.h"
#include "store/store.h"

#define REPLAY_BUFFER_COUNT_MAX 4096
#define REPLAY_BUFFER_BYTES_MAX (16u << 20)

/* A ring in reading order. It contains every notification of a shard with base < id <= head. */
struct replay_buffer {
    struct notification *notifications[REPLAY_BUFFER_COUNT_MAX];
    struct entry_id *reached; /* for each notification: the position read in each shard */
    unsigned shards;
    unsigned first;
    unsigned count;
    size_t bytes;
    struct entry_id base[STORE_SHARDS_MAX];
    struct entry_id head[STORE_SHARDS_MAX];
    /* of each shard, the last notification in the ring, or `head` at its start */
    struct entry_id newest[STORE_SHARDS_MAX];
    struct entry_id begin[STORE_SHARDS_MAX]; /* start in shard 0, for users of each shard */
};

void replay_buffer_open(struct replay_buffer *buffer, unsigned shards);
void replay_buffer_close(struct replay_buffer *buffer);

/* Empties the buffer. The next notification follows `head`. */
void replay_buffer_reset(struct replay_buffer *buffer, const struct entry_id *head);
/*
 * Further notifications of the shard follow `newest`. The shard's users receive only these
 * notifications from the buffer, because cursors of earlier notifications do not include the shard.
 */
void replay_buffer_begin(struct replay_buffer *buffer, unsigned shard, struct entry_id newest);
void replay_buffer_add(struct replay_buffer *buffer,
                       struct notification *notification); /* takes a separate reference */
/*
 * Adds the notification before the first one, or before `head`: it is the last one of its shard
 * before the start of the buffer. Returns false if there is no room.
 */
bool replay_buffer_prepend(struct replay_buffer *buffer, struct notification *notification);

/* The buffer's start and end in the shared stream and in the user's shard, `own`. */
struct cursor replay_buffer_base(const struct replay_buffer *buffer, unsigned own);
struct cursor replay_buffer_head(const struct replay_buffer *buffer, unsigned own);

/* True if the buffer contains all notifications read after `after`. */
bool replay_buffer_follows(const struct replay_buffer *buffer, unsigned own, struct cursor after);
/*
 * Like replay_buffer_follows, but also requires that the streams were read at least up to `after`.
 */
bool replay_buffer_covers(const struct replay_buffer *buffer, unsigned own, struct cursor after);

/*
 * Returns the first notification after `after`; NULL: no such notification. Requires
 * replay_buffer_follows.
 */
struct notification *replay_buffer_next(const struct replay_buffer *buffer, unsigned own,
                                        struct cursor after);

#endif
