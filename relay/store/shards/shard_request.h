/* shard_request.h: requests to one or more shards, and their arguments. */
#ifndef CLAIRON_STORE_SHARD_REQUEST_H
#define CLAIRON_STORE_SHARD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "store/connection/reply.h"
#include "store/scripts/scripts.h"
#include "store/servers/link.h"
#include "store/shards/shard.h"

struct shard_request;

#define ARGUMENTS_FEW 12 /* number of arguments without an allocation */
#define ARGUMENTS_NUMBERS 6

/*
 * Initialize with {.argc = 0}. Arguments are not copied and must live until the command is sent,
 * except numbers and entries, so the struct must not move.
 */
struct arguments {
    const char **argv;
    size_t *lens;
    size_t argc;
    size_t room;
    const char *few[ARGUMENTS_FEW];
    size_t few_lens[ARGUMENTS_FEW];
    size_t number_count;
    char numbers[ARGUMENTS_NUMBERS][ENTRY_ID_TEXT_MAX];
};

/* Adds a zero-terminated string. */
void argument(struct arguments *arguments, const char *text);
/* Adds bytes, which may include zero bytes. */
void argument_bytes(struct arguments *arguments, const void *bytes, size_t len);
/* These arguments are copied; there are at most ARGUMENTS_NUMBERS of them. */
void argument_number(struct arguments *arguments, int64_t number);
void argument_entry(struct arguments *arguments, struct entry_id entry);

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
    /* Without on_reply: false if the reply, which is in the request, is invalid. Optional. */
    bool (*is_valid)(const struct redisReply *reply);
    /* Handles an error reply, which is already logged. Optional. */
    void (*on_error)(struct shard_request *request, const struct redisReply *reply);
    /*
     * All shards have replied: RC_OK, or RC_IO if one failed. The request is freed afterwards.
     * Optional: `acked` and `read` of the request are called without it.
     */
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
    const struct redisReply *reply; /* the last one of a kind without on_reply; NULL: none */
    store_acked *acked;
    store_bytes_read *read; /* receives the bytes of the reply */
    void *ctx;
};

/* Adds the first arguments of most scripts: the shard's stream and its key prefix. */
void shard_arguments(const struct shard *shard, struct arguments *arguments);

/* The memory of the arguments of cutoff.lua. */
struct cutoff_texts {
    char digest[CUTOFF_DIGEST_TEXT + 1], issued[24], ends[24];
};

/* Adds the KEYS and ARGV of cutoff.lua (write/stored_cutoffs.c). */
void cutoff_arguments(const struct shard *shard, const struct cutoff *cutoff,
                      struct arguments *arguments, struct cutoff_texts *texts);

#define CUTOFF_KEY_MAX (STORE_KEY_MAX + 256) /* with a user */

/* Adds a command for the user's shard, which removes the user's Web Push subscriptions. */
void cutoff_unsubscribe(const struct shard *shard, const char *user, struct arguments *arguments,
                        char key[CUTOFF_KEY_MAX]);

/* Allocates `size` zeroed bytes, which start with the request. */
void *shard_request_new(size_t size, struct store *store, const struct shard_request_kind *kind);

/* Stores a string that expires: a whole request, without a result. */
MUST_CHECK enum rc shard_request_set(const struct shard_request_kind *kind, struct shard *shard,
                                     const char *key, struct bytes value, int64_t lifetime_ms,
                                     store_acked *done, void *ctx);

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
 * Call it after the last send. RC_OK: something was sent, and `finish` will be called. RC_AGAIN:
 * nothing could be sent, and the request is freed.
 */
MUST_CHECK enum rc shard_request_sent(struct shard_request *request);

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

/*
 * The shard has another epoch: reconnects all shards of its server, which were probably emptied or
 * rewound together. If each was found later, each would be a further gap for all clients.
 */
void shard_renew_epochs(struct shard *shard);

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

#endif
