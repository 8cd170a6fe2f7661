/* fuzz_reply.c: checks that any bytes of a store have defined behaviour as entries and slots. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "store/connection/reply.h"
#include "store/entry.h"
#include "store/servers/topology.h"
#include "tests/fuzz/fuzz.h"

static void
read_entry(const struct redisReply *reply)
{
    struct entry entry;

    if (entry_read(reply, &entry) != RC_OK)
        return;
    expect(entry.data.len > 0 && entry.uuid.at != NULL);
}

/* As a page of entries, as CLUSTER SLOTS, and as an error. */
static void
read_reply(const struct redisReply *reply)
{
    struct redisReply *kept;
    struct slots_node node;

    read_entry(reply);
    for (size_t i = 0; i < reply_count(reply); i++)
        read_entry(reply_at(reply, i));
    if (slots_primary(reply, 1, "queried", &node) == RC_OK)
        expect(memchr(node.host, '\0', sizeof(node.host)) != NULL);
    if (reply_is_error(reply))
        (void)fault_hint(reply_text(reply));
    kept = reply_keep(reply);
    expect(kept == NULL || reply_size(kept) == reply_size(reply));
    free(kept);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reply_arena *arena = reply_arena_new();
    redisReader *reader = redisReaderCreate();
    const unsigned expected = 1;
    void *reply = NULL;
    size_t half = size / 2;

    reply_arena_use(arena, reader, &expected);
    if (redisReaderFeed(reader, (const char *)data, half) == REDIS_OK &&
        redisReaderGetReply(reader, &reply) == REDIS_OK && reply == NULL &&
        redisReaderFeed(reader, (const char *)data + half, size - half) == REDIS_OK)
        (void)redisReaderGetReply(reader, &reply);
    if (reply != NULL) {
        read_reply(reply);
        reader->fn->freeObject(reply);
    }
    redisReaderFree(reader);
    reply_arena_free(arena);
    return 0;
}
