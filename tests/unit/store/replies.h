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

static inline redisReply *
number(long long value)
{
    redisReply *reply = calloc(1, sizeof(*reply));

    reply->type = REDIS_REPLY_INTEGER;
    reply->integer = value;
    return reply;
}

/* A node in a reply to CLUSTER SLOTS. `host` NULL: nil. `ip` NULL: no metadata. */
static inline redisReply *
node(const char *host, int port, const char *ip)
{
    redisReply *reply = array(4);

    reply->element[0] = host != NULL ? text(host, strlen(host)) : array(0);
    if (host == NULL)
        reply->element[0]->type = REDIS_REPLY_NIL;
    reply->element[1] = number(port);
    reply->element[2] = text("id", 2);
    reply->element[3] = array(ip != NULL ? 2 : 0);
    if (ip != NULL) {
        reply->element[3]->element[0] = text("ip", 2);
        reply->element[3]->element[1] = text(ip, strlen(ip));
    }
    return reply;
}

static inline redisReply *
range(long long first, long long last, redisReply *primary, redisReply *replica)
{
    redisReply *reply = array(replica != NULL ? 4 : 3);

    reply->element[0] = number(first);
    reply->element[1] = number(last);
    reply->element[2] = primary;
    if (replica != NULL)
        reply->element[3] = replica;
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
