/* stream_entry.c: reads a notification from its stream entry in a reply. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "store/connection/reply.h"
#include "store/entry.h"

/* False: no valid time in milliseconds. A reply's strings end with a zero byte. */
static bool
read_expiration(struct bytes text, int64_t *ret_us)
{
    long long ms = strtoll((const char *)text.at, NULL, 10);

    if (ms < 0 || ms > INT64_MAX / 1000)
        return false;
    *ret_us = ms * 1000;
    return true;
}

enum rc
entry_read(const struct redisReply *element, struct entry *ret_entry)
{
    const struct redisReply *fields;
    struct entry entry = {.shard = 0}; /* set by the caller, as the fields of a pending list */
    struct bytes route, open;

    if (!reply_is_array(element, 2) || reply_entry_id(element, &entry.id) != RC_OK)
        return RC_BAD;
    fields = reply_at(element, 1);
    entry.uuid = reply_field(fields, "id");
    entry.data = reply_field(fields, "data");
    route = reply_field(fields, "route");
    if (entry.data.len == 0 || !frame_is_uuid((const char *)entry.uuid.at, entry.uuid.len) ||
        route.at == NULL || frame_parse_header(route, &entry.frame) != RC_OK)
        return RC_BAD;
    entry.is_late = (entry.frame.flags & FRAME_LATE) != 0;
    /* The scripts add the users of a retry, and the expiration of an open-ended audience. */
    entry.retry_users = reply_field(fields, "retry_users");
    entry.is_retry = entry.retry_users.at != NULL;
    open = reply_field(fields, "open_ended");
    entry.expires_us = entry.frame.as.notification.expires_us;
    if (open.at != NULL && !read_expiration(open, &entry.expires_us))
        return RC_BAD;
    *ret_entry = entry;
    return RC_OK;
}
