/*
 * multi.h: commands that a server executes in one step.
 *
 * A script copies each of its arguments several times. So large data are written by a command in
 * the transaction of the script, before the script. It finds them there, and removes them again if
 * it does not use them (prepared.lua).
 */
#ifndef CLAIRON_STORE_MULTI_H
#define CLAIRON_STORE_MULTI_H

#include "store/shards/shard_request.h"

/* Bytes of the data that such a script receives: emitter, source and topic are in them. */
#define MULTI_DATA_START 16384

/* A buffer of encoded commands. */
struct multi {
    char *bytes;
    size_t len;
    size_t room;
    size_t count;
};

/* Begins with MULTI. `room`: expected number of bytes. */
void multi_begin(struct multi *multi, size_t room);

/* Begins a command with `count` words. Each word follows. */
void multi_words(struct multi *multi, size_t count);
void multi_word(struct multi *multi, const void *bytes, size_t len);
/* Adds encoded words. */
void multi_put(struct multi *multi, const void *bytes, size_t len);

/* Adds a command. */
void multi_command(struct multi *multi, const struct arguments *arguments);

/* A stream entry for prepared.lua. */
struct prepared_entry {
    struct bytes id;
    struct bytes route;
    struct bytes data;
    struct bytes after;       /* empty: no such field */
    struct bytes retry_users; /* NULL: no such field */
    struct bytes open_ended;  /* empty: no such field */
};

/*
 * Adds XADD to the stream. Without a stream, nothing is added. Without the group, the entry is
 * removed again.
 */
void multi_prepare_entry(struct multi *multi, const struct shard *shard,
                         const struct prepared_entry *entry);

/*
 * Writes data and route of a notification to KEY_ERROR_PARTS, for prepared.lua. They expire after
 * an hour unless the script keeps them.
 */
void multi_prepare_parts(struct multi *multi, const struct shard *shard, struct bytes id,
                         struct bytes route, struct bytes data);

/* Adds a script, whose first argument is a key. */
void multi_script(struct multi *multi, const struct shard *shard, enum store_script script,
                  int keys, size_t argc, const char *const *argv, const size_t *lens);

/* Adds EXEC. */
void multi_end(struct multi *multi);

/*
 * Ends and sends the transaction, and frees it. `reply` is called once: with the reply to its last
 * command, with the first error if that is none, or with NULL. RC_AGAIN: not sent.
 */
MUST_CHECK enum rc multi_send(struct multi *multi, struct shard *shard, enum store_script script,
                              link_reply *reply, void *ctx);

/* Sends the transaction like a script of the request. */
void shard_request_send_multi(struct shard_request *request, struct shard *shard,
                              enum store_script script, struct multi *multi);

/*
 * wanted.c: a large stream entry that a script needs. The script returns what it needs, the relay
 * reads the entry with a command, and calls the script again (read_entry.lua).
 */
MUST_CHECK enum rc wanted_read(struct shard *shard, const struct redisReply *wanted,
                               link_reply *reply, void *ctx);
/*
 * Calls the script again, with these first arguments and the entry in `rows`, the reply to
 * wanted_read. It has no row if the entry was deleted. `must_copy`: the script receives the data as
 * an argument, without a transaction.
 */
MUST_CHECK enum rc wanted_call(struct shard *shard, enum store_script script,
                               struct arguments *arguments, const struct redisReply *wanted,
                               const struct redisReply *rows, bool must_copy, link_reply *reply,
                               void *ctx);

/* Returns the start of large data. */
static inline struct bytes
multi_data_start(struct bytes data)
{
    return (struct bytes){data.at, data.len < MULTI_DATA_START ? data.len : MULTI_DATA_START};
}

#endif
