/* reader_private.h: what the folder's files share: the order of streams, and the reader's state. */
#ifndef CLAIRON_STORE_READER_PRIVATE_H
#define CLAIRON_STORE_READER_PRIVATE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "store/connection/reply.h"
#include "store/entry.h"
#include "store/reader.h"
#include "store/servers/link.h"
#include "store/servers/topology.h"
#include "store/shards/shard.h"
#include "store/store.h"

/* ---- order.c: the commit order of several shards */

/*
 * Each user reads at most two shards, shard 0 and the shard of the user, and receives their
 * notifications in commit order. A notification waits while the other shard has an older
 * undelivered notification: either the head of that shard's queue, or a notification that the field
 * `after` names and that was not added yet (shard_dependency_text). Retries and stream entries
 * without a commit wait only for earlier entries of the same stream. Finite pages follow the
 * same rules (shard_pages_next).
 */
struct order;

typedef void order_deliver(void *ctx, const struct entry *entry); /* valid during the call */

/* A position of order_cover: all entries that were added before it are delivered. */
typedef void order_covered(void *ctx, unsigned shard, const struct reader_covered *covered);

struct order *order_new(unsigned shards, order_deliver *deliver, order_covered *on_covered,
                        void *ctx);
void order_free(struct order *order); /* accepts NULL */

/*
 * Drops all stream entries. Notifications of shard k up to stored[k] were already delivered.
 * has_changed[k]: shard k was emptied or rewound, so no notification waits for its earlier
 * positions.
 */
void order_begin(struct order *order, const struct position *stored, const bool *has_changed);

/* Drops the shard's undelivered stream entries, which are read again. */
void order_rewind(struct order *order, unsigned shard);

/* Drops the shard's stream entries. Other shards no longer wait for it. Not for shard 0. */
void order_leave(struct order *order, unsigned shard);
/*
 * Reverses order_leave. The stream is now read from a later entry on. Notifications of the shard up
 * to `stored` were not read, and their field `after` names notifications of shard 0 up to `after`.
 */
void order_join(struct order *order, unsigned shard, struct position stored, struct position after);
/*
 * True if commit order applies to the shard: all further entries of the shard and of shard 0 are
 * later than all entries that were delivered, or stored before order_join.
 */
bool order_has_joined(const struct order *order, unsigned shard);

/* Adds a reply with new entries of a shard's stream. The reply must live until order_release. */
void order_add(struct order *order, unsigned shard, const struct redisReply *entries);

/* Adds a position behind the entries that were added. Call it after order_release. */
void order_cover(struct order *order, unsigned shard, const struct reader_covered *covered);

/* Delivers all stream entries that are ready, and copies all other entries. */
void order_release(struct order *order, int64_t now_us);

/*
 * The other shards do not wait for this shard until it adds a notification. The next order_release
 * delivers their notifications.
 */
void order_skip(struct order *order, unsigned shard);
/*
 * Skips a shard for which a notification has been waiting since `before_us` or longer. Returns the
 * shard, or -1 if there is none. Call the function until it returns -1.
 */
int order_skip_overdue(struct order *order, int64_t before_us);

/*
 * True if the shard is read, and all of its notifications up to this position were delivered, or
 * stored before order_begin or order_join. Deliveries before order_rewind do not count.
 */
bool order_has_delivered(const struct order *order, unsigned shard, struct position position);

/* Returns the newest LSN of what was delivered, or stored before order_begin or order_join. */
uint64_t order_newest_lsn(const struct order *order);

/* Returns the position up to which all notifications of the shard were added. */
struct position order_seen(const struct order *order, unsigned shard);
/* True if the shard has enough stream entries in memory, so no more should be read. */
bool order_is_full(const struct order *order, unsigned shard);
/* True if a notification waits for an unread entry of the shard, which is then read regardless. */
bool order_is_awaited(const struct order *order, unsigned shard);
/* True if a notification waits for another shard. */
bool order_waits(const struct order *order);

/* Counts the shard's foreign entries, which are not notifications, since the last call. */
size_t order_foreign_entries(struct order *order, unsigned shard);
/* Counts the notifications that were delivered without their dependencies since the last call. */
size_t order_unordered(struct order *order);

/* ---- pages.c */

/*
 * The merge of finite pages. It is separate from struct order, which uses the field `after` to
 * detect a missing older notification: most notifications that `after` names are not on a page. A
 * page of a pending list also contains retries. They are ordered by their commit, but in struct
 * order by their own stream entry. A shared merge would need a mode for each of these rules.
 */

/* A page of stream entries, and the progress of its merge. Points into the reply. */
struct shard_page {
    const struct redisReply *entries; /* entries in stream order */
    const struct history *history;    /* of the server that replied */
    unsigned char shard;
    size_t count;      /* number of entries up to `end` */
    bool is_truncated; /* the stream may contain more entries after them */
    size_t next;
    size_t foreign_entries;  /* number of skipped foreign entries */
    struct entry_id reached; /* all entries up to this id were merged or skipped */
    bool has_entry;
    struct entry entry; /* the next entry to merge */
    /* shard_pages_next: index where the search for a notification with a commit stopped */
    size_t ahead;
    bool has_position; /* the search found `position` */
    struct position position;
};

#define SHARD_PAGE_WHOLE ((struct entry_id){UINT64_MAX, UINT64_MAX}) /* no end */

/*
 * Begins a page of the stream entries after `after`, up to `end`. `entries` is the reply, `history`
 * that of the server.
 */
void shard_page_begin(struct shard_page *page, unsigned shard, const struct history *history,
                      struct entry_id after, struct entry_id end, const struct redisReply *entries,
                      bool is_truncated);

/*
 * Returns the page with the next stream entry. Notifications are in commit order. Entries without a
 * commit are ordered by id, as far as commit order allows. NULL: all pages are used up, or a
 * truncated page is used up whose stream may contain the next entry.
 */
struct shard_page *shard_pages_next(struct shard_page *pages, unsigned count);
void shard_page_advance(struct shard_page *page);

/* Returns the number of stream entries that were merged or skipped. */
size_t shard_page_seen(const struct shard_page *page);

/* ---- reader.c */

/* The part of a stream of ack events or changes that was read (control_stream.c). */
struct tail {
    struct link *link; /* link that reads the stream */
    char key[STORE_KEY_MAX];
    char at[ENTRY_ID_TEXT_MAX];     /* id of the last entry read */
    char before[ENTRY_ID_TEXT_MAX]; /* `at` before the last full reply */
    bool has_missed;                /* entries were trimmed before they were read */
};

/* The WAL that a shard covers (cover.c). lsn 0: unknown. */
struct shard_cover {
    char key[STORE_KEY_MAX];        /* stream of positions: only its newest entry counts */
    char at[ENTRY_ID_TEXT_MAX];     /* the newest entry of it that was received */
    bool is_requested;              /* the XREAD in flight reads it, and the notifications */
    struct reader_covered received; /* the newest position; entries before it may wait in order.c */
    struct reader_covered reported; /* the newest position that on_covered has reported */
};

/*
 * What shard 0 reports about the other shards (cover.c): the WAL that it covers, and the newest
 * notification of each other shard in this WAL.
 */
struct shared_cover {
    struct reader_covered covered; /* lsn 0: none */
    struct position sent[STORE_SHARDS_MAX];
};

/* The streams of one shard. */
struct shard_stream {
    struct reader_connection *connection;
    unsigned number;
    struct entry_id at;        /* id of the last stream entry read */
    struct entry_id delivered; /* id of the last one that was delivered: others wait in `order` */
    int64_t requested_us;      /* when the last XREAD was sent; monotonic */
    int64_t read_us; /* when one was sent that read the stream to its end; 0: reconnected since */
    struct history history; /* of the server of this connection */
    char stream_key[STORE_KEY_MAX];
    char epoch[STORE_EPOCH_TEXT + 1]; /* epoch of the shard at the last reader_seek */
    struct tail ack_events;           /* keeps its position across a reconnect */
    struct shard_cover cover;
};

/*
 * Which stream had more entries than fit into the last reply. Dependent streams are not read until
 * that stream is read to its end.
 */
enum lag {
    LAG_NONE,
    LAG_NOTIFICATIONS, /* acknowledgements follow their notifications */
    LAG_MEMBERS        /* memberships precede the notifications that they route */
};

/* The shards of a cluster are followed while a session needs them (follow.c). */
enum follow_state {
    FOLLOW_NONE,    /* not followed: no connection */
    FOLLOW_OPENING, /* the shard's start position is not known yet */
    FOLLOW_MERGING, /* the shard is read, but commit order does not apply yet */
    FOLLOW_DONE
};

/* What one link reads: the shards of a connection (topology.h). */
struct reader_connection {
    struct reader *reader;
    unsigned number; /* connection 0 also reads the control stream */
    struct link *link;
    enum follow_state follow;
    struct reader_followed begin; /* start position of a merge in progress */
    int64_t merging_us;           /* monotonic time at which the merge started */
    bool is_positioned; /* the control stream's newest id is known: XREAD misses no later entry */
    bool reading;       /* an XREAD is in flight */
    /* the XREAD in flight uses positions from before the last reader_seek */
    bool is_stale;
    size_t entries_requested; /* COUNT of the XREAD in flight */
    /*
     * Limit of COUNT after the connection was lost before the first reply, because the server's
     * client-output-buffer-limit was below a reply; 0: none.
     */
    size_t entries_limit;
    int64_t limited_us; /* when entries_limit changed; monotonic */
    bool was_lost;      /* the connection was lost before a reply, and there was none since */
    bool has_read;      /* an XREAD had a reply since the link went up */
    enum lag lag;
    char name[24]; /* name in the log */
    char heartbeat_key[STORE_KEY_MAX];
};

struct reader {
    struct stats *stats;
    struct reader_events events;
    bool has_start; /* reader_seek has been called */
    struct store *store;
    const struct config *config;
    struct ev_loop *loop;
    struct order *order; /* NULL with a single shard */
    ev_timer order_timer;
    struct tail control;
    /* after a reconnect: removals of users are still read after this entry; "": none */
    char control_missed[ENTRY_ID_TEXT_MAX];
    struct shared_cover shared_cover;
    size_t streams_max; /* of a connection */
    size_t entries_max; /* entries of one stream in a reply */
    size_t entry_bytes; /* size of the largest recent entry */
    struct topology topology;
    unsigned connection_count;
    struct reader_connection connections[STORE_SHARDS_MAX];
    unsigned stream_count;
    struct shard_stream streams[];
};

/*
 * ---- follow.c
 *
 * A relay reads shard 0. In a cluster it also reads the shards of its connected users. A shard that
 * is followed later is read and ordered from its newest stream entry on. Earlier deliveries from
 * shard 0 may depend on entries of the shard that are not stored yet. The newest entry may depend
 * on entries of shard 0 that were not read yet. Once all of these entries are delivered, sessions
 * can continue from this point (events.on_followed). They read all earlier entries from the store.
 */

/* Requests the start position. RC_AGAIN: the link is down. */
MUST_CHECK enum rc follow_request(struct reader_connection *connection, link_reply *reply);
/* The reply of history.lua: `ctx` is the stream, which begins a generation. */
void follow_history(void *ctx, const struct redisReply *reply);
/* Starts at the position in the reply. Returns NULL or an error message. */
const char *follow_begin(struct reader_connection *connection, const struct redisReply *reply);
/*
 * Part of reader_seek: the shard starts at its position. Only the first reader_seek has a position
 * for a shard that is being opened. After later calls the reply to follow_request contains the
 * position. A shard that is being merged remains in that state: other shards may lack the stream
 * entries that it waits for.
 */
void follow_seek(struct reader_connection *connection);
/* Calls on_followed for shards that have joined the commit order. Call it after each release. */
void follow_advance(struct reader *reader);
/* A shard is being merged: call follow_advance again later. */
bool follow_waits(const struct reader *reader);
/*
 * Call it before an XREAD of the streams of the shards with reads[shard]. Entries that were not
 * read within the retention may have been trimmed: this process was paused, had no connection, or
 * is behind. The reply arrives before that of the XREAD.
 */
MUST_CHECK enum rc follow_find_trimmed(struct reader_connection *connection, const bool *reads);

/* ---- cover.c: how much of the WAL was delivered */

/* The entries of one reply for a shard; NULL: none. */
struct cover_reply {
    const struct redisReply *notifications;
    const struct redisReply *positions;
    bool is_whole; /* the stream has no further notifications */
};

/* Call it for each shard after the notifications of a reply were added to the order. */
void cover_receive(struct reader *reader, unsigned shard, const struct cover_reply *reply);
/* An order_covered: calls on_covered, unless a newer position was reported. */
void cover_report(void *ctx, unsigned shard, const struct reader_covered *covered);
/* Reports what shard 0 knows about the other shards. Call it after each order_release. */
void cover_report_shared(struct reader *reader);
/* Before the first reply after a connect or a reader_seek: the newest position is read again. */
void cover_reset(struct reader *reader, unsigned shard);
/* After order_rewind: what was reported counts no more. */
void cover_begin_history(struct shard_cover *cover);

/* ---- control_stream.c: the streams of ack events, membership changes and reloads */

/* Copies the id of an entry of any stream to `at`. Without an id, `at` is unchanged. */
void control_read_cursor(const struct redisReply *entry, char at[ENTRY_ID_TEXT_MAX]);

/*
 * These functions deliver the entries and advance `at`. Ack events that `own_name` stored are
 * skipped.
 */
void control_handle_ack_events(const struct reader_events *events, const char *own_name,
                               const struct redisReply *entries, char at[ENTRY_ID_TEXT_MAX]);
void control_handle_changes(const struct reader_events *events, const struct redisReply *entries,
                            char at[ENTRY_ID_TEXT_MAX]);

#define CONTROL_NEWEST_MAX 100

/*
 * Called after a reconnect. `newest`: up to CONTROL_NEWEST_MAX entries of the control stream,
 * newest first. Delivers the reloads and removals of users after `at`, and advances it to the
 * newest entry. If `at` is "", there is no position yet, and these entries are delivered: their
 * transactions may not be visible to all snapshots. Returns false if some entries after `at` are
 * missing: any rule may have been reloaded, and users may have been removed.
 */
bool control_handle_newest(const struct reader_events *events, const struct redisReply *newest,
                           char at[ENTRY_ID_TEXT_MAX]);
/* Delivers the removals of users in entries from an outage, oldest first, and advances `at`. */
void control_handle_missed(const struct reader_events *events, const struct redisReply *entries,
                           char at[ENTRY_ID_TEXT_MAX]);
/* The same after a reconnect: reads all missed entries, in pages. */
void control_reconnected(struct reader *reader, const struct redisReply *newest);

/*
 * Call it before the entries of a reply are handled. Returns whether the reply is full, that is,
 * has `max` entries. Only after a full reply may older entries have been trimmed: requests the
 * oldest entry from the store.
 */
bool tail_begin(struct tail *tail, const struct redisReply *entries, size_t max);

/* The next reader of the stream starts at its end. */
void tail_reset(struct tail *tail);

/*
 * Returns whether entries were missed since the last call. Call it after a reply that was not full.
 */
bool tail_has_missed(struct tail *tail);

#endif
