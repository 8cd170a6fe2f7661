/* store_private.h: struct store, shared by the files of relay/store. */
#ifndef CLAIRON_STORE_PRIVATE_H
#define CLAIRON_STORE_PRIVATE_H

#include <ev.h>
#include <stddef.h>
#include <stdint.h>

#include "store/connection/fault.h"
#include "store/servers/link.h"
#include "store/servers/servers.h"
#include "store/servers/topology.h"
#include "store/shards/shard.h"
#include "store/store.h"

#define STORE_TOKEN_TEXT 32

/* Script arguments from [delivery]; times in ms. */
struct delivery {
    char ack_timeout[24];
    char backoff_base[24];
    char backoff_cap[24];
    char retention[24];
    char owner_pairs[24]; /* [feed] owner_pairs */
};
void delivery_settings(const struct config *config, struct delivery *ret_delivery);

struct store {
    struct ev_loop *loop;
    const struct config *config;
    struct servers *servers;
    struct stats *stats;
    struct store_listener *listeners;
    bool is_up;                            /* all shards are up, except unavailable ones */
    ev_timer regroup;                      /* runs after a shard went down or returned */
    char owner[STORE_TOKEN_TEXT + 1];      /* identifies this process */
    char feed_token[STORE_TOKEN_TEXT + 1]; /* random; identifies the owner of the slot's progress */
    struct delivery delivery;
    struct fault_log faults;
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
