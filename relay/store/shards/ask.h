/* ask.h: sends a request to one or more shards, and finishes when all of them have replied. */
#ifndef CLAIRON_STORE_ASK_H
#define CLAIRON_STORE_ASK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "base/stats.h"
#include "store/scripts/scripts.h"
#include "store/shards/arguments.h"

struct ask;
struct redisReply;
struct shard;
struct store;

/* How the replies to one kind of request are handled. */
struct ask_kind {
    const char *what; /* in the log: "could not <what>" */
    /* Handles a reply that is no error. False: invalid reply. It may ask more shards. */
    bool (*take)(struct ask *ask, struct shard *shard, const struct redisReply *reply);
    /* Handles an error reply, already logged. Optional. */
    void (*on_error)(struct ask *ask, const struct redisReply *reply);
    /* All shards have replied: RC_OK, or RC_IO if one failed. The ask is freed afterwards. */
    void (*finish)(struct ask *ask, enum rc rc);
    /* Frees the members of the caller's struct. Optional. */
    void (*release)(struct ask *ask);
};

/* The first member of the caller's struct. */
struct ask {
    const struct ask_kind *kind;
    struct store *store;
    unsigned left; /* replies to come */
    bool has_failed;
    bool is_cut_off; /* a connection was lost before the reply */
    struct ask_copy *copies;
};

/* Allocates `size` zeroed bytes; an ask is the first member. */
void *ask_new(size_t size, struct store *store, const struct ask_kind *kind);

/*
 * Ask one more shard by a script, whose first `keys` arguments are keys, or by a command. They free
 * the arguments. A shard that cannot be asked counts as failed.
 */
void ask_script(struct ask *ask, struct shard *shard, enum store_script script, int keys,
                struct arguments *arguments);
void ask_script_words(struct ask *ask, struct shard *shard, enum store_script script, int keys,
                      size_t argc, const char **argv,
                      const size_t *lens); /* arguments stay with the caller */
void ask_command(struct ask *ask, struct shard *shard, struct arguments *arguments);
/*
 * Asks by `count` commands in the store's protocol. The last reply is handled, unless an earlier
 * one is an error. Frees the bytes (malloc).
 */
void ask_commands(struct ask *ask, struct shard *shard, enum time_of time, char *bytes, size_t len,
                  size_t count);

/*
 * Call it after the last request. RC_OK: `finish` will be called. RC_AGAIN: no shard could be
 * asked, and the ask is freed.
 */
MUST_CHECK enum rc ask_sent(struct ask *ask);

/* For `take`: the reply, or a copy if more replies are expected. Valid until `finish` returns. */
const struct redisReply *ask_keep(struct ask *ask, const struct redisReply *reply);

/* Whether the reply is no error. Logs an error, and reconnects if that may cure it. */
bool ask_accepts(struct shard *shard, const struct redisReply *reply, const char *what);

#endif
