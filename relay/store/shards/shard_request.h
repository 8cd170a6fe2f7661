/* shard_request.h: sends a request to one or more shards, and finishes when all have replied. */
#ifndef CLAIRON_STORE_SHARD_REQUEST_H
#define CLAIRON_STORE_SHARD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "base/stats.h"
#include "store/scripts/scripts.h"
#include "store/servers/link.h"
#include "store/shards/arguments.h"

struct shard_request;
struct redisReply;
struct shard;
struct store;

/* The callbacks of one kind of request. */
struct shard_request_kind {
    const char *failure; /* log message of a rejected request: "could not ..." */
    /*
     * Handles a reply that is not an error, and may send to further shards. False if the reply is
     * invalid.
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
 * Like link_send, link_call and link_send_ready. RC_AGAIN also if the shard is not up: the link is
 * up earlier, while its node may have only some of the shard's keys.
 */
MUST_CHECK enum rc shard_send(struct shard *shard, link_reply *reply, void *ctx, int argc,
                              const char **argv, const size_t *lens);
MUST_CHECK enum rc shard_call(struct shard *shard, enum store_script script, int key_count,
                              link_reply *reply, void *ctx, int argc, const char **argv,
                              const size_t *lens);
MUST_CHECK enum rc shard_send_ready(struct shard *shard, enum time_of what, link_reply *reply,
                                    void *ctx, char *bytes, size_t len, size_t count);

/* True if the reply is not an error. Logs an error, and reconnects if that may fix the cause. */
bool shard_check_reply(struct shard *shard, const struct redisReply *reply, const char *failure);

#endif
