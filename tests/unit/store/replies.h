/* replies.h: builds replies of a store for tests. */
#ifndef CLAIRON_TESTS_UNIT_REPLIES_H
#define CLAIRON_TESTS_UNIT_REPLIES_H

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

static inline redisReply *
array(size_t count)
{
    redisReply *reply = calloc(1, sizeof(*reply));

    reply->type = REDIS_REPLY_ARRAY;
    reply->elements = count;
    reply->element = calloc(count + 1, sizeof(*reply->element));
    return reply;
}

static inline redisReply *
text(const void *bytes, size_t len)
{
    redisReply *reply = calloc(1, sizeof(*reply));

    reply->type = REDIS_REPLY_STRING;
    reply->str = calloc(1, len + 1);
    memcpy(reply->str, bytes, len);
    reply->len = len;
    return reply;
}

static inline void
drop(redisReply *reply)
{
    for (size_t i = 0; i < reply->elements; i++)
        drop(reply->element[i]);
    free(reply->element);
    free(reply->str);
    free(reply);
}

#endif
