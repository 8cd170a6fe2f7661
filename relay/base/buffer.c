/* buffer.c: grows a byte string by doubling, up to its limit. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

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

enum rc
buffer_addf(struct buffer *buffer, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0)
        return RC_BAD;

    enum rc rc = buffer_reserve(buffer, (size_t)len);

    if (rc != RC_OK)
        return rc;
    va_start(args, format);
    (void)vsnprintf(buffer->bytes + buffer->len, (size_t)len + 1, format, args);
    va_end(args);
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

enum rc
buffer_add_json(struct buffer *buffer, const char *text, size_t len)
{
    size_t start = buffer->len;
    enum rc rc = buffer_add(buffer, "\"", 1);

    for (size_t at = 0; rc == RC_OK && at < len;) {
        size_t step = utf8_char_len(text + at, len - at);

        rc = buffer_add_json_char(buffer, text + at, step);
        at += step > 0 ? step : 1;
    }
    if (rc == RC_OK)
        rc = buffer_add(buffer, "\"", 1);
    if (rc != RC_OK)
        buffer_cut(buffer, start);
    return rc;
}
