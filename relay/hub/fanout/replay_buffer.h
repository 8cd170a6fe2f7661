/* replay_buffer.h: the newest notifications, for sessions that are slightly behind. */
#ifndef CLAIRON_HUB_FANOUT_REPLAY_BUFFER_H
#define CLAIRON_HUB_FANOUT_REPLAY_BUFFER_H

#include "hub/fanout/notification.h"
#include "store/store.h"

#define REPLAY_BUFFER_COUNT_MAX 4096
#define REPLAY_BUFFER_BYTES_MAX (16u << 20)

/* A ring in the order of reading. It holds every entry of a shard with base < id <= head. */
struct replay_buffer {
    struct notification *notifications[REPLAY_BUFFER_COUNT_MAX];
    struct entry_id *reached; /* for each notification: how far each shard was read */
    unsigned shards;
    unsigned first;
    unsigned count;
    size_t bytes;
    struct entry_id base[STORE_SHARDS_MAX];
    struct entry_id head[STORE_SHARDS_MAX];
    struct entry_id begin[STORE_SHARDS_MAX]; /* in shard 0, for users of each shard */
};

void replay_buffer_open(struct replay_buffer *buffer, unsigned shards);
void replay_buffer_close(struct replay_buffer *buffer);

/* Empties it. The next notification follows `head`. */
void replay_buffer_reset(struct replay_buffer *buffer, const struct entry_id *head);
/*
 * What is added of the shard from now on follows `newest`. Its users find only what is added from
 * now on: the cursors that earlier notifications report lack the shard.
 */
void replay_buffer_begin(struct replay_buffer *buffer, unsigned shard, struct entry_id newest);
void replay_buffer_add(struct replay_buffer *buffer,
                       struct notification *notification); /* takes its own reference */

/* Its start and end for a reader of the shared stream and of shard `own`. */
struct cursor replay_buffer_base(const struct replay_buffer *buffer, unsigned own);
struct cursor replay_buffer_head(const struct replay_buffer *buffer, unsigned own);

/* True if it holds all entries read after `after`. */
bool replay_buffer_follows(const struct replay_buffer *buffer, unsigned own, struct cursor after);
/* .. and entries were read at least up to `after`. */
bool replay_buffer_covers(const struct replay_buffer *buffer, unsigned own, struct cursor after);

/* The first notification after `after`; NULL: there is none. Only if replay_buffer_follows. */
struct notification *replay_buffer_next(const struct replay_buffer *buffer, unsigned own,
                                        struct cursor after);

#endif
