/* memory.c: allocates or aborts. A restart is safe: the state is in the slot and the store. */
#include "base/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

#define CACHE_LINE 64 /* bytes */

static void *
memory_checked(void *memory, size_t size)
{
    if (memory == NULL) {
        log_error("memory", "out of memory", LOG_UINT("size_bytes", size));
        abort();
    }
    return memory;
}

void *
memory_new(size_t size)
{
    return memory_checked(calloc(1, size > 0 ? size : 1), size);
}

void *
memory_grow(void *old, size_t size)
{
    return memory_checked(realloc(old, size > 0 ? size : 1), size);
}

char *
memory_text(const char *text, size_t len)
{
    char *copy = memory_checked(malloc(len + 1), len + 1);

    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

/* Pools. */

#define ITEMS_PER_BLOCK 64

struct pool_item {
    struct pool_item *next;
};

/* Zeroed and aligned to a cache line. */
static void *
new_cache_line(size_t size)
{
    void *new = NULL;

    if (posix_memalign(&new, CACHE_LINE, size) != 0)
        new = NULL;
    return memset(memory_checked(new, size), 0, size);
}

/* With a sanitizer each item is a separate allocation, so that use after free is detected. */
#if defined(__SANITIZE_ADDRESS__)
void *
pool_alloc(struct pool *pool)
{
    return new_cache_line(pool->size);
}

void
pool_release(struct pool *pool, void *item)
{
    (void)pool;
    free(item);
}
#else

/* The memory is never freed: pools live as long as the process. */
static void
grow(struct pool *pool, size_t size)
{
    char *items = new_cache_line(ITEMS_PER_BLOCK * size);

    for (size_t i = ITEMS_PER_BLOCK; i-- > 0;)
        /* in reverse, so that pool_alloc returns the items in order of address */
        pool_release(pool, items + i * size);
}

void *
pool_alloc(struct pool *pool)
{
    size_t alignment = pool->is_line_aligned ? CACHE_LINE : _Alignof(max_align_t);
    size_t size = (pool->size + alignment - 1) & ~(alignment - 1);
    struct pool_item *item;

    if (pool->free_list == NULL)
        grow(pool, size);
    item = pool->free_list;
    pool->free_list = item->next;
    return memset(item, 0, pool->size);
}

void
pool_release(struct pool *pool, void *item)
{
    struct pool_item *freed = item;

    if (freed == NULL)
        return;
    freed->next = pool->free_list;
    pool->free_list = freed;
}
#endif

/* ---- a byte string grows by doubling, up to its limit */

#define BUFFER_FIRST_ROOM 64

void
buffer_init(struct buffer *buffer, size_t limit)
{
    *buffer = (struct buffer){.limit = limit};
}

void
buffer_free(struct buffer *buffer)
{
    free(buffer->bytes);
    buffer_init(buffer, buffer->limit);
}

static void
buffer_cut(struct buffer *buffer, size_t len)
{
    buffer->len = len;
    if (buffer->bytes != NULL)
        buffer->bytes[len] = '\0';
}

void
buffer_clear(struct buffer *buffer)
{
    buffer_cut(buffer, 0);
}

/* Makes room for `len` more bytes and a terminating zero. */
static enum rc
buffer_reserve(struct buffer *buffer, size_t len)
{
    if (len > buffer->limit - buffer->len)
        return RC_LIMIT;

    size_t need = buffer->len + len;
    size_t room = buffer->room > 0 ? buffer->room : BUFFER_FIRST_ROOM;

    if (buffer->bytes != NULL && need < buffer->room)
        return RC_OK;
    while (room <= need)
        room = room > SIZE_MAX / 2 ? SIZE_MAX : room * 2;
    if (room > buffer->limit && buffer->limit < SIZE_MAX)
        room = buffer->limit + 1;
    buffer->bytes = memory_grow(buffer->bytes, room);
    buffer->room = room;
    return RC_OK;
}

enum rc
buffer_add(struct buffer *buffer, const void *bytes, size_t len)
{
    enum rc rc = buffer_reserve(buffer, len);

    if (rc != RC_OK)
        return rc;
    if (len > 0)
        memcpy(buffer->bytes + buffer->len, bytes, len);
    buffer_cut(buffer, buffer->len + len);
    return RC_OK;
}

/* Formats to the free room first: it usually suffices. */
enum rc
buffer_addf(struct buffer *buffer, const char *format, ...)
{
    size_t room = buffer->room - buffer->len;
    va_list args;
    int len;
    enum rc rc;

    va_start(args, format);
    len = vsnprintf(room > 0 ? buffer->bytes + buffer->len : NULL, room, format, args);
    va_end(args);
    rc = len < 0 ? RC_BAD : buffer_reserve(buffer, (size_t)len);
    if (rc != RC_OK) {
        buffer_cut(buffer, buffer->len);
        return rc;
    }
    if ((size_t)len >= room) {
        va_start(args, format);
        (void)vsnprintf(buffer->bytes + buffer->len, (size_t)len + 1, format, args);
        va_end(args);
    }
    buffer->len += (size_t)len;
    return RC_OK;
}

static const char json_short[] = "\b\f\n\r\t\"\\";
static const char json_letter[] = "bfnrt\"\\";

/* Adds the character of `len` bytes at `text`; U+FFFD if len is 0, for invalid UTF-8. */
static enum rc
buffer_add_json_char(struct buffer *buffer, const char *text, size_t len)
{
    if (len == 0)
        return buffer_add(buffer, UTF8_REPLACEMENT, strlen(UTF8_REPLACEMENT));

    const char *found = memchr(json_short, *text, sizeof json_short - 1);

    if (found != NULL)
        return buffer_addf(buffer, "\\%c", json_letter[found - json_short]);
    if ((unsigned char)*text < 0x20)
        return buffer_addf(buffer, "\\u%04x", (unsigned)*text);
    return buffer_add(buffer, text, len);
}

/* Whether the character needs no escape in a JSON string. */
static bool
is_plain(char byte)
{
    return (unsigned char)byte >= 0x20 && (unsigned char)byte < 0x80 && byte != '"' && byte != '\\';
}

enum rc
buffer_add_json(struct buffer *buffer, const char *text, size_t len)
{
    size_t start = buffer->len;
    enum rc rc = buffer_add(buffer, "\"", 1);

    for (size_t at = 0; rc == RC_OK && at < len;) {
        size_t plain = 0, step;

        while (at + plain < len && is_plain(text[at + plain]))
            plain++;
        if (plain > 0) {
            rc = buffer_add(buffer, text + at, plain);
            at += plain;
            continue;
        }
        step = utf8_char_len(text + at, len - at);
        rc = buffer_add_json_char(buffer, text + at, step);
        at += step > 0 ? step : 1;
    }
    if (rc == RC_OK)
        rc = buffer_add(buffer, "\"", 1);
    if (rc != RC_OK)
        buffer_cut(buffer, start);
    return rc;
}
