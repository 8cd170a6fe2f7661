/* notification.h: a notification in memory, formatted once for all recipients. */
#ifndef CLAIRON_HUB_FANOUT_NOTIFICATION_H
#define CLAIRON_HUB_FANOUT_NOTIFICATION_H

#include "store/cursor.h"

struct backlog; /* client_pos.h */

/* One allocation, immutable, reference-counted. For the loop's thread only. */
struct notification {
    unsigned refs;
    unsigned queues; /* outbound queues that hold it: see hub->queued_bytes */
    bool needs_ack;
    bool is_open_ended; /* every recipient has to acknowledge it */
    bool is_retry;      /* for `retry_users` */
    int64_t expires_us; /* expiration, wall clock; 0: never */
    unsigned char shard;
    unsigned char shards; /* in `heads` */
    struct entry_id id;
    uint64_t score;           /* if read from an inbox: of its first entry */
    struct frame frame;       /* views into this allocation */
    struct bytes retry_users; /* a view too; iterate with frame_next_target */
    int64_t made_us;          /* monotonic */
    size_t text_len;
    unsigned char *text; /* {"t":"msg",..}, as client/PROTOCOL.md describes it */
    size_t ws_len;
    unsigned char *ws;             /* the same as a whole WebSocket frame */
    struct bytes data;             /* the JSON document in `text` */
    const struct backlog *backlog; /* that its `pos` reports; NULL: none */
    struct entry_id heads[];       /* `pos` in `text`, by shard */
};

/*
 * A late change of a row has `attempts` 1, so that no client applies it over a newer one.
 * `heads` is the cursor in the serialized notification: an entry id for each shard, 0-0 for a shard
 * that no recipient reads. The caller owns one reference.
 */
struct notification *notification_new(const struct entry *entry, const char *epoch,
                                      const struct entry_id *heads, unsigned shards);
/* The same without targets: delivery.hide_targets. */
struct notification *notification_new_without_targets(const struct entry *entry, const char *epoch,
                                                      const struct entry_id *heads,
                                                      unsigned shards);
/* The same with another cursor; `backlog` may be NULL. */
struct notification *notification_new_at(const struct notification *notification, const char *epoch,
                                         const struct entry_id *heads,
                                         const struct backlog *backlog);
/*
 * The same as a retry: `attempts` is 1 instead of 0. NULL: the document does not end as those of
 * the decoder do.
 */
struct notification *notification_new_late(const struct notification *notification,
                                           const char *epoch);
struct notification *notification_ref(struct notification *notification);
void notification_unref(struct notification *notification); /* accepts NULL */

/* By the wall clock. */
bool notification_is_expired(const struct notification *notification);

/* The cursor in the serialized notification, for a user whose shard is `own`. */
static inline struct cursor
notification_cursor(const struct notification *notification, unsigned own)
{
    return cursor_from_heads(notification->heads, own);
}

#endif
