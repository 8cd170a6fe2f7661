/* store.h: the store (KeyDB, Redis or Valkey); the interface for the other modules. */
#ifndef CLAIRON_STORE_STORE_H
#define CLAIRON_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/stats.h"
#include "store/entry.h"
#include "store/scripts/constants.h"
#include "wire/cutoff.h"
#include "wire/frame.h"

struct ev_loop;
struct publication;
struct store;

/* NULL: invalid URL (logged). Connects from the loop, and reconnects after a failure. */
struct store *store_open(struct ev_loop *loop, const struct config *config, struct stats *stats);
void store_close(struct store *store); /* accepts NULL; pending callbacks receive RC_IO */

/* Returns the random id of this process, which is constant while it runs. */
const char *store_relay_id(const struct store *store);

/*
 * Returns the store's identity, which changes when its data is lost. "" until the store is first
 * up.
 */
const char *store_epoch(const struct store *store);

/*
 * A store has one or more shards, each with a stream. Notifications for a single user are in that
 * user's shard, all other notifications in shard 0. With one shard all notifications are in shard
 * 0.
 */
unsigned store_shards(const struct store *store);
unsigned store_shard_of(const struct store *store, const char *user);

/*
 * Called when the store goes up or down. The caller owns the struct, which must outlive the store.
 */
struct store_listener {
    void (*on_up)(void *ctx);
    void (*on_down)(void *ctx); /* optional */
    /* The store rejects this configuration (logged), so a retry cannot succeed. Optional. */
    void (*on_rejected)(void *ctx);
    void *ctx;
    struct store_listener *next; /* set by the store */
};

void store_listen(struct store *store, struct store_listener *listener);
bool store_replies(const struct store *store);

/*
 * In a cluster the store may be up without some of its shards. The users of these shards wait, and
 * the feed's batches omit their notifications.
 */
bool store_is_complete(const struct store *store);
/*
 * Shard 0 stores memberships, tickets and idempotency keys. Without shard 0, only live sessions
 * continue, and they receive only notifications of their users' shards.
 */
bool store_has_shared(const struct store *store);
/* True if the store is up, including shard 0 and this user's shard. */
bool store_serves(const struct store *store, const char *user);

/*
 * True if the store is up with shard 0, and so is this process's reader, if any. Clients can then
 * connect and receive notifications.
 */
bool store_is_serving(const struct store *store);
/* True if the store has contained the progress of a slot since a shard was prepared. */
bool store_has_progress(const struct store *store);
/* True if a feed of any relay has acquired a slot in this store; known after a heartbeat. */
bool store_is_acquired(const struct store *store);
/*
 * Called by the reader when one of its connections starts or stops following its shards
 * (topology.h).
 */
void store_set_reader_follows(struct store *store, unsigned connection, bool follows);

/*
 * True if the store replies but rejects heartbeats, because it is full: blocked readers then
 * receive no data.
 */
bool store_rejects_heartbeats(const struct store *store);

/*
 * Returns the newest stream entry of each shard when the store went up. Lives as long as the store.
 */
const struct entry_id *store_newest(const struct store *store);

/*
 * Returns the newest transactions when the store went up: transactions with a notification in the
 * shard, and transactions with a membership change or reload. Lives as long as the store.
 */
const struct transactions *store_newest_transactions(const struct store *store, unsigned shard);

/*
 * Returns how often stored transactions were undone (struct store_rewind) when the store went up.
 * If the number has changed, a transaction that was known before may be undone.
 */
uint64_t store_undone_count(const struct store *store);

/* Records a stream entry that was read. */
void store_record_entry(struct store *store, unsigned shard, struct entry_id id);
/*
 * Translates an id of the shard for the stream that the reader reads (history_translate): it is
 * limited to the end of its generation or, if that was lost, of the newest earlier one that the
 * stream contains. RC_AGAIN: the reader may not have followed a failover yet. RC_CLOSED: the stream
 * contains no such generation.
 */
MUST_CHECK enum rc store_translate_id(const struct store *store, unsigned shard,
                                      struct entry_id *id);
/* False from a failover until the reader reads the new primary of the shard. */
bool store_is_read(const struct store *store, unsigned shard);
/* Records that the stream up to this entry covers the WAL up to `to`. For several shards. */
void store_record_position(struct store *store, unsigned shard, struct entry_id id,
                           struct position to);
/* Returns the WAL position that the stream, up to store_newest, covers. For several shards. */
struct position store_newest_position(const struct store *store, unsigned shard);

/*
 * Returns the time after the reply in which an operating system crash may still lose a stream
 * entry, in microseconds: 0 with appendfsync always, otherwise two intervals of everysec.
 */
int64_t store_fsync_delay_us(const struct store *store);

/* [store] min_replicas. */
int store_min_replicas(const struct store *store);
/*
 * Calls back when store_min_replicas replicas have all writes that the store acknowledged before
 * this call. One call at a time, otherwise RC_AGAIN.
 */
typedef void store_replicated(void *ctx, enum rc rc);
MUST_CHECK enum rc store_replicate(struct store *store, store_replicated *done, void *ctx);

/*
 * All functions below return RC_OK or RC_AGAIN. RC_OK: the callback is called once, from the loop,
 * with RC_OK and the reply, or with RC_IO (connection lost, or an error reply, which is logged and
 * counted). RC_AGAIN: the store is down; the callback is not called. Data of a reply is valid
 * during the callback.
 */
typedef void store_acked(void *ctx, enum rc rc);
typedef void store_bytes_read(void *ctx, enum rc rc, struct bytes bytes);

#define ORIGIN_NUMBER_MAX 32
#define ORIGIN_NAME_MAX 256

/*
 * A database is identified by the system identifier and its oid: a rename keeps them, a drop and
 * restore does not. The name is only for messages.
 */
struct origin {
    char system[ORIGIN_NUMBER_MAX];
    char database[ORIGIN_NUMBER_MAX]; /* the database's oid */
    char name[ORIGIN_NAME_MAX];
};

/* The slot's progress in the store. */
struct store_progress {
    const char *position; /* all frames up to this position are stored; "": no frame */
    /* position of the newest frame that a shard of that timeline has stored */
    const char *furthest;
    uint64_t read_lsn; /* all WAL before this LSN is processed; 0: unknown */
    uint32_t timeline; /* the lowest timeline of all shards */
};
/*
 * Acquires a slot's progress for this feed, and fences earlier feeds. `progress` is NULL unless
 * RC_OK. RC_BAD: the store belongs to another database or slot (logged).
 */
typedef void store_acquired(void *ctx, enum rc rc, const struct store_progress *progress);
MUST_CHECK enum rc store_acquire(struct store *store, const char *slot, const struct origin *origin,
                                 uint32_t timeline, store_acquired *done, void *ctx);

/*
 * Rewinds the progress of an acquired slot in the shards that lost data. Other shards keep their
 * progress; otherwise they would store their frames twice.
 */
struct store_rewind {
    /* the new position, if lower; "": the start, and copy the memberships again */
    const char *position;
    uint64_t read_lsn;       /* 0: unchanged */
    uint32_t timeline;       /* the new timeline */
    uint32_t of_timeline;    /* only shards on this timeline; 0: all */
    uint64_t read_lsn_below; /* only shards with a lower read_lsn; 0: all */
    bool is_gap;             /* the epoch changes */
    /* The stored transactions from undone_lsn on are undone: no snapshot will contain them. */
    bool is_undone;
    uint64_t undone_lsn;
    bool resets_members; /* resets shard 0, which stores the memberships */
};
/* No callback: the store goes down and up again. */
MUST_CHECK enum rc store_rewind(struct store *store, const char *slot,
                                const struct store_rewind *request);

/* A batch of frames. Frames are not copied: their bytes must live until store_ingest. */
struct store_batch;
struct store_batch *store_batch_new(struct store *store); /* the store must outlive it */
void store_batch_free(struct store_batch *batch);         /* accepts NULL */
void store_batch_add(struct store_batch *batch, const struct frame *frame);
/*
 * Call it for each notification that was stored before. If its shard is unavailable, it may lack
 * the notification: later notifications of other shards depend on it.
 */
void store_batch_skip(struct store_batch *batch, const struct frame *frame);
/* False if the notification is larger than the store accepts. */
bool store_accepts(const struct store *store, const struct frame *frame);
/* Adds the header of such a notification to the error log as `rejected`, in batch order. */
void store_batch_reject(struct store_batch *batch, const struct frame *frame);
size_t store_batch_bytes(const struct store_batch *batch);
size_t store_batch_count(const struct store_batch *batch);

#define STORE_BATCH_FRAMES_MAX 256 /* frames in a batch */

/*
 * True if the frame must start the next batch. Possible reasons: the batch is full; the batch is
 * large enough, and the frame is stored by the other method (script or transaction); or the frame
 * is a membership and the batch contains notifications, because relays must read a membership
 * before the notifications that follow it.
 */
bool store_batch_is_full(const struct store_batch *batch, const struct frame *frame);

/*
 * Stores the batch, which may be empty, and clears it: in one step of each shard, or with large
 * audiences in several. The batch follows what was sent before: a store that is behind rejects it.
 * `position` is the position of the batch's last frame, or that of the batch before. All frames are
 * beyond the progress of store_acquire. After this batch all WAL before `read_lsn` is processed; 0:
 * unchanged.
 *
 * If `is_record`, every shard records this progress. Otherwise only the shards with frames do, and
 * shard 0. Batches may end in another order, but a record ends after all batches before it.
 */
struct store_ingest_order {
    const char *slot;
    const char *position;
    uint64_t read_lsn;
    bool is_record;
};
typedef void store_ingested(void *ctx, enum rc rc);
MUST_CHECK enum rc store_ingest(struct store *store, const struct store_ingest_order *order,
                                struct store_batch *batch, store_ingested *done, void *ctx);

/*
 * What the store has denied to table owners: notifications, because the pairs of their owner were
 * used up ([feed] owner_pairs), and entries of a full error log.
 */
#define STORE_DENIALS_MAX 64 /* further owners are only counted in `total` */

enum store_account { STORE_ACCOUNT_PAIRS, STORE_ACCOUNT_ERRORS, STORE_ACCOUNTS };

/* Since the start of the process. */
struct store_denials {
    uint64_t total;
    size_t count;
    struct store_denial {
        uint32_t owner;  /* OID of the role that owns the tables; 0: not limited */
        uint64_t items;  /* notifications or entries */
        int64_t last_us; /* of the last one; wall clock */
    } owners[STORE_DENIALS_MAX];
};

/* Lives as long as the store. */
const struct store_denials *store_denials(const struct store *store, enum store_account account);

/* The prefix of all topics, which the feed stores for the other relays. */
#define STORE_TOPIC_PREFIX_MAX 256 /* including the zero byte */

/* Stores the feed's topic prefix for relays without a feed, unless it is too long. */
void store_set_topic_prefix(struct store *store, const char *prefix);

/* Returns "" if no feed has stored a prefix. */
const char *store_topic_prefix(const struct store *store);

/* Notifications that were published over HTTP. */
enum store_publish {
    STORE_PUBLISHED,
    STORE_PUBLISHED_BEFORE,    /* a repeat of an earlier request: nothing was stored */
    STORE_PUBLISHED_DIFFERENT, /* the key belongs to a different notification: nothing was stored */
    STORE_PUBLISHED_EXPIRED    /* unknown key but expired notification: nothing was stored */
};

#define STORE_DIGEST_TEXT 64                    /* hexadecimal digits */
#define STORE_IDEMPOTENCY_RETENTION_MS 86400000 /* how long a key is stored */

/* Returns the shard in which the notification is stored. */
unsigned store_publish_shard(const struct store *store, const struct publication *publication,
                             const char *key);

/*
 * Stores the notification, once per idempotency `key` (any bytes; NULL: no key). With a key,
 * `digest` identifies the request. `id`: the id of the stored notification, new or old. The
 * arguments are copied.
 */
typedef void store_published(void *ctx, enum rc rc, enum store_publish outcome, const char *id);
MUST_CHECK enum rc store_publish(struct store *store, const struct publication *publication,
                                 const char *key, const char digest[STORE_DIGEST_TEXT + 1],
                                 store_published *done, void *ctx);

/*
 * Calls back once when store_min_replicas replicas have what the store acknowledged in this shard,
 * immediately if that is 0. Any number of calls at a time. RC_AGAIN: not before the timeout, which
 * is one of REPLICAS_*_US (timeouts.h). RC_IO: the store does not reply.
 */
void store_await_replicas(struct store *store, unsigned shard, int64_t timeout_us,
                          store_replicated *done, void *ctx);

#define STORE_RECEIPT_ENTRY_MAX 48 /* bytes of the id of a receipt's stream entry */
#define STORE_RECEIPTS_MAX 1000    /* receipts in a page */
#define STORE_RECEIPTS_CURSOR_MAX 768
#define STORE_RECEIPTS_BYTES_MAX ((size_t)16 * 1024 * 1024)

/* `json`: {"receipts":[..],"next":"<cursor>"}, with RC_OK. Freed afterwards. */
typedef void store_receipts_done(void *ctx, enum rc rc, struct buffer *json);
/*
 * Reads up to `limit` receipts after the cursor ("": the oldest) that enough replicas have, of all
 * shards in the order of their times. `emitter`, `id`: only of this emitter, of this notification;
 * NULL: of any. RC_BAD: invalid cursor.
 */
MUST_CHECK enum rc store_receipts(struct store *store, const char *after, const char *emitter,
                                  const char *id, unsigned limit, store_receipts_done *done,
                                  void *ctx);

/* One acknowledgement; the strings are copied. */
struct store_ack {
    const char *user;
    const char *id;
    signed char shard; /* shard of the notification; -1: unknown */
};
MUST_CHECK enum rc store_ack(struct store *store, const struct store_ack *acks, size_t count,
                             store_acked *done, void *ctx);

/* True if the ack's shard, or a possible shard, is unavailable: store_ack would then fail. */
bool store_acks_wait(const struct store *store, const struct store_ack *ack);

#define STORE_CONN_TEXT 31 /* bytes of the id of a connection */

/*
 * A delivery report: a notification that needs an ack was sent or skipped; or a query of the state
 * of its pair.
 */
struct store_report {
    char *user;
    char conn[STORE_CONN_TEXT + 1];
    struct entry_id entry; /* its stream entry; read only if is_query */
    unsigned char id[16];
    unsigned char shard;  /* shard of the notification */
    uint16_t attempts;    /* of what was delivered: 0 at first, then the number of the retry */
    bool is_query;        /* not delivered: only the state of the pair is asked for */
    bool is_renewal;      /* repeats an earlier report, because the store may have lost it */
    bool is_unsubscribed; /* not delivered: the connection is not subscribed to the topic */
};

/* The state of a pair, as report.lua returns it. */
enum store_pair {
    STORE_PAIR_PENDING, /* or unknown: the report was omitted */
    STORE_PAIR_NONE,    /* the user does not have to acknowledge it */
    STORE_PAIR_ACKED,
    STORE_PAIR_ENDED, /* it expired, was dropped, or its retries are exhausted */
    STORE_PAIR_LOST   /* of a query: the store has lost its stream entry */
};

/* `states` contains one state per report; NULL on failure. Valid during the callback. */
typedef void store_reported(void *ctx, enum rc rc, const enum store_pair *states, size_t count);

/*
 * Starts the ack timeout. The reports must live only during the call. Reports of unavailable shards
 * are omitted: sessions read the pending list again when these shards return. RC_CLOSED: all were
 * omitted, and the callback is not called.
 */
MUST_CHECK enum rc store_report(struct store *store, const struct store_report *reports,
                                size_t count, store_reported *done, void *ctx);

/*
 * Records a gap that was announced to a connection, of the stream entries after `from` up to `to`,
 * for store_why. Nothing is recorded if the store is down.
 */
void store_record_gap(struct store *store, const char *user, const char *conn, struct cursor from,
                      struct cursor to, const char *why);

/*
 * Presence: the users who are connected to this process. Only present users receive retries. A
 * heartbeat is required every few seconds. `was_registered` false: send all users again.
 */
enum store_presence_change {
    STORE_PRESENCE_ALL,    /* all users of this process */
    STORE_PRESENCE_JOINED, /* users who connected */
    STORE_PRESENCE_LEFT,
    STORE_PRESENCE_HEARTBEAT /* no change */
};
typedef void store_presence_stored(void *ctx, enum rc rc, bool was_registered);
MUST_CHECK enum rc store_presence(struct store *store, enum store_presence_change what,
                                  const char *const *users, size_t count,
                                  store_presence_stored *done, void *ctx);

/* Negative acknowledgement: the notifications are retried after delay_ms or later. */
MUST_CHECK enum rc store_nack(struct store *store, const char *user, const char *const *ids,
                              size_t count, int64_t delay_ms, store_acked *done, void *ctx);

/* States whether the streams still contain all stream entries after a cursor. */
enum store_range_state {
    STORE_RANGE_WHOLE,   /* no entry was trimmed */
    STORE_RANGE_TRIMMED, /* the oldest entries were trimmed */
    STORE_RANGE_UNKNOWN  /* the store has never reached that cursor */
};

/* A page of stream entries. */
struct store_page {
    const struct entry *entries;
    size_t count;
    size_t seen;                  /* number of entries read, including foreign entries */
    struct cursor first;          /* start of a range, after the trimmed entries */
    struct cursor last;           /* start of the next page, if any entries were read */
    enum store_range_state state; /* state of a range */
    /* of a pending list: */
    bool has_more;       /* `last` is the start of the next page */
    bool lacks_ended;    /* not all notifications that ended after `received` are known */
    unsigned lost_count; /* number of those that the stream no longer contains */
};
typedef void store_paged(void *ctx, enum rc rc, const struct store_page *page);
/*
 * Returns the stream entries after a cursor, from shard 0 and the user's own shard, merged as far
 * as both were read. With two shards, entries beyond `end` are omitted.
 */
MUST_CHECK enum rc store_range(struct store *store, unsigned own_shard, struct cursor after,
                               struct cursor end, size_t max, store_paged *done, void *ctx);
/*
 * Returns stream entries of a shard up to `last`, newest first, as far as the first large one. No
 * entries, but more: the next one is large.
 */
MUST_CHECK enum rc store_earlier(struct store *store, unsigned number, struct entry_id last,
                                 size_t max, store_paged *done, void *ctx);
/*
 * Which part of a user's pending list a page contains. Cursors are compared with first stream
 * entries.
 */
struct store_pending_part {
    struct cursor after;
    struct cursor last;
    size_t max;
    /*
     * has_received: the session has received all notifications up to `received`. The page also
     * contains the later ones that ended meanwhile.
     */
    bool has_received;
    struct cursor received;
    bool ended_only;
    /* without those up to `received` whose ack timeout is running */
    bool undelivered_only;
};
/* Returns the user's pending notifications of both shards, in order. */
MUST_CHECK enum rc store_pending(struct store *store, const char *user,
                                 const struct store_pending_part *part, store_paged *done,
                                 void *ctx);

/* The user's memberships as "AUDIENCE:target" strings. */
typedef void store_grouped(void *ctx, enum rc rc, const struct bytes *groups, size_t count);
MUST_CHECK enum rc store_groups(struct store *store, const char *user, store_grouped *done,
                                void *ctx);

/*
 * Web Push subscriptions (wire/subscription.h). An endpoint has one user: the one who subscribed
 * last. A user's oldest subscription beyond [webpush] max_per_user is removed, as is one that was
 * not saved for [webpush] keep.
 */
struct store_subscription {
    const char *id;     /* subscription_id of its endpoint */
    const char *text;   /* of subscription_write */
    int64_t renewed_ms; /* Unix time */
    int64_t failed_ms;  /* the last failure of its push service, Unix time; 0: none */
    const char *reason; /* of the last failure */
};

/*
 * Saves a subscription. `text` NULL: removes the endpoint if it is bound to the user.
 * `has_changed`: it was not bound to the user before, or it was removed.
 */
typedef void store_subscribed(void *ctx, enum rc rc, bool has_changed);
MUST_CHECK enum rc store_subscribe(struct store *store, const char *user, const char *endpoint,
                                   const char *text, store_subscribed *done, void *ctx);

/* The subscriptions that are bound to the user, newest first. */
typedef void store_listed(void *ctx, enum rc rc, const struct store_subscription *list,
                          size_t count);
MUST_CHECK enum rc store_subscriptions(struct store *store, const char *user, store_listed *done,
                                       void *ctx);

/* Stores the last failure of an endpoint's push service, for store_subscriptions. */
MUST_CHECK enum rc store_save_push_failure(struct store *store, const char *endpoint,
                                           int64_t failed_ms, const char *reason, store_acked *done,
                                           void *ctx);

/* A Web Push of a notification to one user, in the queue. */
struct store_web_push {
    const char *id; /* of the notification */
    const char *user;
    const char *text; /* web_push: see wire/push_message.h */
    const char *urgency;
    const char *state;  /* of earlier attempts; "": none */
    int64_t commit_ms;  /* Unix time */
    int64_t expires_ms; /* Unix time; 0: unset */
    int64_t since_ms;   /* Unix time: it is for a user without a session since then */
    unsigned shard;
    bool needs_ack;
};

/* The queue of a shard. Valid during the callback. */
struct store_web_pushes {
    const struct store_web_push *leased;
    size_t count;
    uint64_t backlog;  /* Web Pushes that have not ended */
    int64_t oldest_ms; /* since the commit of the oldest one; 0: none */
    uint64_t expired;  /* ended by this request, because they have expired */
};

/*
 * Leases up to `max` Web Pushes of a shard that are due. They are due again after the lease, unless
 * they are ended. Those that have expired, or that the user has acknowledged, end by themselves.
 */
typedef void store_web_pushes_leased(void *ctx, enum rc rc, const struct store_web_pushes *pushes);
MUST_CHECK enum rc store_lease_web_pushes(struct store *store, unsigned shard, int64_t lease_ms,
                                          unsigned max, store_web_pushes_leased *done, void *ctx);
/*
 * Ends a Web Push; or, if delay_ms is not negative, stores its state and when it is due. Without a
 * state, one that was escalated since the lease does not end, and is due now.
 * `is_accepted`: a push service has accepted it now, which is added to the trace.
 */
MUST_CHECK enum rc store_end_web_push(struct store *store, const struct store_web_push *push,
                                      int64_t delay_ms, bool is_accepted, store_acked *done,
                                      void *ctx);

/* Tickets of Web Pushes, which acknowledge one notification for one user, once, without a token. */
MUST_CHECK enum rc store_save_push_ticket(struct store *store, const char *ticket, const char *id,
                                          const char *user, int64_t lifetime_ms, store_acked *done,
                                          void *ctx);
/* RC_BAD: used, expired or unknown. */
typedef void store_push_ticket_known(void *ctx, enum rc rc, const char *id, const char *user);
/* Reads the ticket, and removes it if `is_used`. */
MUST_CHECK enum rc store_push_ticket(struct store *store, const char *ticket, bool is_used,
                                     store_push_ticket_known *done, void *ctx);

/* Whether a user has had a session on any relay since a time (Unix time, in ms). */
typedef void store_presence_known(void *ctx, enum rc rc, bool was_present);
MUST_CHECK enum rc store_was_present(struct store *store, const char *user, int64_t since_ms,
                                     store_presence_known *done, void *ctx);

/*
 * The last key set that was fetched from an issuer of tokens, for relays that start while its
 * provider is away. `issuer`: a name for the key in shard 0. `text` is copied. No bytes: none is
 * stored.
 */
MUST_CHECK enum rc store_save_issuer_keys(struct store *store, const char *issuer, const char *text,
                                          size_t len, store_acked *done, void *ctx);
MUST_CHECK enum rc store_read_issuer_keys(struct store *store, const char *issuer,
                                          store_bytes_read *done, void *ctx);

/* Tickets, which replace a token once within 30 s, on every relay of the store. */
#define STORE_TICKET_SECONDS 30
#define STORE_TICKET_TEXT 32 /* hexadecimal digits */

/* Stores the claims of a ticket. The strings are copied. */
MUST_CHECK enum rc store_ticket_save(struct store *store, const char *ticket, const char *claims,
                                     store_acked *done, void *ctx);

/*
 * Redeems a ticket: reads its claims. Only the first attempt succeeds. bytes.at is NULL if the
 * ticket does not exist.
 */
MUST_CHECK enum rc store_ticket_redeem(struct store *store, const char *ticket,
                                       store_bytes_read *done, void *ctx);

/*
 * Stores a cut-off, and announces it to all relays. The callback receives the stored one: if an
 * earlier cut-off of the same digest rejects more, the result rejects both. `user`: whose Web Push
 * subscriptions are removed then, because a user who is cut off receives none; NULL: nobody's.
 */
typedef void store_cut_off_done(void *ctx, enum rc rc, const struct cutoff *cutoff);
MUST_CHECK enum rc store_cut_off(struct store *store, const struct cutoff *cutoff, const char *user,
                                 store_cut_off_done *done, void *ctx);
/*
 * Reads all cut-offs, in any order, and some of them possibly twice. Those that are stored or
 * removed meanwhile may be missing.
 */
typedef void store_cutoff_read(void *ctx, const struct cutoff *cutoff);
MUST_CHECK enum rc store_read_cutoffs(struct store *store, store_cutoff_read *each,
                                      store_acked *done, void *ctx);

#endif
