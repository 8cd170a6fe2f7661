/*
 * reply.h: the store's replies: their memory and their form, and the meaning of errors. Other files
 * do not depend on the format.
 */
#ifndef CLAIRON_STORE_REPLY_H
#define CLAIRON_STORE_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "store/entry.h"

struct redisReader;
struct redisReply;
struct reply_arena;
struct throttles;

bool reply_is_error(const struct redisReply *reply);   /* NULL: false */
bool reply_is_integer(const struct redisReply *reply); /* NULL: false */
/* 0 if the reply is not an integer. */
long long reply_integer(const struct redisReply *reply);
/* Returns a NUL-terminated string or error message; NULL if the reply is neither. */
const char *reply_text(const struct redisReply *reply);

/* Empty if the reply is not a string. */
struct bytes reply_bytes(const struct redisReply *reply);

/* True for an array of at least `count` elements. */
bool reply_is_array(const struct redisReply *reply, size_t count);

/* Return the number of elements, and the element at `at` or NULL. */
size_t reply_count(const struct redisReply *reply);
const struct redisReply *reply_at(const struct redisReply *reply, size_t at);

/* Returns the value of a field in a stream entry's field list; empty if it is missing. */
struct bytes reply_field(const struct redisReply *fields, const char *name);

/* Returns the total length of the reply's strings. */
size_t reply_size(const struct redisReply *reply);

/* Copies the reply into one block that outlives it; the caller frees it. */
struct redisReply *reply_keep(const struct redisReply *reply);
/* Like reply_keep, for an array without its first `from` elements. */
struct redisReply *reply_keep_from(const struct redisReply *reply, size_t from);

/* Parses the id of a stream entry. RC_BAD: not an id. */
MUST_CHECK enum rc reply_id(const struct redisReply *reply, struct entry_id *ret_id);
/* Parses the id of an [id, ...] element. RC_BAD: no id. */
MUST_CHECK enum rc reply_entry_id(const struct redisReply *element, struct entry_id *ret_id);

/* Reads an [id, [field, value ..]] element: a notification. RC_BAD: a foreign entry. */
MUST_CHECK enum rc entry_read(const struct redisReply *element, struct entry *ret_entry);

/* Memory for the replies of a connection: one block for each reply. */
struct reply_arena *reply_arena_new(void);

/*
 * Allocates the replies of this reader in the arena, which serves one reader at a time. `expected`
 * is the number of outstanding replies, and must outlive the reader. An unexpected reply other than
 * an error closes the connection.
 */
void reply_arena_use(struct reply_arena *arena, struct redisReader *reader,
                     const unsigned *expected);

/* If a reply is in use or incomplete, the memory is freed with the reply. Accepts NULL. */
void reply_arena_free(struct reply_arena *arena);

/* ---- error replies */

struct fault {
    const char *word; /* substring of the reply */
    const char *hint;
    /* reconnect, because the next attempt may reach another server or the repaired server */
    bool is_of_server;
};

/* Returns NULL for an unknown error. `error` may be wrapped in a script error. */
const struct fault *fault_find(const char *error);

/*
 * The server lacks the shard or a part of it, or is not a primary: a slot migration or failover is
 * in progress. The request had no effect.
 */
bool fault_is_redirection(const char *error);

/*
 * The server runs a script that takes long, and rejects all requests until its end. `error` is a
 * reply, or that of a transaction.
 */
bool fault_is_busy(const char *error);

/* Whether the store rejects writes because it has no memory left. */
bool fault_is_full(const char *error);

/* Returns a constant hint on how to fix `error`; NULL if unknown. */
const char *fault_hint(const char *error);

/*
 * Logs `failure` ("could not store a batch") with the error and its hint, unless the same failure
 * with the same fault was logged in the last seconds. Returns fault_find(error).
 */
const struct fault *fault_report(struct throttles *log, const char *failure, const char *error);

#endif
