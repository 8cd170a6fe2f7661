/* shard.h: a shard of the store: stream, keys and connection; and struct store. */
#ifndef CLAIRON_STORE_SHARD_H
#define CLAIRON_STORE_SHARD_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/rates.h"
#include "base/rc.h"
#include "base/stats.h"
#include "store/connection/reply.h"
#include "store/entry.h"
#include "store/scripts/keys.h"
#include "store/scripts/scripts.h"
#include "store/servers/link.h"
#include "store/servers/servers.h"
#include "store/servers/topology.h"
#include "store/store.h"

struct maintenance;
struct place_check;
struct redisReply;
struct replicas_waiter;
struct shard;
struct shard_entry_read;
struct store;

#define STORE_EPOCH_TEXT 16
#define PLACE_WITHOUT_MAX 1024 /* bytes of META_WITHOUT */
#define PLACE_KEYS_UNKNOWN 1   /* own_keys of a node that denies the count */

/* The waits for the replicas of a server, in its first shard (replicas.c). */
struct replicas_wait {
    struct replicas_waiter *waiters; /* oldest first */
    bool is_queried;                 /* a query is in flight */
    struct throttle warning;
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
    uint64_t memory;    /* of its server */
    uint64_t memory_max;
};

/*
 * What shard 0 reports about the other shards, which record their progress less often: the newest
 * notification of each one up to a position (ingest.c).
 */
struct shard_cut {
    struct position position;
    struct position sent[STORE_SHARDS_MAX];
};

/* Called from the loop. */
struct shard_events {
    void (*on_up)(struct shard *shard); /* shard->epoch is current, except for a command */
    void (*on_down)(struct shard *shard);
    /* Optional: the shard failed, `what` because of `reason`. */
    void (*on_failed)(struct shard *shard, const char *what, const char *reason);
    void (*on_rejected)(struct shard *shard); /* the store has another number of shards */
};

/*
 * Which node of a cluster has the keys of a shard, and whether it has all of them.
 *
 * While redis-cli moves a slot, the server itself rejects the relay's requests (KEY_NONE). But
 * `redis-cli --cluster fix`, a person, or a replica that takes over can make a node the owner of a
 * slot whose other keys are on another node, and a script there would create the missing keys
 * again. So whenever the connection of a shard comes up, all other primaries are asked for their
 * number of keys in the slot (CLUSTER COUNTKEYSINSLOT).
 *
 *   UNKNOWN -> VERIFYING -> SOLE   the node has all keys: hello.lua may prepare the shard
 *                        -> SPLIT  another node has keys, or must reply and does not: the shard
 *                                  waits, the log names the node and the command of a person, and
 *                                  after 2 s the shard is VERIFYING again
 *
 * Only these nodes must reply: those that a move involves (the shard's node reports it, or has
 * rejected a request), and the former node, unless it is marked failed without a move. Other
 * primaries without a reply are ignored, so a dead one delays only its own shards. That the node
 * was SOLE is stored in the shard's `meta` (field `place`) until another move begins. So a relay
 * that starts, or a replica that takes over, needs no reply of such nodes either; without that
 * verdict, every primary must reply if the node has keys of the slot. A slot without keys is taken
 * as new.
 *
 * If a node that must reply is lost, a person decides: `clairon store accept` adds it to the field
 * `without` of `meta`, and its keys are abandoned.
 */
enum place_state { PLACE_UNKNOWN, PLACE_VERIFYING, PLACE_SOLE, PLACE_SPLIT };

/* Only shard.c writes it. Without a cluster it is always SOLE. */
struct shard_place {
    enum place_state state;
    /* was the last to have all keys, or is the source of a move; "": none */
    char node[CLUSTER_ID_MAX];
    /*
     * May have keys since then: the other node of a move (`node` itself while that is unknown), or
     * one that was found to have some. "": none.
     */
    char other_node[CLUSTER_ID_MAX];
    struct place_check *check; /* NULL: not VERIFYING */
    void (*verified)(struct shard *shard);
    ev_timer again;        /* SPLIT: repeats the check */
    struct throttle waits; /* of the message that the shard waits; reset by SOLE */
};

struct shard {
    struct store *store;
    const struct shard_events *events;
    unsigned number;
    struct link *link;
    struct maintenance *maintenance;
    struct shard_place place;
    bool is_up;        /* may be used: place.state is SOLE, and hello.lua has prepared it */
    bool is_left_out;  /* the store works without the shard (store.c) */
    bool is_check_due; /* the next heartbeat checks the epoch */
    bool lacks_reader; /* the reader's connection that starts with this shard is not up */
    char name[16];     /* name in the log */
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
    struct shard_cut cut;        /* of shard 0, when it went up */
    struct position newest_sent; /* with several shards: newest notification sent to the shard */
    struct position newest_acquired; /* newest_sent when the slot was acquired */
    struct position late_before;     /* notifications before this position are flagged FRAME_LATE */
    uint64_t notification_max;       /* proto-max-bulk-len of the server */
    bool syncs_always;               /* appendfsync always: acknowledged writes are on disk */
    bool has_first_entry;            /* `meta` contains the first stream entry */
    uint64_t read_lsn;               /* read_lsn of the feed, including batches in flight */
    struct position acquired;        /* position of the newest frame when the slot was acquired */
    uint32_t acquired_timeline;
    /* has all frames up to here: beyond `acquired` if the memberships are copied again */
    struct position stored;
    char sent_position[FRAME_POSITION_TEXT + 1]; /* what the next batch for the shard follows */
    struct ingest_queue ingests;
    struct shard_entry_read *entry_reads; /* in flight (shard_request_read_entry) */
    struct replicas_wait replicas;
    struct shard_holdings holdings;
    size_t present; /* users of this relay in the store (stored_presence.c) */
};

/* Initializes the shard and connects. `events` must outlive it. */
void shard_open(struct shard *shard, struct store *store, unsigned number,
                const struct config *config, const struct shard_events *events);
/* Calls in flight finish with RC_IO. */
void shard_close(struct shard *shard);

/* ---- the decision which node has the keys */

/* A primary other than the shard's node. */
struct place_other {
    const struct cluster_primary *primary;
    long long keys; /* in the slot; -1: no reply */
};

/* What the nodes have replied. */
struct place_facts {
    long long own_keys;              /* of the shard's node, in the slot */
    char verdict[CLUSTER_ID_MAX];    /* META_PLACE in meta, or "" */
    char without[PLACE_WITHOUT_MAX]; /* META_WITHOUT in meta, or "" */
    const struct place_other *others;
    size_t count;
};

/* Returns SOLE, or SPLIT and the node that the shard waits for. */
enum place_state place_decide(const struct shard_place *place, const struct place_facts *facts,
                              const struct place_other **ret_awaited);

/* True if a person has abandoned the keys on this node. */
bool place_is_abandoned(const struct place_facts *facts, const char *id);

/* Reads HMGET of both fields. A reply that is an error leaves them empty. */
void place_read_meta(const struct redisReply *reply, struct place_facts *facts);

/* maintenance.c: the periodic work of a shard. A shard of a command has none: NULL. */
struct maintenance *maintenance_open(struct shard *shard);
void maintenance_stop(struct maintenance *maintenance);
void maintenance_free(struct maintenance *maintenance); /* call it after the link is closed */

/* Shard 0 has the topic prefix of the store. Without a text, the old prefix is kept. */
void shard_set_topic_prefix(struct shard *shard, struct bytes text);

/* The last heartbeat was rejected, for example by a full store: blocked readers receive no data. */
bool shard_rejects_heartbeats(const struct shard *shard);

/* replicas.c: waits until enough replicas have received all acknowledged writes. */
void replicas_open(struct shard *shard);
void replicas_close(struct shard *shard); /* ends all waits with RC_IO */

/* Ends the current wait of store_replicate, if any, with RC_IO. */
void replicas_down(struct store *store);

#define REPLICAS_OFFSET_NONE (-1)

/*
 * Returns the primary's replication offset in the output of INFO replication, or
 * REPLICAS_OFFSET_NONE.
 */
long long replicas_end(const char *info);

/* Returns the number of online replicas in that output that have acknowledged `offset`. */
int replicas_beyond(const char *info, long long offset);

/* ---- the store: all shards */

#define STORE_TOKEN_TEXT 32

/* Script arguments from the settings; times in ms. */
struct script_settings {
    char ack_timeout[24];
    char backoff_base[24];
    char backoff_cap[24];
    char retention[24];
    char owner_pairs[24];    /* [feed] owner_pairs */
    char web_push_delay[24]; /* "": no Web Push */
    char receipts_retention[24];
    char receipts_bytes[24];
};

struct store {
    struct ev_loop *loop;
    const struct config *config;
    struct servers *servers;
    struct stats *stats;
    struct store_listener *listeners;
    bool is_up;                            /* all shards are up, except unavailable ones */
    ev_timer regroup;                      /* runs after a shard went down or returned */
    char relay_id[STORE_TOKEN_TEXT + 1];   /* identifies this process */
    char feed_token[STORE_TOKEN_TEXT + 1]; /* random; identifies the owner of the slot's progress */
    struct script_settings script_settings;
    struct throttles faults;
    int min_replicas;
    store_replicated *replicated; /* callback of store_replicate; NULL: none pending */
    void *replicated_ctx;
    unsigned replicating;             /* servers for which store_replicate still waits */
    char epoch[STORE_EPOCH_TEXT + 1]; /* derived from the epochs of all shards */
    char topic_prefix[STORE_TOPIC_PREFIX_MAX];
    struct entry_id newest[STORE_SHARDS_MAX];
    /* With several shards: the WAL position of each shard's `newest`. */
    struct position newest_position[STORE_SHARDS_MAX];
    struct start_position *start; /* search in progress (store.c) */
    bool has_progress;            /* a shard has contained the progress of a slot */
    bool is_acquired;             /* a feed has acquired a slot in this store */
    bool has_begun;               /* the start position was found */
    struct store_denials denials[STORE_ACCOUNTS];
    struct shard *shards;
    unsigned shard_count;
    struct topology topology;
    struct command *command; /* NULL: a relay. A command writes nothing by itself */
};

/* Like store_open. `command`: see struct store. */
struct store *store_open_with(struct ev_loop *loop, const struct config *config,
                              struct stats *stats, const struct shard_events *events,
                              struct command *command);

/* Returns the shard of notifications to this user alone. `user` may contain any bytes. */
unsigned shard_of_user(unsigned shard_count, const char *user, size_t len);

#endif
