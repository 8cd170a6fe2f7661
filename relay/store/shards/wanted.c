/* wanted.c: reads a large stream entry for a script, and writes its data before the script. */
#include "store/shards/multi.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/reply.h"
#include "wire/frame.h"

#define NUMBER_TEXT 24

/* What a script returns: entry, kind, attempts, packed users. */
enum { WANTED_ENTRY, WANTED_KIND, WANTED_ATTEMPTS, WANTED_USERS };

/* What the transaction writes. */
struct content {
    const char *kind;
    struct bytes id;
    struct bytes route;
    struct bytes data;
    unsigned char *route_copy; /* with another number of attempts; NULL: not copied */
    unsigned char *data_copy;
    char bytes[NUMBER_TEXT];
};

enum rc
wanted_read(struct shard *shard, const struct redisReply *wanted, link_reply *reply, void *ctx)
{
    const char *entry = reply_text(reply_at(wanted, WANTED_ENTRY));
    const char *argv[] = {"XRANGE", shard->stream_key, entry, entry};

    if (entry == NULL)
        return RC_BAD;
    return shard_send(shard, reply, ctx, 4, argv, NULL);
}

/* Copies the data with this number of attempts, unless the document has another format. */
static void
set_data_attempts(struct content *content, unsigned attempts)
{
    const struct bytes data = content->data, digits = notification_attempts(data);
    const size_t head = (size_t)(digits.at - data.at), tail = head + digits.len;
    char text[NUMBER_TEXT];
    const size_t len = (size_t)snprintf(text, sizeof(text), "%u", attempts);

    if (digits.len == 0)
        return;
    content->data_copy = memory_new(data.len - digits.len + len);
    memcpy(content->data_copy, data.at, head);
    memcpy(content->data_copy + head, text, len);
    memcpy(content->data_copy + head + len, data.at + tail, data.len - tail);
    content->data = (struct bytes){content->data_copy, data.len - digits.len + len};
}

static void
set_attempts(struct content *content, unsigned attempts)
{
    content->route_copy = memory_new(content->route.len);
    memcpy(content->route_copy, content->route.at, content->route.len);
    content->route_copy[FRAME_NOTIFICATION_AT_ATTEMPTS] = (unsigned char)(attempts >> 8);
    content->route_copy[FRAME_NOTIFICATION_AT_ATTEMPTS + 1] = (unsigned char)attempts;
    content->route.at = content->route_copy;
    set_data_attempts(content, attempts);
}

/* A retry beyond the limit is an entry of the error log. */
static struct content
content_of(const struct redisReply *wanted, const struct redisReply *fields)
{
    const struct bytes attempts = reply_bytes(reply_at(wanted, WANTED_ATTEMPTS));
    struct content content = {.kind = reply_text(reply_at(wanted, WANTED_KIND)),
                              .id = reply_field(fields, "id"),
                              .route = reply_field(fields, "route"),
                              .data = reply_field(fields, "data")};
    struct frame frame;

    if (attempts.len > 0 && content.route.at != NULL &&
        frame_parse_header(content.route, &frame) == RC_OK) {
        const unsigned long number = strtoul((const char *)attempts.at, NULL, 10);

        if (number > frame.as.notification.retry_limit)
            content.kind = "parts";
        else
            set_attempts(&content, (unsigned)number);
    }
    snprintf(content.bytes, sizeof(content.bytes), "%zu", content.route.len + content.data.len);
    return content;
}

static void
prepare(struct multi *multi, const struct shard *shard, const struct content *content,
        struct bytes users, struct bytes open_ended)
{
    const struct prepared_entry entry = {.id = content->id,
                                         .route = content->route,
                                         .data = content->data,
                                         .retry_users = users,
                                         .open_ended = open_ended};

    multi_begin(multi, content->route.len * 2 + content->data.len + users.len * 2 +
                           strlen(store_script_due) + strlen(store_script_trim));
    if (strcmp(content->kind, "parts") == 0)
        multi_prepare_parts(multi, shard, content->id, content->route, content->data);
    else
        multi_prepare_entry(multi, shard, &entry);
}

enum rc
wanted_call(struct shard *shard, enum store_script script, struct arguments *arguments,
            const struct redisReply *wanted, const struct redisReply *rows, bool must_copy,
            link_reply *reply, void *ctx)
{
    const struct redisReply *fields = reply_at(reply_at(rows, 0), 1);
    const struct bytes attempts = reply_bytes(reply_at(wanted, WANTED_ATTEMPTS)),
                       users = reply_bytes(reply_at(wanted, WANTED_USERS));
    struct content content = content_of(wanted, fields);
    const bool exists =
        content.id.at != NULL && content.route.at != NULL && content.data.at != NULL;
    struct multi multi;
    enum rc rc;

    argument(arguments, reply_text(reply_at(wanted, WANTED_ENTRY)));
    if (exists) {
        argument(arguments, must_copy ? "copy" : content.kind);
        argument(arguments, content.bytes);
        argument_bytes(arguments, attempts.at, attempts.len);
        argument_bytes(arguments, users.at, users.len);
        for (size_t i = 0; i + 1 < reply_count(fields); i += 2) {
            const struct bytes name = reply_bytes(reply_at(fields, i)),
                               value = reply_bytes(reply_at(fields, i + 1));

            if (!must_copy && bytes_equal_text(name, "data"))
                continue;
            argument_bytes(arguments, name.at, name.len);
            argument_bytes(arguments, value.at, value.len);
        }
    }
    if (exists && !must_copy && strcmp(content.kind, "route") != 0) {
        prepare(&multi, shard, &content, users, reply_field(fields, "open_ended"));
        multi_script(&multi, shard, script, 1, arguments->argc, arguments->argv, arguments->lens);
        rc = multi_send(&multi, shard, script, reply, ctx);
    } else {
        rc = shard_call(shard, script, 1, reply, ctx, (int)arguments->argc, arguments->argv,
                        arguments->lens);
    }
    free(content.route_copy);
    free(content.data_copy);
    return rc;
}
