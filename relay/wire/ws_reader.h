/* ws_reader.h: cuts a client's bytes into WebSocket frames, to the letter of RFC 6455. Pure. */
#ifndef CLAIRON_WIRE_WS_READER_H
#define CLAIRON_WIRE_WS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WS_CONTROL_MAX 125
#define WS_HEAD_MAX 14
#define WS_NO_CODE 1005 /* stands for a close frame without a code; never on the wire */

enum ws_event_kind { WS_NOTHING, WS_DATA, WS_PING, WS_PONG, WS_CLOSE, WS_BROKEN };

struct ws_event {
    enum ws_event_kind kind;
    bool is_binary;          /* WS_DATA: the message is */
    bool is_last;            /* WS_DATA: the message ends with this piece */
    uint64_t left;           /* WS_DATA: bytes of this frame that are still to come */
    const unsigned char *at; /* the payload, or a piece of it, unmasked */
    size_t len;
    const char *why; /* WS_BROKEN: one sentence */
};

/* Zeroed, it waits for the first frame of a client. */
struct ws_reader {
    unsigned char head[WS_HEAD_MAX];
    unsigned char head_len;
    unsigned char control_len;
    bool has_head;   /* the payload is being read */
    bool in_message; /* fragments of it came, the last did not */
    bool is_binary;
    unsigned mask_at;
    uint64_t left;
    unsigned char control[WS_CONTROL_MAX];
};

/*
 * Reads on in `bytes`, unmasking them in place, up to the next event; *ret_used of them are done
 * with. A message comes in pieces, the first (maybe empty) as soon as its length is known, so that
 * it may be refused. Views live as long as `bytes`, or until the next call. WS_NOTHING: all are
 * used. After WS_BROKEN there is nothing more to be read.
 */
struct ws_event ws_reader_next(struct ws_reader *reader, unsigned char *bytes, size_t len,
                               size_t *ret_used);

/*
 * The code to answer a close frame with: its own, WS_NO_CODE, or 1002 or 1007 for one that is
 * wrong; then *ret_why is a sentence, else NULL.
 */
int ws_close_answer(const unsigned char *payload, size_t len, const char **ret_why);

#endif
