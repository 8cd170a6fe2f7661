/* codes.c: writes the `err` frame of the protocol. */
#include "wire/codes.h"

#include <inttypes.h>
#include <string.h>

enum rc
error_frame_write(struct buffer *out, const struct error_frame *frame)
{
    enum rc rc = buffer_addf(out, "{\"t\":\"err\",");

    if (rc == RC_OK && frame->has_request_id)
        rc = buffer_addf(out, "\"r\":%" PRId64 ",", frame->request_id);
    if (rc == RC_OK)
        rc = buffer_addf(out, "\"code\":%d,\"msg\":", (int)frame->code);
    if (rc == RC_OK)
        rc = buffer_add_json(out, frame->text, strlen(frame->text));
    if (rc == RC_OK && frame->after_ms >= 0)
        rc = buffer_addf(out, ",\"after\":%" PRId64, frame->after_ms);
    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"retry\":%s}", frame->after_ms >= 0 ? "true" : "false");
    return rc;
}
