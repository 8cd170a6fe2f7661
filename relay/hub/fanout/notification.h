/* notification.h: a notification in memory, formatted once for all recipients. */
#ifndef CLAIRON_HUB_FANOUT_NOTIFICATION_H
#define CLAIRON_HUB_FANOUT_NOTIFICATION_H

#include "store/cursor.h"

/* One allocation, immutable, reference-counted. For the loop's thread only. */
struct notification {
    unsigned refs;
    unsigned queues; /* outbound queues that hold it: see hub->queued_bytes */
    bool needs_ack;
    bool is_open_ended; /* every recipient has to acknowledge it */
    bool is_retry;      /* for `retry_users` */
    int64_t expires_us; /* expiration, wall clock; 0: never */
    unsigned char shard;
    unsigned char shards; /* in `pos` */
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
    struct entry_id pos[];         /* `pos` in `text`, by shard */
};

/*
 * A set of notifications: their count and the sum of the hashes of their ids. The sum distinguishes
 * sets of the same size: an inbox may also hold notifications that the session skipped, because its
 * user was not in their group or because its topics hid them.
 */
struct tally {
    unsigned count;
    uint32_t sum;
};

void tally_add(struct tally *tally, const unsigned char id[16]);
void tally_remove(struct tally *tally, const unsigned char id[16]);
static inline bool
tally_equal(struct tally a, struct tally b)
{
    return a.count == b.count && a.sum == b.sum;
}

/*
 * Notifications that need an ack and did not fit into a session's in-flight window. They are sent
 * from the inbox later, unless another session acknowledges them first. Notifications that overtake
 * them report them in their position.
 */
struct backlog {
    struct cursor behind; /* all of them are after it */
    struct tally waiting;
    struct tally queried; /* of these, those whose ack state the store was queried for */
    struct tally found;   /* after a resume, those read from the inbox so far */
    bool is_checked;      /* .. and all of them are found */
    bool is_lost;         /* some may be lost; not announced yet */
};

/*
 * `pos` is written into the serialized notification, by shard (0-0 for a shard that no recipient
 * reads). The caller owns one reference.
 */
struct notification *notification_new(const struct entry *entry, const char *epoch,
                                      const struct entry_id *pos, unsigned shards);
/* The same without targets: delivery.hide_targets. */
struct notification *notification_new_without_targets(const struct entry *entry, const char *epoch,
                                                      const struct entry_id *pos, unsigned shards);
/* The same with another position; `backlog` may be NULL. */
struct notification *notification_new_at(const struct notification *notification, const char *epoch,
                                         const struct entry_id *pos, const struct backlog *backlog);
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

/* `pos` in the serialized notification, for a user whose shard is `own`. */
static inline struct cursor
notification_cursor(const struct notification *notification, unsigned own)
{
    return cursor_from_heads(notification->pos, own);
}

/*
 * A client's position, `pos` on the wire: the store's epoch, a dot, an entry id of the shared
 * stream as `ms-seq`. For each other shard follow a dot and, if the shard is known, its difference
 * in ms in base 36 (`-` means earlier), and `-seq` unless that is 0.
 * `00ff.1700000000000-3..-rs.2s-1` knows nothing about shard 1. A backlog is `~`, its count, `-`,
 * its sum, and its start in the shared and the user's shard, written like other shards:
 * `00ff.1700000000000-3~2-1njchs~-5s`. A `~` alone means that some of it may be lost, as does a
 * missing sum, which earlier versions wrote.
 */
#define CLIENT_POS_MAX 512
#define CLIENT_POS_EPOCH_MAX 32
/* With a backlog (may be NULL), which concerns the user's shards only. */
void client_pos_text(const char *epoch, const struct entry_id *pos, unsigned shards,
                     const struct backlog *backlog, char ret_text[CLIENT_POS_MAX]);
/*
 * The cursor and backlog of a user whose shard is `own`. RC_CLOSED: of another epoch. RC_BAD: not a
 * position.
 */
MUST_CHECK enum rc client_pos_read(const char *text, const char *epoch, unsigned shards,
                                   unsigned own, struct cursor *ret_cursor,
                                   struct backlog *ret_backlog);

#endif
