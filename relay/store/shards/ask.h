/* ask.h: one question to one or several shards, which is answered when all of them have replied. */
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

/* What becomes of the replies to questions of one kind. */
struct ask_kind {
    const char *what; /* in the log: "could not <what>" */
    /* A reply that is no error. False: it is none to this question. More shards may be asked. */
    bool (*take)(struct ask *ask, struct shard *shard, const struct redisReply *reply);
    /* A reply that is an error, which was logged. NULL: it only fails. */
    void (*on_error)(struct ask *ask, const struct redisReply *reply);
    /* All have replied: RC_OK, or RC_IO when one of them failed. The ask is freed behind it. */
    void (*finish)(struct ask *ask, enum rc rc);
    /* Frees what the asker's struct owns; NULL: nothing. */
    void (*release)(struct ask *ask);
};

/* The first member of the asker's own struct. */
struct ask {
    const struct ask_kind *kind;
    struct store *store;
    unsigned left; /* replies to come */
    bool has_failed;
    bool is_cut_off; /* a connection broke before it brought the reply */
    struct ask_copy *copies;
};

/* `size` zeroed bytes that begin with an ask. */
void *ask_new(size_t size, struct store *store, const struct ask_kind *kind);

/*
 * Ask one shard more: by a script whose first `keys` arguments are keys, or by a command. They free
 * the arguments. A shard that cannot be asked has failed.
 */
void ask_script(struct ask *ask, struct shard *shard, enum store_script script, int keys,
                struct arguments *arguments);
void ask_script_words(struct ask *ask, struct shard *shard, enum store_script script, int keys,
                      size_t argc, const char **argv, const size_t *lens); /* the caller's */
void ask_command(struct ask *ask, struct shard *shard, struct arguments *arguments);
/*
 * By `count` commands in the store's protocol, of which the last reply is taken unless an earlier
 * one is an error; takes the bytes (malloc).
 */
void ask_commands(struct ask *ask, struct shard *shard, enum time_of time, char *bytes, size_t len,
                  size_t count);

/*
 * Behind the last question: RC_OK: `finish` will be called. RC_AGAIN: no shard could be asked, and
 * the ask is freed.
 */
MUST_CHECK enum rc ask_sent(struct ask *ask);

/* In `take`: the reply, or a copy if more are to come, which lives until `finish` has returned. */
const struct redisReply *ask_keep(struct ask *ask, const struct redisReply *reply);

/* Whether the reply is no error; an error is logged, and mended where greeting again does. */
bool ask_accepts(struct shard *shard, const struct redisReply *reply, const char *what);

#endif
