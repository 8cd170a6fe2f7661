/* notification.h: a notification in memory, formatted once for all recipients. */
#ifndef CLAIRON_HUB_NOTIFICATION_H
#define CLAIRON_HUB_NOTIFICATION_H

#include "base/shared.h"
#include "store/cursor.h"

struct deferral; /* client_pos.h */

/*
 * One allocation, immutable, reference-counted. Used only by the loop's thread.
 *
 * A copy of a large notification with another cursor shares the document of its `source`: its frame
 * consists of `ws`, up to the document, and `rest`.
 */
struct notification {
    struct shared shared; /* owns all bytes below, except those of `source` */
    bool needs_ack;
    bool is_open_ended; /* every recipient must acknowledge it */
    bool is_retry;      /* sent only to `retry_users` */
    int64_t expires_us; /* expiration, wall clock; 0: never */
    unsigned char shard;
    unsigned char shards; /* number of `heads` */
    struct entry_id id;
    struct entry_id first;       /* read from an inbox: its first stream entry; otherwise zero */
    struct frame frame;          /* points into this allocation */
    struct bytes retry_users;    /* points into this allocation; iterate with frame_next_target */
    int64_t made_us;             /* creation time; monotonic */
    size_t text_len;             /* {"t":"msg",...} (client/PROTOCOL.md), including `rest` */
    size_t ws_len;               /* the text as a whole WebSocket frame */
    unsigned char *ws;           /* the frame; with a source, only the bytes before `rest` */
    struct bytes rest;           /* the end of the frame, in the source; empty without a source */
    struct bytes data;           /* the JSON document in the frame */
    struct notification *source; /* a reference; NULL: none */
    struct notification *large_prev; /* links of the list of large notifications */
    struct notification *large_next;
    const struct deferral *deferral; /* the deferral that its `pos` reports; NULL: none */
    struct entry_id heads[];         /* cursor of `pos` in `text`, by shard */
};

/*
 * Shares the document with a large notification in memory of the same stream entry.
 *
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
/* Returns a copy with another cursor; `deferral` may be NULL. */
struct notification *notification_new_at(struct notification *notification, const char *epoch,
                                         const struct entry_id *heads,
                                         const struct deferral *deferral);
/*
 * Returns a copy that is marked as a retry: `attempts` is 1 instead of 0. NULL: the end of the
 * document has an unknown format.
 */
struct notification *notification_new_late(const struct notification *notification,
                                           const char *epoch);
static inline struct notification *
notification_ref(struct notification *notification)
{
    shared_ref(&notification->shared);
    return notification;
}

/* Accepts NULL. */
static inline void
notification_unref(struct notification *notification)
{
    if (notification != NULL)
        shared_unref(&notification->shared);
}

/* True if the notification has expired by the wall clock. */
bool notification_is_expired(const struct notification *notification);

/* Returns the cursor in the serialized notification, for a user whose shard is `own`. */
static inline struct cursor
notification_cursor(const struct notification *notification, unsigned own)
{
    return cursor_from_heads(notification->heads, own);
}

#endif
