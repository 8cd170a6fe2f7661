/* shard.h: one of the streams a store is made of, with the keys around it and a link of its own. */
#ifndef CLAIRON_STORE_SHARD_H
#define CLAIRON_STORE_SHARD_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "store/entry.h"
#include "store/position.h"
#include "store/scripts/keys.h"

#define STORE_EPOCH_TEXT 16

struct link;
struct store;
struct maintenance;

/* How far the replicas of a shard's server are. */
struct replicas_wait {
    bool is_waiting;
    unsigned asked;   /* answers that are still to come; only the last one counts */
    long long offset; /* of the replication stream, that they are to reach */
    int64_t since_us;
    int64_t warned_us;
    ev_timer again;
};

/* What it held at the last beat. */
struct shard_holdings {
    uint64_t entries;
    uint64_t pending;
    uint64_t oldest_us; /* how long the oldest of them waits */
    uint64_t errors;    /* in the error log of its server */
};

/* The shard went up (shard->epoch is current) or down. Called from the loop. */
struct shard_events {
    void (*on_up)(struct store *store);
    void (*on_down)(struct store *store);
};

struct shard {
    struct store *store;
    const struct shard_events *events;
    unsigned number;
    struct link *link;
    struct maintenance *maintenance;
    bool is_up;
    char name[16]; /* in the log */
    char prefix[STORE_PREFIX_MAX];
    char stream_key[STORE_KEY_MAX];
    char epoch[STORE_EPOCH_TEXT + 1]; /* changes when it was emptied; "" before it was first up */
    struct entry_id seen;             /* the newest entry of this epoch that we know of */
    struct position seen_to;          /* all notes up to it stand up to there; of several shards */
    struct position noted;            /* of several shards: the newest note that was sent to it */
    uint64_t note_max;                /* bytes of one text that the server takes */
    bool syncs_always;                /* appendfsync always: an answer is on disk */
    bool knows_first;                 /* the stream's first entry: what adds it says so */
    uint64_t read_lsn;                /* that the progress holds, or will by what is under way */
    uint64_t claimed_lsn; /* position of the newest frame it had when the slot was claimed */
    uint64_t claimed_ordinal;
    uint32_t claimed_timeline;
    struct replicas_wait replicas;
    struct shard_holdings holdings;
};

/* Initializes the shard and connects. `events` must outlive it. RC_BAD: invalid URL (logged). */
MUST_CHECK enum rc shard_open(struct shard *shard, struct store *store, unsigned number,
                              const struct config *config, const struct shard_events *events);
/* Calls that are under way are answered with RC_IO. */
void shard_close(struct shard *shard);
void shard_free(struct shard *shard); /* after shard_close */

/* Which of them holds what is for this user alone. Any bytes may be given. */
unsigned shard_of_user(unsigned shard_count, const char *user, size_t len);

/* `len` hexadecimal digits by chance, and a zero. */
void shard_random_hex(char *text, size_t len);

#endif
