/* ws_frame.h: WebSocket frames (RFC 6455): headers for a server, and frames from a client. Pure. */
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

/* Returns the length of a frame that starts with the output of ws_text_header. */
size_t ws_frame_len(const unsigned char *frame);

#define WS_CONTROL_MAX 125
#define WS_HEAD_MAX 14
#define WS_NO_CODE 1005 /* a close frame without a code; never sent */

enum ws_event_kind { WS_NOTHING, WS_DATA, WS_PING, WS_PONG, WS_CLOSE, WS_BROKEN };

struct ws_event {
    enum ws_event_kind kind;
    bool is_binary;          /* WS_DATA: the message's type */
    bool is_last;            /* WS_DATA: last piece of the message */
    uint64_t left;           /* WS_DATA: bytes of this frame that have not arrived yet */
    const unsigned char *at; /* unmasked payload, or a piece of it */
    size_t len;
    const char *why; /* WS_BROKEN: the reason */
};

/* A zeroed reader expects a client's first frame. Each connection has one, so it is small. */
struct ws_reader {
    unsigned char head[WS_HEAD_MAX];
    unsigned char head_len;
    unsigned char control_len;
    unsigned char mask_at;
    bool has_head : 1;   /* the header is complete: reading the payload */
    bool in_message : 1; /* reading a fragmented message */
    bool is_binary : 1;
    uint64_t left;
    unsigned char *control; /* payload of a control frame that arrived in parts; NULL: none */
};

/*
 * Parses `bytes` up to the next event and unmasks them in place; *ret_used bytes are consumed. A
 * message is returned in pieces. The first piece, which may be empty, is returned as soon as the
 * length is known, so that the caller can reject a long message. Pointers are valid until the next
 * call, and only while `bytes` is valid. WS_NOTHING: all bytes are consumed. WS_BROKEN is final.
 */
struct ws_event ws_reader_next(struct ws_reader *reader, unsigned char *bytes, size_t len,
                               size_t *ret_used);
void ws_reader_free(struct ws_reader *reader);

/*
 * Returns the code for the reply to a close frame: the received code, WS_NO_CODE, or 1002 or 1007
 * if it is invalid. Then *ret_why is the reason, otherwise NULL.
 */
int ws_close_reply_code(const unsigned char *payload, size_t len, const char **ret_why);

#endif
