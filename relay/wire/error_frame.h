/* error_frame.h: writes the `err` frame of the protocol. Pure: no clock, no log. */
#ifndef CLAIRON_WIRE_ERROR_FRAME_H
#define CLAIRON_WIRE_ERROR_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "wire/codes.h"

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
