/* error_entry.c: reads one entry of the error log. */
#include "store/error_entry.h"

#include "store/connection/reply.h"

enum rc
error_entry_read(const struct redisReply *row, struct error_entry *ret_entry)
{
    struct error_entry entry;
    struct bytes entry_id;

    if (!reply_is_array(row, 2))
        return RC_BAD;
    entry_id = reply_bytes(reply_at(row, 0));
    if (entry_id.at == NULL ||
        entry_id_read((const char *)entry_id.at, entry_id.len, &entry.entry) != RC_OK)
        return RC_BAD;
    entry.id = reply_field(reply_at(row, 1), "id");
    entry.reason = reply_field(reply_at(row, 1), "reason");
    entry.attempts = reply_field(reply_at(row, 1), "attempts");
    entry.users = reply_field(reply_at(row, 1), "users");
    entry.data = reply_field(reply_at(row, 1), "data");
    entry.route = reply_field(reply_at(row, 1), "route");
    *ret_entry = entry;
    return RC_OK;
}
