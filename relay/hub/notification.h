/*
 * notification.h: notifications in memory: one, formatted once for all recipients; and a batch of
 * them.
 */
#ifndef CLAIRON_HUB_NOTIFICATION_H
#define CLAIRON_HUB_NOTIFICATION_H

#include <stdbool.h>

#include "base/memory.h"
#include "base/rc.h"
#include "store/entry.h"
#include "store/store.h"

struct deferral; /* below */

/* A transaction. xid 0: none. */
struct commit {
    uint64_t lsn;
    uint64_t xid;
};

/* Which ends of transactions a client lacks at its cursor (client_pos.c). Zero: unknown. */
#define ENDS_MARK_COUNT 8
struct ends_mark {
    struct commit open[ENDS_MARK_COUNT]; /* it has a part of these, and lacks their ends */
    unsigned count;
    bool is_ended; /* it has the ends of all others */
};

/*
 * One allocation, immutable, reference-counted. Used only by the loop's thread.
 *
 * A copy of a large notification with another cursor shares the document of its `source`: its frame
 * consists of `ws`, up to the document, and `rest`.
 */
struct notification {
    struct shared shared; /* owns all bytes below, except those of `source` */
    bool needs_ack;
    bool is_retry;      /* sent only to `retry_users` */
    bool is_line;       /* a line of the protocol: no notification */
    bool is_end;        /* the line is the end of a transaction, and has a cursor */
    int64_t expires_us; /* expiration, wall clock; 0: never */
    unsigned char shard;
    unsigned char shards; /* number of `heads` */
    struct entry_id id;
    struct entry_id first;       /* of a pending list: its first stream entry; otherwise zero */
    struct frame frame;          /* points into this allocation */
    struct bytes retry_users;    /* points into this allocation; iterate with frame_next_target */
    int64_t made_us;             /* creation time; monotonic */
    size_t text_len;             /* {"t":"msg",...} (client/PROTOCOL.md), including `rest` */
    size_t ws_len;               /* the text as a whole WebSocket frame */
    unsigned char *ws;           /* the frame; with a source, only the bytes before `rest` */
    struct bytes pos;            /* the cursor in `text` */
    struct bytes rest;           /* the end of the frame, in the source; empty without a source */
    struct bytes data;           /* the JSON document in the frame */
    struct notification *source; /* a reference; NULL: none */
    struct notification *large_prev; /* links of the list of large notifications */
    struct notification *large_next;
    const struct deferral *deferral; /* the deferral that its `pos` reports; NULL: none */
    const struct ends_mark *mark;    /* the mark of its `pos`; NULL: none */
    struct entry_id heads[];         /* cursor of `pos` in `text`, by shard */
};

/*
 * Shares the document with a large notification in memory of the same stream entry.
 *
 * `heads` is the cursor in the serialized notification: a stream entry id for each shard, 0-0 for a
 * shard that no recipient reads. A late change of a row has `attempts` 1, so that no client applies
 * it over a newer change. hides_targets: omits the targets. The caller owns one reference.
 */
struct notification *notification_new(const struct entry *entry, bool hides_targets,
                                      const char *epoch, const struct entry_id *heads,
                                      unsigned shards);
/* A line of the protocol for one session, which is queued behind notifications. */
struct notification *notification_new_line(const char *text, size_t len);
/* The end of transaction `xid`, as a line. No later notification overtakes it alone. */
struct notification *notification_new_end(uint64_t xid, const char *epoch,
                                          const struct entry_id *heads, unsigned shards,
                                          const struct deferral *deferral,
                                          const struct ends_mark *mark);
/* Returns a copy whose cursor has this mark. */
struct notification *notification_new_marked(struct notification *notification, const char *epoch,
                                             const struct ends_mark *mark);
/* Returns a copy with another cursor and the same mark; `deferral` may be NULL. */
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

/* ---- batches */

#define BATCH_COUNT_MAX 64
#define BATCH_BYTES_MAX (256u * 1024)

/*
 * Size, and minimum number of sockets, of a batch for which a file is created (fanout_batch_file).
 * The maximum is what Linux sends in one step of sendfile(2), 16 pages, less the first one, which
 * may be partial; with more steps, send(2) is cheaper.
 */
#define BATCH_FILE_BYTES_MIN (8u * 1024)
#define BATCH_FILE_BYTES_MAX (60u * 1024)
#define BATCH_FILE_SENDS 16
#define BATCH_FILES_MAX 16 /* maximum number of open files */
/* Two batches are merged if the first batch is queued for this many sessions ... */
#define MERGED_BATCH_SHARES 16
#define MERGED_BATCHES_MAX 4 /* ... up to this number of times per batch */

/*
 * Consecutive notifications for the same recipients, as one block of bytes. A session with an empty
 * queue sends the batch in one call, without work per notification. Reference-counted;
 * notifications and bytes are immutable.
 */
struct fanout_batch {
    struct shared shared;
    unsigned count;
    unsigned message_count; /* without ends of transactions */
    unsigned sends;         /* number of calls of fanout_batch_file */
    int file;               /* -1: no file */
    int64_t expires_us;     /* expiration of the first notification that expires; 0: never */
    bool is_mixed;          /* its notifications are of several transactions */
    const struct notification *first_message; /* NULL: it has only ends of transactions */
    size_t len;
    /* one whole WebSocket frame per notification; those of the only notification, if any */
    unsigned char *bytes;
    struct notification *notifications[]; /* each is a reference */
};

/*
 * Returns how many of the first notifications can form a batch. 0: each session must handle the
 * first notification individually.
 */
unsigned fanout_batch_span(struct notification *const *notifications, unsigned count);

/* The caller owns one reference. `count` is at most the result of fanout_batch_span. */
struct fanout_batch *fanout_batch_new(struct notification *const *notifications, unsigned count);

static inline struct fanout_batch *
fanout_batch_ref(struct fanout_batch *batch)
{
    shared_ref(&batch->shared);
    return batch;
}

/* Accepts NULL. */
static inline void
fanout_batch_unref(struct fanout_batch *batch)
{
    if (batch != NULL)
        shared_unref(&batch->shared);
}

/*
 * A batch merged with the batch that a session has queued. All sessions with the same two batches
 * share the result, so it is created once. Initially zeroed.
 */
struct merged_batch {
    struct fanout_batch *waiting; /* each is a reference */
    struct fanout_batch *next;
    struct fanout_batch *whole;
    unsigned made;
};

/* NULL: these batches cannot be merged. The result belongs to `merged`. */
struct fanout_batch *merged_batch_of(struct merged_batch *merged, struct fanout_batch *waiting,
                                     struct fanout_batch *next);
void merged_batch_end(struct merged_batch *merged);

/*
 * Call it once per socket. Returns a file with the batch's bytes for sendfile(2), which shares its
 * pages among all sockets, whereas send(2) copies the bytes for each. -1: too few sockets, or no
 * file could be created. The batch owns the file.
 */
int fanout_batch_file(struct fanout_batch *batch);

/* True if a notification of the batch has expired. now_us: wall clock. */
static inline bool
fanout_batch_is_stale(const struct fanout_batch *batch, int64_t now_us)
{
    return batch->expires_us != 0 && batch->expires_us <= now_us;
}

/* ---- client_pos.c: the cursor of a client as a string, `pos` on the wire */

/*
 * Some notifications up to a client's cursor that need an ack were not sent, because its in-flight
 * window had no room. They follow `from`, and no notification that needs an ack was sent after it.
 */
struct deferral {
    struct cursor from;
    bool by_stream; /* the user's pending list may lack some of them: the stream has all */
};

/*
 * A client's cursor, `pos` on the wire. It consists of the store's epoch, a dot, and a stream entry
 * id of the shared stream as `ms-seq`, with its generation in the high bits of `ms`. Each other
 * shard adds a dot and, if the shard is known, its difference in ms in base 36 (`-` means earlier),
 * `-seq` unless that is 0, and `G` and its generation if that differs. Example:
 * `00ff.1700000000000-3..-rs.2s-1`, where shard 1 is unknown.
 *
 * A deferral adds `~`, or `!` if it is by stream, and its start in the shared shard; for a user of
 * another shard a further `~` and its start there. Both are written like other shards:
 * `00ff.1700000000000-3~-5s`.
 *
 * For a client that wants the ends of transactions, `X`, an id, `-` and the LSN of a commit, in
 * base 36, name a transaction whose end it lacks. They may be repeated. A final `E` means that it
 * has the ends of all other transactions up to the cursor.
 *
 * Any other string is not a cursor, also one that a later version may write: the client gets a gap.
 */
#define CLIENT_POS_MAX 512
#define CLIENT_POS_EPOCH_MAX 16
/* `deferral` may be NULL. The string covers only the shards of the user. */
void client_pos_text(const char *epoch, const struct entry_id *heads, unsigned shards,
                     const struct deferral *deferral, char ret_text[CLIENT_POS_MAX]);
void client_pos_mark(char text[CLIENT_POS_MAX], const struct ends_mark *mark);
/* Without a mark, *ret_mark is zero. RC_BAD: not a cursor. */
MUST_CHECK enum rc client_pos_read_mark(const char *text, struct ends_mark *ret_mark);
/*
 * Parses the cursor of a user whose shard is `own`. Without a deferral, ret_deferral->from is the
 * cursor. RC_CLOSED: from another epoch. RC_BAD: not a cursor.
 */
MUST_CHECK enum rc client_pos_read(const char *text, const char *epoch, unsigned shards,
                                   unsigned own, struct cursor *ret_cursor,
                                   struct deferral *ret_deferral);

#endif
