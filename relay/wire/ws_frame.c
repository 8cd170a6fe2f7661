/* ws_frame.c: WebSocket frames: writes headers for a server, and parses the bytes of a client. */
#include "wire/ws_frame.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "wire/bytes.h"

#define OPCODE_CONTINUATION 0x0
#define OPCODE_TEXT 0x1
#define OPCODE_BINARY 0x2
#define OPCODE_CLOSE 0x8
#define OPCODE_PING 0x9
#define OPCODE_PONG 0xa
#define BIT_FINAL 0x80
#define BITS_RESERVED 0x70
#define BIT_CONTROL 0x08
#define BIT_MASKED 0x80
#define MASK_BYTES 4
#define LENGTH_7_MAX 125
#define LENGTH_16 126 /* a length of 16 bits follows */
#define LENGTH_64 127 /* a length of 64 bits follows */
#define LENGTH_16_MAX 0xffff

size_t
ws_text_header(size_t len, unsigned char *end)
{
    size_t extra = len <= LENGTH_7_MAX ? 0 : len <= LENGTH_16_MAX ? 2 : 8;
    unsigned char *head = end - 2 - extra;

    head[0] = BIT_FINAL | OPCODE_TEXT;
    head[1] = (unsigned char)(extra == 0 ? len : extra == 2 ? LENGTH_16 : LENGTH_64);
    for (size_t i = 0; i < extra; i++)
        head[2 + i] = (unsigned char)((uint64_t)len >> (8 * (extra - 1 - i)));
    return 2 + extra;
}

size_t
ws_frame_len(const unsigned char *frame)
{
    size_t extra = frame[1] <= LENGTH_7_MAX ? 0 : frame[1] == LENGTH_16 ? 2 : 8;
    size_t len = extra == 0 ? frame[1] : 0;

    for (size_t i = 0; i < extra; i++)
        len = len << 8 | frame[2 + i];
    return 2 + extra + len;
}

static unsigned
opcode_of(const struct ws_reader *reader)
{
    return reader->head[0] & 0x0fu;
}

static bool
is_control(const struct ws_reader *reader)
{
    return (reader->head[0] & BIT_CONTROL) != 0;
}

static bool
is_final(const struct ws_reader *reader)
{
    return (reader->head[0] & BIT_FINAL) != 0;
}

/* Returns the error in a frame's first byte, or NULL. */
static const char *
validate_first_byte(const struct ws_reader *reader)
{
    unsigned opcode = opcode_of(reader);

    if ((reader->head[0] & BITS_RESERVED) != 0)
        return "reserved bit set in a frame";
    if ((opcode > OPCODE_BINARY && opcode < OPCODE_CLOSE) || opcode > OPCODE_PONG)
        return "reserved opcode in a frame";
    if (is_control(reader))
        return is_final(reader) ? NULL : "fragmented control frame";
    if (opcode == OPCODE_CONTINUATION && !reader->in_message)
        return "continuation frame without a message";
    if (opcode != OPCODE_CONTINUATION && reader->in_message)
        return "data frame within a fragmented message";
    return NULL;
}

static const char *
validate_second_byte(const struct ws_reader *reader)
{
    if ((reader->head[1] & BIT_MASKED) == 0)
        return "unmasked frame from a client";
    if (is_control(reader) && (reader->head[1] & 0x7fu) > WS_CONTROL_MAX)
        return "control frame longer than 125 bytes";
    return NULL;
}

/* Returns the length of the header, from the bytes received so far. */
static size_t
head_size(const struct ws_reader *reader)
{
    unsigned len = reader->head_len < 2 ? 0 : reader->head[1] & 0x7fu;

    if (reader->head_len < 2)
        return 2;
    return 2 + MASK_BYTES + (len == LENGTH_16 ? 2u : len == LENGTH_64 ? 8u : 0u);
}

/* Returns an error unless the length uses its shortest form. */
static const char *
read_length(struct ws_reader *reader)
{
    unsigned len = reader->head[1] & 0x7fu;
    uint64_t min = len == LENGTH_64 ? LENGTH_16_MAX + 1 : len == LENGTH_16 ? LENGTH_7_MAX + 1 : 0;

    reader->left = len;
    if (len == LENGTH_16)
        reader->left = bytes_get_u16(reader->head + 2);
    if (len == LENGTH_64)
        reader->left = bytes_get_u64(reader->head + 2);
    if (reader->left > INT64_MAX)
        return "frame length with its highest bit set";
    return reader->left < min ? "frame length not in its shortest form" : NULL;
}

static void
begin_payload(struct ws_reader *reader)
{
    reader->has_head = true;
    reader->mask_at = 0;
    if (is_control(reader)) {
        reader->control_len = 0;
        ws_reader_free(reader);
        return;
    }
    if (opcode_of(reader) != OPCODE_CONTINUATION)
        reader->is_binary = opcode_of(reader) == OPCODE_BINARY;
    reader->in_message = !is_final(reader);
}

/* Consumes bytes of the header. Returns the error, or NULL. */
static const char *
read_head(struct ws_reader *reader, const unsigned char *bytes, size_t len, size_t *used)
{
    const char *why = NULL;

    while (why == NULL && *used < len && reader->head_len < head_size(reader)) {
        reader->head[reader->head_len++] = bytes[(*used)++];
        if (reader->head_len == 1)
            why = validate_first_byte(reader);
        else if (reader->head_len == 2)
            why = validate_second_byte(reader);
    }
    if (why == NULL && reader->head_len >= 2 && reader->head_len == head_size(reader)) {
        why = read_length(reader);
        if (why == NULL)
            begin_payload(reader);
    }
    return why;
}

static void
unmask(struct ws_reader *reader, unsigned char *bytes, size_t len)
{
    const unsigned char *mask = reader->head + reader->head_len - MASK_BYTES;

    for (size_t i = 0; i < len; i++)
        bytes[i] ^= mask[(reader->mask_at + i) % MASK_BYTES];
    reader->mask_at = (unsigned char)((reader->mask_at + len) % MASK_BYTES);
}

static void
end_frame(struct ws_reader *reader)
{
    reader->has_head = false;
    reader->head_len = 0;
}

static struct ws_event
read_data(struct ws_reader *reader, unsigned char *bytes, size_t len)
{
    struct ws_event event = {
        .kind = WS_DATA,
        .is_binary = reader->is_binary,
        .is_last = is_final(reader) && reader->left == len,
        .left = reader->left - len,
        .at = bytes,
        .len = len,
    };

    reader->left -= len;
    if (reader->left == 0)
        end_frame(reader);
    return event;
}

/* Copies the payload only if it arrives in parts. */
static struct ws_event
read_control(struct ws_reader *reader, const unsigned char *bytes, size_t len)
{
    struct ws_event event = {.at = bytes, .len = len};

    reader->left -= len;
    if (reader->control != NULL || reader->left > 0) {
        if (reader->control == NULL)
            reader->control = memory_new(WS_CONTROL_MAX);
        memcpy(reader->control + reader->control_len, bytes, len);
        reader->control_len = (unsigned char)(reader->control_len + len);
        if (reader->left > 0)
            return (struct ws_event){.kind = WS_NOTHING};
        event.at = reader->control;
        event.len = reader->control_len;
    }
    event.kind = opcode_of(reader) == OPCODE_PING   ? WS_PING
                 : opcode_of(reader) == OPCODE_PONG ? WS_PONG
                                                    : WS_CLOSE;
    end_frame(reader);
    return event;
}

void
ws_reader_free(struct ws_reader *reader)
{
    free(reader->control);
    reader->control = NULL;
}

struct ws_event
ws_reader_next(struct ws_reader *reader, unsigned char *bytes, size_t len, size_t *ret_used)
{
    struct ws_event event = {.kind = WS_NOTHING};
    size_t used = 0;
    size_t chunk_len;

    if (!reader->has_head) {
        event.why = read_head(reader, bytes, len, &used);
        *ret_used = used;
        if (event.why != NULL)
            event.kind = WS_BROKEN;
        if (event.why != NULL || !reader->has_head)
            return event;
    } else if (len == 0) {
        *ret_used = 0;
        return event;
    }
    chunk_len = reader->left < len - used ? (size_t)reader->left : len - used;
    unmask(reader, bytes + used, chunk_len);
    *ret_used = used + chunk_len;
    return is_control(reader) ? read_control(reader, bytes + used, chunk_len)
                              : read_data(reader, bytes + used, chunk_len);
}

/* RFC 6455, section 7.4, and later IANA registrations. */
static bool
is_close_code(unsigned code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

int
ws_close_reply_code(const unsigned char *payload, size_t len, const char **ret_why)
{
    unsigned code;

    *ret_why = NULL;
    if (len == 0)
        return WS_NO_CODE;
    code = len >= 2 ? bytes_get_u16(payload) : 0;
    if (!is_close_code(code)) {
        *ret_why = "invalid close code";
        return 1002;
    }
    for (size_t at = 2; at < len;) {
        size_t char_len = utf8_char_len((const char *)payload + at, len - at);

        if (char_len == 0) {
            *ret_why = "close reason is not valid UTF-8";
            return 1007;
        }
        at += char_len;
    }
    return (int)code;
}
