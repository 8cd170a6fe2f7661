/* buffer.h: the newest notifications, for sessions that are a little behind. */
#ifndef CLAIRON_HUB_FANOUT_REPLAY_BUFFER_H
#define CLAIRON_HUB_FANOUT_REPLAY_BUFFER_H

#include "hub/fanout/notification.h"
#include "store/store.h"

#define REPLAY_BUFFER_NOTES_MAX 4096
#define REPLAY_BUFFER_BYTES_MAX (16u << 20)

/* A ring in the order of reading. It holds every entry of a shard with base < id <= head. */
struct replay_buffer {
    struct notification *notifications[REPLAY_BUFFER_NOTES_MAX];
    struct entry_id *reached; /* beside each notification: how far each shard was read with it */
    unsigned shards;
    unsigned first;
    unsigned count;
    size_t bytes;
    struct entry_id base[STORE_SHARDS_MAX];
    struct entry_id head[STORE_SHARDS_MAX];
};

void replay_buffer_open(struct replay_buffer *buffer, unsigned shards);
void replay_buffer_close(struct replay_buffer *buffer);

/* Empties it; what comes next follows `head`. */
void replay_buffer_reset(struct replay_buffer *buffer, const struct entry_id *head);
void replay_buffer_add(struct replay_buffer *buffer,
                       struct notification *notification); /* takes a reference of its own */

/* Where it begins and ends for who reads the shared stream and `own`. */
struct cursor replay_buffer_base(const struct replay_buffer *buffer, unsigned own);
struct cursor replay_buffer_head(const struct replay_buffer *buffer, unsigned own);

/* True when all that follows `after` and was read is here. */
bool replay_buffer_follows(const struct replay_buffer *buffer, unsigned own, struct cursor after);
/* .. and something was read up to `after` at least. */
bool replay_buffer_covers(const struct replay_buffer *buffer, unsigned own, struct cursor after);

/* The first notification after `after`; NULL: there is none. Only if replay_buffer_follows. */
struct notification *replay_buffer_next(const struct replay_buffer *buffer, unsigned own,
                                        struct cursor after);

#endif
