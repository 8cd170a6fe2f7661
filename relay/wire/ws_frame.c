/* ws_frame.c: headers of a server's WebSocket frames. */
#include "wire/ws_frame.h"

#include <stdint.h>

#define FINAL_TEXT 0x81
#define LEN_16 126
#define LEN_64 127

size_t
ws_text_header(size_t len, unsigned char *end)
{
    size_t extra = len < LEN_16 ? 0 : len <= UINT16_MAX ? 2 : 8;
    unsigned char *head = end - 2 - extra;

    head[0] = FINAL_TEXT;
    head[1] = (unsigned char)(extra == 0 ? len : extra == 2 ? LEN_16 : LEN_64);
    for (size_t i = 0; i < extra; i++)
        head[2 + i] = (unsigned char)((uint64_t)len >> (8 * (extra - 1 - i)));
    return 2 + extra;
}

size_t
ws_frame_len(const unsigned char *frame)
{
    size_t extra = frame[1] < LEN_16 ? 0 : frame[1] == LEN_16 ? 2 : 8;
    size_t len = extra == 0 ? frame[1] : 0;

    for (size_t i = 0; i < extra; i++)
        len = len << 8 | frame[2 + i];
    return 2 + extra + len;
}

size_t
ws_frame_header_len(const unsigned char *frame)
{
    return 2u + (frame[1] < LEN_16 ? 0 : frame[1] == LEN_16 ? 2 : 8);
}
