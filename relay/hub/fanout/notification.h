/* notification.h: one notification in memory: the line that every recipient gets, stored once. */
#ifndef CLAIRON_HUB_FANOUT_NOTIFICATION_H
#define CLAIRON_HUB_FANOUT_NOTIFICATION_H

#include "store/cursor.h"

/* One allocation, immutable, reference-counted. For the loop's thread only. */
struct notification {
    unsigned refs;
    unsigned queues; /* that hold it: see hub->queued_bytes */
    bool needs_ack;
    bool is_open_ended; /* whoever is shown it owes an ack */
    bool is_retry;      /* to be shown again, to the users of `only` */
    int64_t ends_us;    /* from then on nobody is shown it; 0: never */
    unsigned char shard;
    unsigned char shards; /* that `pos` speaks of */
    struct entry_id id;
    uint64_t score;           /* from an inbox: of the entry that it was first */
    struct frame frame;       /* views into this allocation */
    struct bytes retry_users; /* likewise; walk with frame_next_target */
    int64_t made_us;          /* monotonic */
    size_t line_len;
    unsigned char *line; /* {"t":"msg",..} */
    size_t ws_len;
    unsigned char *ws; /* the line as a whole WebSocket frame: the same bytes for everyone */
    struct bytes data; /* the notification in the line */
    const struct backlog *told; /* what the line tells of one; NULL: nothing */
    struct entry_id pos[];      /* what the line tells the client */
};

/*
 * A set of notifications: how many, and a sum of hashes of their ids. The sum distinguishes sets of
 * one size: an inbox may also hold notifications that the session skipped, because its user was not
 * in their group at the time or because its topics hid them.
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
 * Notifications that need an ack and found no room in a session's in-flight window. They arrive by
 * the user's inbox, unless another session of the user acknowledges them before: so notifications
 * that overtake them report them in their position.
 */
struct backlog {
    struct cursor behind; /* all of them come after this */
    struct tally waits;
    struct tally asked; /* of these: the store is asked whether this user owes an ack */
    struct tally found; /* after a resume: read from the inbox so far */
    bool is_checked;    /* .. and all of them are there */
    bool is_gone;       /* some may be lost, which is not announced yet */
};

/*
 * `pos` is the position that the line tells the client, in each of the shards (0-0 where none of
 * its readers has any). The caller owns one reference.
 */
struct notification *notification_new(const struct entry *entry, const char *epoch,
                                      const struct entry_id *pos, unsigned shards);
/* Likewise; the line shows its readers no targets: delivery.hide_targets. */
struct notification *notification_new_without_targets(const struct entry *entry, const char *epoch,
                                                      const struct entry_id *pos, unsigned shards);
/* The same with another position; `backlog` may be NULL. */
struct notification *notification_new_at(const struct notification *notification, const char *epoch,
                                         const struct entry_id *pos, const struct backlog *backlog);
/*
 * The same, to be shown as a retry: `attempts` is 1 where it was 0. NULL: the line does not end as
 * the decoder's do.
 */
struct notification *notification_new_late(const struct notification *notification,
                                           const char *epoch);
struct notification *notification_ref(struct notification *notification);
void notification_unref(struct notification *notification); /* accepts NULL */

/* True from its expiration on, by the wall clock. */
bool notification_is_expired(const struct notification *notification);

/* The cursor that the line tells a reader whose own shard is `own`. */
static inline struct cursor
notification_cursor(const struct notification *notification, unsigned own)
{
    return cursor_from_heads(notification->pos, own);
}

/*
 * A client's position: the store's epoch, a dot, an entry of the shared stream as `ms-seq`. Then of
 * each other shard's, as far as known, a dot and, in base 36, by how many ms it is later (after a
 * `-`: earlier), and `-seq` unless that is 0. So `00ff.1700000000000-3..-rs.2s-1` knows nothing of
 * shard 1. Of a backlog follow `~`, its count, `-` and its sum, and where it begins, as another
 * shard's entry, in the shared and in the own shard: `00ff.1700000000000-3~2-1njchs~-5s`; or, if
 * some is or may be lost, `~` alone. Without the sum, as earlier versions wrote it, some may be.
 */
#define CLIENT_POS_MAX 512
#define CLIENT_POS_EPOCH_MAX 32
/* With a backlog, which may be NULL, of no other shards than the reader's. */
void client_pos_text(const char *epoch, const struct entry_id *pos, unsigned shards,
                     const struct backlog *backlog, char ret_text[CLIENT_POS_MAX]);
/*
 * The cursor and the backlog of a user whose own shard is `own`. RC_CLOSED: well-formed, but of
 * another epoch. RC_BAD: no position at all.
 */
MUST_CHECK enum rc client_pos_read(const char *text, const char *epoch, unsigned shards,
                                   unsigned own, struct cursor *ret_cursor,
                                   struct backlog *ret_backlog);

#endif
