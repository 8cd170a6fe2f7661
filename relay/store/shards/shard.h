/* shard.h: a shard of the store: stream, keys, connection, and requests to it; and struct store. */
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
#include "store/shards/place.h"
#include "store/store.h"

struct maintenance;
struct redisReply;
struct replicas_waiter;
struct shard;
struct shard_entry_read;
struct shard_request;
struct store;

#define STORE_EPOCH_TEXT 16

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

/* Called from the loop. */
struct shard_events {
    void (*on_up)(struct shard *shard); /* shard->epoch is current, except for a command */
    void (*on_down)(struct shard *shard);
    /* Optional: the shard failed, `what` because of `reason`. */
    void (*on_failed)(struct shard *shard, const char *what, const char *reason);
    void (*on_rejected)(struct shard *shard); /* the store has another number of shards */
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
    struct shard_entry_read *entry_reads; /* in flight (shard_request_read_entry) */
    struct replicas_wait replicas;
    struct shard_holdings holdings;
};

/* Initializes the shard and connects. `events` must outlive it. */
void shard_open(struct shard *shard, struct store *store, unsigned number,
                const struct config *config, const struct shard_events *events);
/* Calls in flight finish with RC_IO. */
void shard_close(struct shard *shard);
void shard_free(struct shard *shard); /* call it after shard_close */

/* maintenance.c: the periodic work of a shard. A shard of a command has none: NULL. */
struct maintenance *maintenance_open(struct shard *shard);
void maintenance_stop(struct maintenance *maintenance);
void maintenance_free(struct maintenance *maintenance); /* call it after the link is closed */

/* Shard 0 has the topic prefix of the store. Without a text, the old prefix is kept. */
void shard_set_topic_prefix(struct shard *shard, struct bytes text);

/* The last heartbeat was rejected, for example by a full store: blocked readers receive no data. */
bool shard_rejects_heartbeats(const struct shard *shard);

/* Writes `len` random hexadecimal digits and a zero byte. */
void shard_random_hex(char *text, size_t len);

#define ARGUMENTS_FEW 12 /* number of arguments without an allocation */

/* Initialize with {.argc = 0}. Arguments are not copied and must live until the command is sent. */
struct arguments {
    const char **argv;
    size_t *lens;
    size_t argc;
    size_t room;
    const char *few[ARGUMENTS_FEW];
    size_t few_lens[ARGUMENTS_FEW];
};

/* Adds a zero-terminated string. */
void argument(struct arguments *arguments, const char *text);
/* Adds bytes, which may include zero bytes. */
void argument_bytes(struct arguments *arguments, const void *bytes, size_t len);

/* A copy of arguments with their bytes, in one allocation: free it with free(). */
struct kept_arguments {
    size_t argc;
    const char **argv;
    size_t *lens;
};
struct bytes kept_argument(const struct kept_arguments *kept, size_t at);
size_t kept_bytes(const struct kept_arguments *kept);
struct kept_arguments *arguments_keep(size_t argc, const char *const *argv, const size_t *lens);

void arguments_free(struct arguments *arguments); /* the arguments are then empty */

/* The callbacks of one kind of request. */
struct shard_request_kind {
    const char *failure; /* log message of a rejected request: "could not ..." */
    /*
     * Handles a reply that is not an error, and may send to further shards. False if the reply is
     * invalid. Optional.
     */
    bool (*on_reply)(struct shard_request *request, struct shard *shard,
                     const struct redisReply *reply);
    /* Handles an error reply, which is already logged. Optional. */
    void (*on_error)(struct shard_request *request, const struct redisReply *reply);
    /* All shards have replied: RC_OK, or RC_IO if one failed. The request is freed afterwards. */
    void (*finish)(struct shard_request *request, enum rc rc);
    /* Frees the members of the caller's struct. Optional. */
    void (*release)(struct shard_request *request);
};

/* Must be the first member of the caller's struct. */
struct shard_request {
    const struct shard_request_kind *kind;
    struct store *store;
    unsigned left; /* outstanding replies */
    bool has_failed;
    bool is_disconnected; /* a connection was lost before the reply */
    struct shard_request_copy *copies;
};

/* Adds the first arguments of most scripts: the shard's stream and its key prefix. */
void shard_arguments(const struct shard *shard, struct arguments *arguments);

/* The memory of the arguments of cutoff.lua. */
struct cutoff_texts {
    char digest[CUTOFF_DIGEST_TEXT + 1], issued[24], ends[24];
};

/* Adds the KEYS and ARGV of cutoff.lua (write/cutoffs.c). */
void cutoff_arguments(const struct shard *shard, const struct cutoff *cutoff,
                      struct arguments *arguments, struct cutoff_texts *texts);

/* Allocates `size` zeroed bytes, which start with the request. */
void *shard_request_new(size_t size, struct store *store, const struct shard_request_kind *kind);

/*
 * Send a script, whose first `keys` arguments are keys, or a command to a further shard. The
 * arguments are freed. A shard whose connection is down counts as failed.
 */
void shard_request_send_script(struct shard_request *request, struct shard *shard,
                               enum store_script script, int keys, struct arguments *arguments);
void shard_request_send_script_argv(struct shard_request *request, struct shard *shard,
                                    enum store_script script, int keys, size_t argc,
                                    const char **argv,
                                    const size_t *lens); /* the caller still owns the arguments */
void shard_request_send_command(struct shard_request *request, struct shard *shard,
                                struct arguments *arguments);
/*
 * Sends `count` encoded commands. Only the last reply is handled, unless an earlier reply is an
 * error. Frees the bytes (malloc).
 */
void shard_request_send_commands(struct shard_request *request, struct shard *shard,
                                 enum time_of time, char *bytes, size_t len, size_t count);

/*
 * Reads one stream entry. Requests that read the same entry at the same time share the command and
 * its reply.
 */
void shard_request_read_entry(struct shard_request *request, struct shard *shard,
                              const char *entry);

/*
 * Call it after the last send. RC_OK: `finish` will be called. RC_AGAIN: nothing could be sent, and
 * the request is freed.
 */
MUST_CHECK enum rc shard_request_await(struct shard_request *request);

/*
 * Delays `finish` until shard_request_release: a part is sent later. If nothing is sent before the
 * release, or it cannot be sent, the request may finish in that call.
 */
void shard_request_hold(struct shard_request *request);
void shard_request_release(struct shard_request *request);

/*
 * Call it in on_reply. Returns the reply, or a copy if more replies are expected. Valid until
 * `finish` returns.
 */
const struct redisReply *shard_request_keep_reply(struct shard_request *request,
                                                  const struct redisReply *reply);

/*
 * Like link_send and link_call. RC_AGAIN also if the shard is not up: the link is
 * up earlier, while its node may have only some of the shard's keys.
 */
MUST_CHECK enum rc shard_send(struct shard *shard, link_reply *reply, void *ctx, int argc,
                              const char **argv, const size_t *lens);
MUST_CHECK enum rc shard_call(struct shard *shard, enum store_script script, int key_count,
                              link_reply *reply, void *ctx, int argc, const char **argv,
                              const size_t *lens);

/* True if the reply is not an error. Logs an error, and reconnects if that may fix the cause. */
bool shard_check_reply(struct shard *shard, const struct redisReply *reply, const char *failure);

/*
 * The users of a large audience are written in steps, before the notification is added. One script
 * may add STORE_PAIRS_MAX pairs. Each step (stage.lua) adds that many users to a hash, or a set,
 * that nothing reads yet. The script that adds the notification then only renames the hash.
 */
#define STAGING_CURSOR_MAX 32

/* The users of one notification. The strings must live until the last step. */
struct staging {
    const char *progress; /* key of the slot's progress, and its owner; "": not by a feed */
    const char *owner;
    const char *id;
    const char *purpose; /* "A": acknowledgements, "P": Web Pushes, "AP": both */
    const char *audience;
    const char *const *targets;
    const size_t *target_lens;
    size_t target_count;
    /* where the next step continues; the first step: 1 and "" */
    long long target;
    char cursor[STAGING_CURSOR_MAX];
};

/* Sends the next step to the shard. */
void staging_send(const struct staging *staging, struct shard_request *request,
                  struct shard *shard);

/* Reads the reply to a step. RC_OK: all users are staged. RC_AGAIN: send the next step. */
MUST_CHECK enum rc staging_read(struct staging *staging, const struct redisReply *reply);

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
