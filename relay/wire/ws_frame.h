/* ws_frame.h: the heads of a server's WebSocket frames. Pure. */
#ifndef CLAIRON_WIRE_WS_FRAME_H
#define CLAIRON_WIRE_WS_FRAME_H

#include <stddef.h>

#define WS_TEXT_HEAD_MAX 10

/* Writes the head of a whole text message of `len` bytes so that it ends at `end`; its length. */
size_t ws_text_head(size_t len, unsigned char *end);

/* Length, head included, of the frame that begins at `frame`, which a ws_text_head made. */
size_t ws_frame_len(const unsigned char *frame);

/* Of the head alone. */
size_t ws_frame_head_len(const unsigned char *frame);

#endif
