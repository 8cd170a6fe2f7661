/* sink_private.h: a sink: the receipts that it has read from the store, and its batches. */
#ifndef CLAIRON_SINK_SINK_PRIVATE_H
#define CLAIRON_SINK_SINK_PRIVATE_H

#include <ev.h>
#include <uthash.h>

#include "base/config.h"
#include "base/rates.h"
#include "base/stats.h"
#include "sink/sink.h"
#include "store/receipts.h"
#include "store/store.h"

struct sink;
struct sink_batch;
struct sink_shard;

/*
 * A stream entry that this relay has read, until its acknowledgement. It is acknowledged when all
 * its receipts are taken.
 */
struct sink_entry {
    UT_hash_handle hh;              /* in shard->held, by id, while its generation is the shard's */
    struct sink_entry *prev, *next; /* in shard->done: all its receipts are taken */
    struct sink_shard *shard;
    bool is_held;        /* false: of an earlier generation, not acknowledged */
    size_t count;        /* its receipts */
    size_t done_count;   /* of these, taken by the sink */
    size_t loaded_count; /* of these, in memory */
    char id[ENTRY_ID_TEXT_MAX];
    unsigned char states[]; /* enum sink_receipt_state, of each receipt */
};

enum sink_receipt_state { SINK_RECEIPT_MISSING, SINK_RECEIPT_LOADED, SINK_RECEIPT_DONE };

/*
 * A receipt is in memory from the reading until the sink has taken it. It is in exactly one list
 * of its shard or batch:
 *
 *   arriving: read, but not known to be on store.min_replicas replicas
 *   queue:    may be sent
 *   batch:    under way
 *
 * When the shard's connection breaks, `arriving` and `queue` are dropped, and read again: a reply
 * may have been lost, and another relay may have claimed them. When the generation changes, all
 * entries are invalid: those that the new server has are read again.
 */
struct sink_receipt {
    struct sink_receipt *prev, *next;
    struct sink_shard *shard;
    struct sink_entry *entry;
    unsigned number; /* in its entry */
    struct bytes id;
    struct bytes data;
    char bytes[]; /* of id and data */
};

/*
 * UNCHECKED: the position of the sink's database is compared first (store_receipts_rewind).
 * OWN: reads the pending receipts of this relay again, from `after`. NEW: reads new receipts.
 */
enum sink_shard_state { SINK_SHARD_UNCHECKED, SINK_SHARD_OWN, SINK_SHARD_NEW };

struct sink_shard {
    struct sink *sink;
    unsigned number;
    enum sink_shard_state state;
    unsigned round; /* of the sink, when the request in flight was sent */
    bool is_reading;
    bool is_periodic; /* the request in flight */
    bool is_page;     /* the request in flight reads receipts */
    bool is_acking;
    bool awaits_replicas; /* `arriving` waits; is_reading is true too */
    int64_t read_us;      /* time of the next read; monotonic */
    int64_t periodic_us;  /* time of the next periodic work */
    int64_t count_us;     /* time of the next count of the backlog */
    uint64_t backlog;
    int64_t oldest_us;     /* wall clock */
    struct entry_id first; /* oldest receipt in the stream; 0-0: none, or unknown */
    enum { SINK_SWITCH_NONE, SINK_SWITCH_ON, SINK_SWITCH_OFF } pending_switch;
    uint64_t differs_since; /* is_off of this shard: sink->decisions + 1 then; 0: like shard 0 */
    char after[ENTRY_ID_TEXT_MAX];
    char generation[STORE_GENERATION_TEXT];
    struct sink_receipt *arriving, *queue;
    size_t queue_count;
    size_t page_entries; /* of the next read */
    struct sink_entry *done;
    size_t ack_count;        /* entries at the head of `done` in the acknowledgement in flight */
    struct sink_entry *held; /* uthash: all entries of this generation */
};

struct sink_batch {
    struct sink_batch *prev, *next;
    struct sink *sink;
    struct sink_receipt *receipts;
    size_t count;
    size_t bytes; /* of data */
};

/* What distinguishes one sink from another. */
struct sink_kind {
    const char *name;  /* in the log */
    const char *group; /* consumer group in the store */
    struct sink_metrics {
        enum metric backlog, oldest, receipts, failures, success, dropped;
    } metrics;
    /* The sink calls sink_batch_done or sink_batch_drop later, or sink_pause for all batches. */
    void (*send)(void *ctx, struct sink_batch *batch);
    /* A receipt that is not wanted is acknowledged without being sent. Optional. */
    bool (*wants)(void *ctx, struct bytes id);
    /* The receipt is sent in a batch of its own. Optional. */
    bool (*is_alone)(void *ctx, struct bytes id);
    /* The sink was switched off: forget all batches. Or it was switched on. Optional. */
    void (*on_switched)(void *ctx, bool on);
    void (*stop)(void *ctx); /* no callbacks any more */
    void (*free)(void *ctx);
};

struct sink_limits {
    size_t batch_receipts;
    size_t batch_bytes; /* a batch has more only if a single receipt has */
    unsigned batches;   /* maximum number under way */
};

/*
 * ON: reads and sends. PAUSED: the destination is away. All receipts are dropped from memory, and
 * after SINK_DEAD (receipts_read.lua) other relays may take them. STOPPED: at shutdown, reads
 * nothing more.
 */
enum sink_state { SINK_PAUSED, SINK_ON, SINK_STOPPED };

struct sink {
    const struct sink_kind *kind;
    struct sink_limits limits;
    void *ctx;
    struct ev_loop *loop;
    const struct config *config;
    struct store *store;
    struct stats *stats;
    struct sink_report *report;
    bool has_failed_batch; /* a batch failed, and none was taken since */
    enum sink_state state;
    bool is_off;          /* switched off in the store */
    uint64_t decisions;   /* number of times that is_off was read from shard 0 */
    unsigned round;       /* changes with each pause, so that late replies are ignored */
    const char *position; /* of the sink's database; NULL: it has none */
    ev_timer tick;
    unsigned turn;   /* shard that is served first */
    int64_t busy_us; /* time of the last receipt; monotonic */
    struct sink_batch *batches;
    unsigned batch_count;
    struct throttle warning;
    unsigned shard_count;
    struct sink_shard shards[STORE_SHARDS_MAX];
};

/* ---- sink.c */

/* The sink is paused at first. */
struct sink *sink_new(struct ev_loop *loop, const struct config *config, struct store *store,
                      struct stats *stats, struct sink_report *report, const struct sink_kind *kind,
                      const struct sink_limits *limits, void *ctx);

/*
 * The destination is ready. `position`: of its database, of constant length, which the caller may
 * advance before sink_batch_done; NULL: it has none.
 */
void sink_resume(struct sink *sink, const char *position);
/* The destination is away. All batches are freed; their receipts are read again at sink_resume. */
void sink_pause(struct sink *sink);
/* The destination has taken the batch, which is freed. */
void sink_batch_done(struct sink_batch *batch);
/* Counts and reports a failed attempt to send a batch, or to reach the destination. */
void sink_failed(struct sink *sink, const char *what, const char *error);
/* Whether the stream contains none of its receipts any more. */
bool sink_batch_is_trimmed(const struct sink_batch *batch);
/* The batch was not taken, and will not be. It is freed. */
void sink_batch_drop(struct sink_batch *batch);
/* Switches the sink on or off for all relays. Off: call sink_batch_done for no further batch. */
void sink_switch(struct sink *sink, bool on);

/* Of sinks.c: see sinks_stop, sinks_close and sinks_free. */
void sink_stop(struct sink *sink);
void sink_close(struct sink *sink);
void sink_free(struct sink *sink);

/* ---- sql.c */

struct sink *sink_sql_open(struct ev_loop *loop, const struct config *config, struct store *store,
                           struct stats *stats, struct sink_report *report);

/* ---- webhook.c */

/* Like sinks_check, for the secret file. */
MUST_CHECK enum rc sink_webhook_check_secrets(const struct config *config, char *error,
                                              size_t size);
/* If the secret file has become invalid (logged), the sink is paused until a reload. */
struct sink *sink_webhook_open(struct ev_loop *loop, const struct config *config,
                               struct store *store, struct stats *stats,
                               struct sink_report *report);
/* Reads the secrets again, and switches the sink on. */
void sink_webhook_reload(struct sink *sink);

#endif
