/* shard.h: one shard of the store: its stream, its keys and its connection. */
#ifndef CLAIRON_STORE_SHARD_H
#define CLAIRON_STORE_SHARD_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "store/entry.h"
#include "store/history.h"
#include "store/position.h"
#include "store/scripts/keys.h"
#include "store/shards/place.h"
#include "store/transactions.h"

#define STORE_EPOCH_TEXT 16

struct link;
struct shard;
struct store;
struct maintenance;

struct replicas_waiter;
struct shard_entry_read;

/* The waits for the replicas of a server, in the first shard of the server's connection. */
struct replicas_wait {
    struct replicas_waiter *waiters; /* oldest first */
    bool is_queried;                 /* a query is in flight */
    int64_t warned_us;
    ev_timer again; /* sends the next query */
};

/* The batches of a feed that wait until a batch with a large audience is complete (ingest.c). */
struct ingest_queue {
    struct ingest_part *holder;  /* this batch is stored in steps; NULL: none */
    struct ingest_part *waiting; /* later batches, in order */
    unsigned kept;               /* batches whose arguments are kept, sent or waiting */
};

/* Totals at the last heartbeat. */
struct shard_holdings {
    uint64_t entries;
    uint64_t pending;
    uint64_t oldest_us; /* age of the oldest pending notification */
    uint64_t errors;    /* entries of the error log */
};

/* Called from the loop. */
struct shard_events {
    void (*on_up)(struct shard *shard); /* shard->epoch is current, except for a command */
    void (*on_down)(struct shard *shard);
    /* Optional: the shard failed, `what` because of `reason`. */
    void (*on_failed)(struct shard *shard, const char *what, const char *reason);
};

struct shard {
    struct store *store;
    const struct shard_events *events;
    unsigned number;
    struct link *link;
    struct maintenance *maintenance;
    struct shard_place place;
    bool is_up;          /* may be used: place.state is SOLE, and hello.lua has prepared it */
    bool is_unavailable; /* the store works without the shard (availability.c) */
    bool lacks_reader;   /* the reader's connection that starts with this shard is not up */
    char name[16];       /* name in the log */
    char prefix[STORE_PREFIX_MAX];
    char stream_key[STORE_KEY_MAX];
    /* changes when the shard's data is lost; "" until it is first up */
    char epoch[STORE_EPOCH_TEXT + 1];
    struct history history;                  /* of the server of this connection */
    struct history reader_history;           /* of the server that the reader reads */
    struct history former_history;           /* what the reader read before reader_history */
    struct entry_id seen;                    /* the newest known stream entry of this epoch */
    struct transactions newest_transactions; /* the newest transactions when the shard went up */
    uint64_t undone_count;                   /* of store_undone_count, when the shard went up */
    /* with several shards: the stream up to `seen` covers the WAL up to this position */
    struct position seen_position;
    struct position newest_sent; /* with several shards: newest notification sent to the shard */
    struct position newest_acquired; /* newest_sent when the slot was acquired */
    struct position late_before;     /* notifications before this position are flagged FRAME_LATE */
    uint64_t notification_max;       /* proto-max-bulk-len of the server */
    bool syncs_always;               /* appendfsync always: acknowledged writes are on disk */
    bool has_first_entry;            /* `meta` contains the first stream entry */
    uint64_t read_lsn;               /* read_lsn of the feed, including batches in flight */
    uint64_t acquired_lsn;           /* position of the newest frame when the slot was acquired */
    uint64_t acquired_ordinal;
    uint32_t acquired_timeline;
    struct ingest_queue ingests;
    struct shard_entry_read *entry_reads; /* in flight (shard_request.h) */
    struct replicas_wait replicas;
    struct shard_holdings holdings;
};

/* Initializes the shard and connects. `events` must outlive it. */
void shard_open(struct shard *shard, struct store *store, unsigned number,
                const struct config *config, const struct shard_events *events);
/* Calls in flight finish with RC_IO. */
void shard_close(struct shard *shard);
void shard_free(struct shard *shard); /* call it after shard_close */

/* Writes `len` random hexadecimal digits and a zero byte. */
void shard_random_hex(char *text, size_t len);

#endif
