/* call.h: what the store's questions share: the store, a call under way, its arguments. */
#ifndef CLAIRON_STORE_CALL_H
#define CLAIRON_STORE_CALL_H

#include <ev.h>

#include "store/connection/fault.h"
#include "store/connection/link.h"
#include "store/shards/shard.h"
#include "store/store.h"
#include "store/topic_prefix.h"
#include "store/trace.h"

#define STORE_TOKEN_TEXT 32

/* [delivery], as the scripts are told it: times in ms. */
struct delivery {
    char ack_timeout[24];
    char backoff_base[24];
    char backoff_cap[24];
    char retention[24];
};
void delivery_settings(const struct config *config, struct delivery *ret_delivery);

struct store {
    struct ev_loop *loop;
    struct stats *stats;
    struct store_listener *listeners;
    bool is_up;                       /* all shards are */
    bool lacks_reader;                /* that follows them for this process */
    char owner[STORE_TOKEN_TEXT + 1]; /* this process */
    char claim[STORE_TOKEN_TEXT + 1]; /* this claim on a slot's progress */
    struct delivery delivery;
    struct fault_log faults;
    int min_replicas;
    store_replicated *replicated; /* waits for replicas; NULL: nobody does */
    void *replicated_ctx;
    char epoch[STORE_EPOCH_TEXT + 1]; /* of all shards together */
    char errors_key[STORE_KEY_MAX];
    char topic_prefix[STORE_TOPIC_PREFIX_MAX];
    struct entry_id newest[STORE_SHARDS_MAX];
    struct position newest_to[STORE_SHARDS_MAX]; /* of several: how far the notes there go */
    struct start_position *start;                /* is looked for, see start_position.h */
    bool has_begun;                              /* .. and was found */
    struct shard *shards;
    unsigned shard_count;
    unsigned server_count; /* the first so many shards are on different ones */
};

/* A call under way: what the caller wants to hear, whichever it is. */
struct call {
    struct store *store;
    struct shard *shard; /* that was asked */
    void *ctx;
    char about[FRAME_UUID_TEXT + 1]; /* the message a trace is of */
    union {
        store_traced *traced;
        store_paged *paged;
        store_grouped *grouped;
    } done;
};

/* As many arguments as it takes; the texts must outlive the call. */
struct long_arguments {
    const char **argv;
    size_t *lens;
    size_t argc;
    size_t room; /* fixed at birth */
};
void long_arguments_init(struct long_arguments *arguments, size_t room);
void long_argument(struct long_arguments *arguments, const char *text);
/* What is no text: it may hold zeroes, and needs none at its end. */
void long_argument_bytes(struct long_arguments *arguments, const void *bytes, size_t len);
void long_arguments_free(struct long_arguments *arguments);

/* Arguments of one script call; all are texts that outlive it. */
struct arguments {
    const char *argv[8];
    size_t lens[8];
    int argc;
};

void argument(struct arguments *arguments, const char *text);
struct call *call_new(struct shard *shard, void *ctx);

/* Sends it; frees the call when it could not. */
MUST_CHECK enum rc call_send(struct call *call, enum store_script script, int key_count,
                             link_reply *reply, const struct arguments *arguments);

/* Whether the reply is what was asked for; says so in the log when it is an error. */
bool call_succeeded(struct shard *shard, const struct redisReply *reply, const char *what);

#endif
