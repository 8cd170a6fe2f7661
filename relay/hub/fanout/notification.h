/* notification.h: a notification in memory, formatted once for all recipients. */
#ifndef CLAIRON_HUB_FANOUT_NOTIFICATION_H
#define CLAIRON_HUB_FANOUT_NOTIFICATION_H

#include "store/cursor.h"

struct backlog; /* client_pos.h */

/* One allocation, immutable, reference-counted. Used only by the loop's thread. */
struct notification {
    unsigned refs;
    unsigned queues; /* number of outbound queues that contain it (hub->queued_bytes) */
    bool needs_ack;
    bool is_open_ended; /* every recipient must acknowledge it */
    bool is_retry;      /* sent only to `retry_users` */
    int64_t expires_us; /* expiration, wall clock; 0: never */
    unsigned char shard;
    unsigned char shards; /* number of `heads` */
    struct entry_id id;
    uint64_t score;           /* in an inbox: the score of its first stream entry */
    struct frame frame;       /* points into this allocation */
    struct bytes retry_users; /* points into this allocation; iterate with frame_next_target */
    int64_t made_us;          /* creation time; monotonic */
    size_t text_len;
    unsigned char *text; /* {"t":"msg",...} (client/PROTOCOL.md) */
    size_t ws_len;
    unsigned char *ws;             /* `text` as a whole WebSocket frame */
    struct bytes data;             /* the JSON document in `text` */
    const struct backlog *backlog; /* the backlog that its `pos` reports; NULL: none */
    struct entry_id heads[];       /* cursor of `pos` in `text`, by shard */
};

/*
 * `heads` is the cursor in the serialized notification: a stream entry id for each shard, 0-0 for a
 * shard that no recipient reads. A late change of a row has `attempts` 1, so that no client applies
 * it over a newer change. The caller owns one reference.
 */
struct notification *notification_new(const struct entry *entry, const char *epoch,
                                      const struct entry_id *heads, unsigned shards);
/* Like notification_new, without the targets, for delivery.hide_targets. */
struct notification *notification_new_without_targets(const struct entry *entry, const char *epoch,
                                                      const struct entry_id *heads,
                                                      unsigned shards);
/* Returns a copy with another cursor; `backlog` may be NULL. */
struct notification *notification_new_at(const struct notification *notification, const char *epoch,
                                         const struct entry_id *heads,
                                         const struct backlog *backlog);
/*
 * Returns a copy that is marked as a retry: `attempts` is 1 instead of 0. NULL: the end of the
 * document has an unknown format.
 */
struct notification *notification_new_late(const struct notification *notification,
                                           const char *epoch);
struct notification *notification_ref(struct notification *notification);
void notification_unref(struct notification *notification); /* accepts NULL */

/* True if the notification has expired by the wall clock. */
bool notification_is_expired(const struct notification *notification);

/* Returns the cursor in the serialized notification, for a user whose shard is `own`. */
static inline struct cursor
notification_cursor(const struct notification *notification, unsigned own)
{
    return cursor_from_heads(notification->heads, own);
}

#endif
