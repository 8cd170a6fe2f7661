/* multi.c: encodes and sends commands that a server executes in one step. */
#include "store/shards/multi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/resp.h"
#include "store/connection/reply.h"

#define COUNT_TEXT 24
#define ROOM_MORE 4096     /* for the words of a transaction other than its data */
#define PARTS_MS "3600000" /* an append-only file may end before the script that keeps them */

void
multi_put(struct multi *multi, const void *bytes, size_t len)
{
    if (multi->room - multi->len < len) {
        multi->room = 2 * (multi->room + len);
        multi->bytes = memory_grow(multi->bytes, multi->room);
    }
    memcpy(multi->bytes + multi->len, bytes, len);
    multi->len += len;
}

static void
put_number(struct multi *multi, char kind, size_t number)
{
    char text[RESP_NUMBER_MAX];
    const size_t len = (size_t)(resp_number(text, kind, number) - text);

    multi_put(multi, text, len);
}

void
multi_words(struct multi *multi, size_t count)
{
    put_number(multi, '*', count);
    multi->count++;
}

void
multi_word(struct multi *multi, const void *bytes, size_t len)
{
    put_number(multi, '$', len);
    multi_put(multi, bytes, len);
    multi_put(multi, "\r\n", 2);
}

static void
put_text(struct multi *multi, const char *text)
{
    multi_word(multi, text, strlen(text));
}

static void
put_texts(struct multi *multi, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_text(multi, texts[i]);
}

void
multi_begin(struct multi *multi, size_t room)
{
    *multi = (struct multi){.room = room + ROOM_MORE};
    multi->bytes = memory_grow(NULL, multi->room);
    multi_words(multi, 1);
    put_text(multi, "MULTI");
}

void
multi_command(struct multi *multi, const struct arguments *arguments)
{
    multi_words(multi, arguments->argc);
    for (size_t i = 0; i < arguments->argc; i++)
        multi_word(multi, arguments->argv[i], arguments->lens[i]);
}

static void
add_field(struct arguments *arguments, const char *name, struct bytes value)
{
    argument(arguments, name);
    argument_bytes(arguments, value.at, value.len);
}

void
multi_prepare_entry(struct multi *multi, const struct shard *shard,
                    const struct prepared_entry *entry)
{
    const char *const move[] = {"XGROUP", "SETID", shard->stream_key, "clairon", "$"};
    struct arguments add = {.argc = 0};

    multi_words(multi, 5);
    put_texts(multi, move, 5);
    argument(&add, "XADD");
    argument(&add, shard->stream_key);
    argument(&add, "NOMKSTREAM");
    argument(&add, "*");
    add_field(&add, "id", entry->id);
    add_field(&add, "route", entry->route);
    add_field(&add, "data", entry->data);
    if (entry->after.len > 0)
        add_field(&add, "after", entry->after);
    if (entry->retry_users.at != NULL)
        add_field(&add, "retry_users", entry->retry_users);
    if (entry->open_ended.len > 0)
        add_field(&add, "open_ended", entry->open_ended);
    multi_command(multi, &add);
    arguments_free(&add);
}

void
multi_prepare_parts(struct multi *multi, const struct shard *shard, struct bytes id,
                    struct bytes route, struct bytes data)
{
    char key[STORE_KEY_MAX], id_text[FRAME_UUID_TEXT + 1];
    const char *const expire[] = {"PEXPIRE", key, PARTS_MS};

    snprintf(id_text, sizeof(id_text), "%.*s", (int)id.len, (const char *)id.at);
    key_write_of(key, sizeof(key), shard->prefix, KEY_ERROR_PARTS, id_text);
    multi_words(multi, 6);
    put_text(multi, "HMSET");
    put_text(multi, key);
    put_text(multi, "route");
    multi_word(multi, route.at, route.len);
    put_text(multi, "data");
    multi_word(multi, data.at, data.len);
    multi_words(multi, 3);
    put_texts(multi, expire, 3);
}

/* EVALSHA would fail after SCRIPT FLUSH, and EXEC would execute the other commands. */
void
multi_script(struct multi *multi, const struct shard *shard, enum store_script script, int keys,
             size_t argc, const char *const *argv, const size_t *lens)
{
    char key_count[COUNT_TEXT];

    snprintf(key_count, sizeof(key_count), "%d", keys + 1);
    multi_words(multi, argc + 4);
    put_text(multi, "EVAL");
    put_text(multi, link_script_text(script));
    put_text(multi, key_count);
    for (size_t i = 0; i < argc; i++) {
        if (i == (size_t)keys)
            put_text(multi, link_none_key(shard->link));
        multi_word(multi, argv[i], lens[i]);
    }
}

void
multi_end(struct multi *multi)
{
    multi_words(multi, 1);
    put_text(multi, "EXEC");
}

/* A transaction in flight. */
struct multi_call {
    link_reply *reply;
    void *ctx;
    size_t left; /* outstanding replies */
    bool is_done;
};

/* Returns the reply to the last command, the script; if that is no error, the first error. */
static const struct redisReply *
result_of(const struct redisReply *replies)
{
    const size_t count = reply_count(replies);
    const struct redisReply *last = count > 0 ? reply_at(replies, count - 1) : replies;

    for (size_t i = 0; i < count && !reply_is_error(last); i++)
        if (reply_is_error(reply_at(replies, i)))
            return reply_at(replies, i);
    return last;
}

/* The server rejects the transaction if it rejects a command of it, with the more precise error. */
static void
on_reply(void *ctx, const struct redisReply *reply)
{
    struct multi_call *call = ctx;
    const struct multi_call copy = *call;
    const bool is_last = --call->left == 0;
    const bool is_result = is_last || reply == NULL || reply_is_error(reply);

    call->is_done |= is_result;
    if (is_last)
        free(call);
    if (is_result && !copy.is_done)
        copy.reply(copy.ctx, is_last ? result_of(reply) : reply);
}

enum rc
multi_send(struct multi *multi, struct shard *shard, enum store_script script, link_reply *reply,
           void *ctx)
{
    struct multi_call *call;
    enum rc rc;

    multi_end(multi);
    if (!shard->is_up) {
        free(multi->bytes);
        return RC_AGAIN;
    }
    call = memory_new(sizeof(*call));
    *call = (struct multi_call){.reply = reply, .ctx = ctx, .left = multi->count};
    rc = link_send_ready(shard->link, link_script_time(script), on_reply, call, multi->bytes,
                         multi->len, multi->count);
    if (rc != RC_OK)
        free(call);
    return rc;
}
