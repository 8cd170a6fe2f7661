/* reply.c: parses the store's replies and checks their form. */
#include "store/connection/reply.h"

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

bool
reply_is_error(const struct redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ERROR;
}

bool
reply_is_integer(const struct redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_INTEGER;
}

long long
reply_integer(const struct redisReply *reply)
{
    return reply_is_integer(reply) ? reply->integer : 0;
}

const char *
reply_text(const struct redisReply *reply)
{
    return reply != NULL ? reply->str : NULL;
}

size_t
reply_count(const struct redisReply *reply)
{
    return reply_is_array(reply, 0) ? reply->elements : 0;
}

const struct redisReply *
reply_at(const struct redisReply *reply, size_t at)
{
    return at < reply_count(reply) ? reply->element[at] : NULL;
}

struct bytes
reply_bytes(const struct redisReply *reply)
{
    if (reply == NULL || (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS))
        return (struct bytes){NULL, 0};
    return (struct bytes){(const unsigned char *)reply->str, (size_t)reply->len};
}

bool
reply_is_array(const struct redisReply *reply, size_t count)
{
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements >= count;
}

struct bytes
reply_field(const struct redisReply *fields, const char *name)
{
    size_t len = strlen(name);

    if (!reply_is_array(fields, 2))
        return (struct bytes){NULL, 0};
    for (size_t i = 0; i + 1 < fields->elements; i += 2) {
        struct bytes key = reply_bytes(fields->element[i]);
        if (key.len == len && memcmp(key.at, name, len) == 0)
            return reply_bytes(fields->element[i + 1]);
    }
    return (struct bytes){NULL, 0};
}

size_t
reply_size(const struct redisReply *reply)
{
    size_t size = reply_bytes(reply).len;

    for (size_t i = 0; i < reply_count(reply); i++)
        size += reply_size(reply->element[i]);
    return size;
}

static size_t
aligned(size_t size)
{
    return (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
}

static size_t
size_of(const struct redisReply *reply)
{
    size_t size = aligned(sizeof(*reply)) + aligned(reply->elements * sizeof(*reply->element)) +
                  (reply->str != NULL ? aligned((size_t)reply->len + 1) : 0);

    for (size_t i = 0; i < reply->elements; i++)
        size += size_of(reply->element[i]);
    return size;
}

static void *
copy_alloc(char **at, size_t size)
{
    void *allocated = *at;

    *at += aligned(size);
    return allocated;
}

static struct redisReply *
copy(const struct redisReply *reply, char **at)
{
    struct redisReply *kept = copy_alloc(at, sizeof(*kept));

    *kept = *reply;
    if (reply->str != NULL) {
        kept->str = copy_alloc(at, (size_t)reply->len + 1);
        memcpy(kept->str, reply->str, (size_t)reply->len + 1);
    }
    kept->element = copy_alloc(at, reply->elements * sizeof(*reply->element));
    for (size_t i = 0; i < reply->elements; i++)
        kept->element[i] = copy(reply->element[i], at);
    return kept;
}

struct redisReply *
reply_keep(const struct redisReply *reply)
{
    char *at = memory_grow(NULL, size_of(reply));

    return copy(reply, &at);
}

struct redisReply *
reply_keep_from(const struct redisReply *reply, size_t from)
{
    struct redisReply rest = *reply;

    rest.element += from;
    rest.elements -= from;
    return reply_keep(&rest);
}

/*
 * Fields that the scripts add: the users of a retry, and the expiration of an open-ended audience.
 */
static void
read_delivery(const struct redisReply *fields, struct entry *entry)
{
    struct bytes open = reply_field(fields, "open_ended");
    char text[24];

    entry->retry_users = reply_field(fields, "retry_users");
    entry->is_retry = entry->retry_users.at != NULL;
    entry->is_open_ended = open.at != NULL;
    entry->expires_us = entry->frame.as.notification.expires_us;
    if (!entry->is_open_ended || open.len >= sizeof(text))
        return;
    snprintf(text, sizeof(text), "%.*s", (int)open.len, (const char *)open.at);
    entry->expires_us = strtoll(text, NULL, 10) * 1000;
}

enum rc
reply_id(const struct redisReply *reply, struct entry_id *ret_id)
{
    const struct bytes id = reply_bytes(reply);

    return id.at != NULL ? entry_id_read((const char *)id.at, id.len, ret_id) : RC_BAD;
}

enum rc
reply_entry_id(const struct redisReply *element, struct entry_id *ret_id)
{
    return reply_is_array(element, 1) ? reply_id(element->element[0], ret_id) : RC_BAD;
}

enum rc
reply_entry(const struct redisReply *reply, struct entry *ret_entry)
{
    struct entry entry;
    struct bytes route;

    if (!reply_is_array(reply, 2) || reply_entry_id(reply, &entry.id) != RC_OK)
        return RC_BAD;
    entry.uuid = reply_field(reply->element[1], "id");
    entry.data = reply_field(reply->element[1], "data");
    route = reply_field(reply->element[1], "route");
    if (entry.data.len == 0 || !frame_is_uuid((const char *)entry.uuid.at, entry.uuid.len) ||
        route.at == NULL || frame_parse_header(route, &entry.frame) != RC_OK)
        return RC_BAD;
    entry.is_late = (entry.frame.flags & FRAME_LATE) != 0;
    read_delivery(reply->element[1], &entry);
    entry.shard = 0; /* set by the caller */
    *ret_entry = entry;
    return RC_OK;
}
