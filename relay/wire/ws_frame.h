/* ws_frame.h: WebSocket frames by RFC 6455: a server's headers, and a client's frames. Pure. */
#ifndef CLAIRON_WIRE_WS_FRAME_H
#define CLAIRON_WIRE_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#define WS_CONTROL_MAX 125
#define WS_HEAD_MAX 14
#define WS_NO_CODE 1005 /* a close frame without a code; never on the wire */

enum ws_event_kind { WS_NOTHING, WS_DATA, WS_PING, WS_PONG, WS_CLOSE, WS_BROKEN };

struct ws_event {
    enum ws_event_kind kind;
    bool is_binary;          /* WS_DATA: the message's type */
    bool is_last;            /* WS_DATA: last piece of the message */
    uint64_t left;           /* WS_DATA: bytes of this frame not received yet */
    const unsigned char *at; /* unmasked payload, or a piece of it */
    size_t len;
    const char *why; /* WS_BROKEN: the reason */
};

/* Zeroed: expects a client's first frame. */
struct ws_reader {
    unsigned char head[WS_HEAD_MAX];
    unsigned char head_len;
    unsigned char control_len;
    bool has_head;   /* within the payload */
    bool in_message; /* within a fragmented message */
    bool is_binary;
    unsigned mask_at;
    uint64_t left;
    unsigned char control[WS_CONTROL_MAX];
};

/*
 * Parses `bytes` up to the next event and unmasks them in place; *ret_used of them are consumed. A
 * message arrives in pieces. The first (maybe empty) comes as soon as the length is known, so that
 * the caller can reject it. Views are valid until `bytes` ends or the next call. WS_NOTHING: all
 * bytes are consumed. WS_BROKEN is final.
 */
struct ws_event ws_reader_next(struct ws_reader *reader, unsigned char *bytes, size_t len,
                               size_t *ret_used);

/*
 * The code for the reply to a close frame: its own, WS_NO_CODE, or 1002 or 1007 if it is invalid.
 * *ret_why is then the reason, else NULL.
 */
int ws_close_reply_code(const unsigned char *payload, size_t len, const char **ret_why);

#endif
