/* store.h: what the rooms above ask of KeyDB. */
#ifndef CLAIRON_STORE_STORE_H
#define CLAIRON_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/stats.h"
#include "store/entry.h"
#include "store/origin.h"
#include "store/cursor.h"
#include "store/position.h"
#include "store/scripts/constants.h"
#include "wire/frame.h"

struct ev_loop;
struct store;

/*
 * Whoever wants to know when the store comes and goes. Owned by the caller, who outlives the store.
 */
struct store_listener {
    void (*on_up)(void *ctx);
    void (*on_down)(void *ctx);
    void *ctx;
    struct store_listener *next; /* the store's own */
};

/* NULL when the URL is wrong (already logged). Connects by itself, again and again. */
struct store *store_open(struct ev_loop *loop, const struct config *config, struct stats *stats);
void store_close(struct store *store); /* accepts NULL; pending callbacks are called with RC_IO */
void store_listen(struct store *store, struct store_listener *listener);
bool store_is_up(const struct store *store);

/* Up, and so is the reader, if this process has one: without it clients hear nothing. */
bool store_is_serving(const struct store *store);
/* Of the reader: whether it follows all of the store. */
void store_set_reader_follows(struct store *store, bool follows);

/* It answers, but takes no sign of life: who blocks on its streams hears nothing. */
bool store_refuses_heartbeats(const struct store *store);

/* What this process signs with; random, as long as it lives. */
const char *store_relay_id(const struct store *store);

/* The store's identity: changes when it was emptied. "" before it was first up. */
const char *store_epoch(const struct store *store);

/*
 * A store is made of shards, each with a stream of its own. What is for one user alone stands in
 * the shard of that user, all else in shard 0, which is his too if there are no others.
 */
unsigned store_shards(const struct store *store);
unsigned store_shard_of(const struct store *store, const char *user);

/* The newest entry of each shard at the time the store came up. Lives as long as the store. */
const struct entry_id *store_newest(const struct store *store);

/*
 * An entry was taken in: should the store go back, it gives later entries later ids, so that who
 * reads on from here misses none.
 */
void store_record_entry(struct store *store, unsigned shard, struct entry_id id);
/* With several shards: and all notes of this one up to `to` stand up to there. */
void store_record_position(struct store *store, unsigned shard, struct entry_id id,
                           struct position to);
/*
 * Of several shards: all notes up to it stand up to store_newest, when the store has just come up.
 */
struct position store_newest_position(const struct store *store, unsigned shard);

/*
 * How long after its answer an entry may still be lost with the machine: 0 with appendfsync always,
 * else twice the second between two fsyncs.
 */
int64_t store_fsync_delay_us(const struct store *store);

/* [store] min_replicas. */
int store_min_replicas(const struct store *store);
/*
 * Calls back once that many replicas have all that the store had answered for before the call. One
 * at a time (RC_AGAIN).
 */
typedef void store_replicated(void *ctx, enum rc rc);
MUST_CHECK enum rc store_replicate(struct store *store, store_replicated *done, void *ctx);

/*
 * All calls below: RC_OK: the callback will be called once, from the loop, with RC_OK and the
 * answer, or with RC_IO (broken, or an error reply, which was logged and counted).
 * RC_AGAIN: the store is away; the callback will not be called.
 */

/* How far a slot's WAL is stored. */
struct store_progress {
    const char *position; /* all frames up to it are stored, "": none yet */
    const char *furthest; /* of the newest frame stored, by shards of that timeline */
    uint64_t read_lsn;    /* all WAL before it is done with; 0: not known */
    uint32_t timeline;    /* the oldest, where shards differ */
};
/*
 * A feed takes a slot's progress: a view that dies after the callback, NULL without RC_OK. RC_BAD:
 * the store belongs to another database or slot, which was logged.
 */
typedef void store_acquired(void *ctx, enum rc rc, const struct store_progress *progress);
MUST_CHECK enum rc store_acquire(struct store *store, const char *slot, const struct origin *origin,
                                 uint32_t timeline, store_acquired *done, void *ctx);

/*
 * Sets a claimed slot's progress back, of those shards that it is about: one that lost nothing
 * would be given again what it has.
 */
struct store_rewind {
    const char *position;     /* where it is beyond that; "": to the start, memberships too */
    uint64_t read_lsn;        /* 0: as it was */
    uint32_t timeline;        /* from now on */
    uint32_t of_timeline;     /* only shards whose progress is of this one; 0: of any */
    uint64_t knows_less_than; /* only shards that know of less WAL; 0: all */
    bool is_gap;              /* the epoch changes */
    bool members_too;         /* shard 0, which has them, goes to the start all the same */
};
/* There is no answer: the store goes down and up again. */
MUST_CHECK enum rc store_rewind(struct store *store, const char *slot,
                                const struct store_rewind *setback);

/* Frames on their way. It keeps views: the bytes behind them must live until store_ingest. */
struct store_batch;
struct store_batch *store_batch_new(struct store *store); /* which outlives it */
void store_batch_free(struct store_batch *batch);         /* accepts NULL */
void store_batch_add(struct store_batch *batch, const struct frame *frame);
/* False for a note that is too long for this store. */
bool store_accepts(const struct store *store, const struct frame *frame);
/* Puts such a note's head into the error log, as `rejected`, in its place among the others. */
void store_batch_reject(struct store_batch *batch, const struct frame *frame);
size_t store_batch_bytes(const struct store_batch *batch);
size_t store_batch_count(const struct store_batch *batch);

#define STORE_BATCH_FRAMES_MAX 256 /* in a batch */

/*
 * Whether the frame has to wait for the next batch: this one holds all it may, or enough, and the
 * two go different ways into the store; or it holds notes, and the frame is of a membership, which
 * relays have to hear of before the notes that follow.
 */
bool store_batch_is_full(const struct store_batch *batch, const struct frame *frame);

/*
 * Stores what the batch (which may be empty) holds, in one step, and empties it. `after` is the
 * position (text) the batch follows: a store that is behind it refuses. `position` is that of its
 * last frame, or `after`. All frames are beyond what store_acquire told. With the batch all WAL
 * before `read_lsn` is done with; 0: no more than was.
 */
typedef void store_ingested(void *ctx, enum rc rc);
MUST_CHECK enum rc store_ingest(struct store *store, const char *slot, const char *after,
                                const char *position, uint64_t read_lsn, struct store_batch *batch,
                                store_ingested *done, void *ctx);

/* One acknowledgement; the texts are copied. */
struct store_ack {
    const char *user;
    const char *id;
    signed char shard; /* that the message stands in; -1: not known */
};
typedef void store_acked(void *ctx, enum rc rc);
MUST_CHECK enum rc store_ack(struct store *store, const struct store_ack *acks, size_t count,
                             store_acked *done, void *ctx);

/* One line that was handed to a socket, and whose ack is waited for. */
struct store_report {
    const char *user;
    const unsigned char *id; /* 16 bytes */
    uint8_t backoff;         /* enum frame_backoff */
    uint32_t ack_timeout_ms; /* 0: delivery.ack_timeout */
    unsigned char shard;     /* that it stands in */
    bool is_retried;
    bool is_open_ended; /* whoever is shown it owes an ack */
    bool is_deferred;   /* not shown: it waits for room in the window */
    bool is_kept;       /* shown before: a store that went back may have forgotten that */
};
/* `not_pending`: indexes of reports that lack no acknowledgement. Valid during the callback. */
typedef void store_reported(void *ctx, enum rc rc, const size_t *not_pending, size_t count);
/* From now the time of their acks runs. The views need live for the call only. */
MUST_CHECK enum rc store_report(struct store *store, const struct store_report *shown, size_t count,
                                store_reported *done, void *ctx);

/*
 * Which users have live connections to this process: retries are made for those alone. It has to
 * say that it lives every few seconds. `was_known`: false when it must tell all of them again.
 */
enum store_presence_change {
    STORE_PRESENCE_ALL,    /* these and no others */
    STORE_PRESENCE_JOINED, /* these too */
    STORE_PRESENCE_LEFT,
    STORE_PRESENCE_HEARTBEAT /* as before */
};
typedef void store_presence_stored(void *ctx, enum rc rc, bool was_known);
MUST_CHECK enum rc store_presence(struct store *store, enum store_presence_change what,
                                  const char *const *users, size_t count,
                                  store_presence_stored *done, void *ctx);

/* The user asks to be shown these again, in delay_ms at the earliest. */
MUST_CHECK enum rc store_nack(struct store *store, const char *user, const char *const *ids,
                              size_t count, int64_t delay_ms, store_acked *done, void *ctx);

/* What became of the entries after a position. */
enum store_range_state {
    STORE_RANGE_WHOLE,   /* all are there */
    STORE_RANGE_TRIMMED, /* the oldest of them are gone */
    STORE_RANGE_UNKNOWN  /* the store never got as far as that position */
};

/* A page of entries. Views that die after the callback. */
struct store_page {
    const struct entry *entries;
    size_t count;
    size_t seen;                  /* entries looked at, also those that are not ours */
    struct cursor first;          /* of a range: where it begins, behind what is gone */
    struct cursor last;           /* if any were seen: where its next page begins */
    enum store_range_state state; /* of a range */
    const char *next;             /* where an inbox's next page begins; "" at the end */
};
typedef void store_paged(void *ctx, enum rc rc, const struct store_page *page);
/*
 * Of shard 0 and a user's own, in order, as far as both are known; of two shards only what is not
 * beyond `end`.
 */
MUST_CHECK enum rc store_range(struct store *store, unsigned own_shard, struct cursor after,
                               struct cursor end, size_t max, store_paged *done, void *ctx);
#define STORE_INBOX_CURSOR_MAX 48
/* The `after` of what came after these entries at first. */
void store_inbox_cursor_after(struct cursor cursor, char ret_after[STORE_INBOX_CURSOR_MAX]);
/*
 * What the user has still to ack, of both shards in order. `after`: "0" or a place, then
 * page->next. With undelivered_only what was shown and has time left for its ack is left out.
 */
MUST_CHECK enum rc store_inbox(struct store *store, const char *user, const char *after, size_t max,
                               bool undelivered_only, store_paged *done, void *ctx);

/* The user's memberships as "AUDIENCE:target" texts; views that die after the callback. */
typedef void store_grouped(void *ctx, enum rc rc, const struct bytes *groups, size_t count);
MUST_CHECK enum rc store_groups(struct store *store, const char *user, store_grouped *done,
                                void *ctx);

#endif
