/* reply.h: takes the store's answers apart. */
#ifndef CLAIRON_STORE_REPLY_H
#define CLAIRON_STORE_REPLY_H

#include <hiredis/hiredis.h>

#include "store/entry.h"

/* An empty view when the reply is no text. */
struct bytes reply_bytes(const redisReply *reply);

/* True for an array of at least `count` elements. */
bool reply_is_array(const redisReply *reply, size_t count);

/* The value of a field in an entry's field list; an empty view when it is not there. */
struct bytes reply_field(const redisReply *fields, const char *name);

/* A copy that outlives the answer, in one block: the caller frees it. */
redisReply *reply_keep(const redisReply *reply);

/* Reads one [id, [field, value ..]] element. RC_BAD when it is no notification of ours. */
MUST_CHECK enum rc reply_entry(const redisReply *reply, struct entry *ret_entry);

#endif
