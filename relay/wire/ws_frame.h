/* ws_frame.h: headers of a server's WebSocket frames. Pure. */
#ifndef CLAIRON_WIRE_WS_FRAME_H
#define CLAIRON_WIRE_WS_FRAME_H

#include <stddef.h>

#define WS_TEXT_HEAD_MAX 10

/*
 * Writes the header of an unfragmented text message of `len` bytes so that it ends at `end`.
 * Returns its length.
 */
size_t ws_text_header(size_t len, unsigned char *end);

/* Length, including the header, of a frame that ws_text_header made. */
size_t ws_frame_len(const unsigned char *frame);

/* Length of the header. */
size_t ws_frame_header_len(const unsigned char *frame);

#endif
