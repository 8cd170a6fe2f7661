/* codes.h: the codes of client/PROTOCOL.md, and its `err` frame, for all transports. Pure. */
#ifndef CLAIRON_WIRE_CODES_H
#define CLAIRON_WIRE_CODES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"

#define GATE_CLOSE_REASON_MAX 160

enum gate_code { /* sent in `bye` and in the WebSocket close frame */
                 GATE_CLOSE_BROKEN = 1002,
                 GATE_CLOSE_BINARY = 1003,
                 GATE_CLOSE_UTF8 = 1007,
                 GATE_CLOSE_TOO_LONG = 1009,
                 GATE_CLOSE_PROTOCOL = 4000,
                 GATE_CLOSE_TOKEN = 4001,
                 GATE_CLOSE_NO_CONNECT = 4002,
                 GATE_CLOSE_BANNED = 4003,
                 GATE_CLOSE_EXPIRED = 4100,
                 GATE_CLOSE_SLOW = 4101,
                 GATE_CLOSE_NO_PONG = 4102,
                 GATE_CLOSE_OVERLOADED = 4103,
                 GATE_CLOSE_RESTART = 4201,
};

enum gate_err { /* `code` of an HTTP problem and of an `err` frame */
                GATE_ERR_INTERNAL = 100,
                GATE_ERR_UNAUTHORISED = 101,
                GATE_ERR_PERMISSION = 103,
                GATE_ERR_BAD_REQUEST = 107,
                GATE_ERR_EXPIRED = 109,
                GATE_ERR_RATE = 111,
                GATE_ERR_TOO_MANY_ROWS = 113,
};

struct error_frame {
    bool has_request_id;
    int64_t request_id;
    enum gate_err code;
    const char *text;
    int64_t after_ms; /* delay before a retry; -1: do not retry */
};

/* Adds the frame, without a line break. */
MUST_CHECK enum rc error_frame_write(struct buffer *out, const struct error_frame *frame);

#endif
