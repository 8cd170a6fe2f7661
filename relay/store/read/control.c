/* control.c: reads the streams of acknowledgement events and memberships. */
#include "store/read/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
control_read_cursor(const struct redisReply *entry, char at[ENTRY_ID_TEXT_MAX])
{
    struct bytes id = {NULL, 0};

    if (reply_is_array(entry, 1))
        id = reply_bytes(reply_at(entry, 0));
    if (id.at != NULL && id.len < ENTRY_ID_TEXT_MAX)
        snprintf(at, ENTRY_ID_TEXT_MAX, "%.*s", (int)id.len, (const char *)id.at);
}

void
control_handle_ack_events(const struct reader_events *events, const char *own_name,
                          const struct redisReply *entries, char at[ENTRY_ID_TEXT_MAX])
{
    for (size_t i = 0; i < reply_count(entries); i++) {
        const struct redisReply *entry = reply_at(entries, i);
        struct bytes by, gone;

        control_read_cursor(entry, at);
        if (!reply_is_array(entry, 2))
            continue;
        gone = reply_field(reply_at(entry, 1), "gone");
        if (gone.len > 0)
            events->on_ack_events(events->ctx, gone, false);
        by = reply_field(reply_at(entry, 1), "by");
        if (by.len != strlen(own_name) || memcmp(by.at, own_name, by.len) != 0)
            events->on_ack_events(events->ctx, reply_field(reply_at(entry, 1), "acked"), true);
    }
}

/* Entries of older relays have none. A reply's texts end with a zero. */
static uint64_t
read_xid(struct bytes text)
{
    return text.at != NULL ? strtoull((const char *)text.at, NULL, 10) : 0;
}

void
control_handle_members(const struct reader_events *events, const struct redisReply *entries,
                       char at[ENTRY_ID_TEXT_MAX])
{
    for (size_t i = 0; i < reply_count(entries); i++) {
        const struct redisReply *entry = reply_at(entries, i);
        struct reader_member member;
        struct bytes change;

        if (!reply_is_array(entry, 2))
            continue;
        control_read_cursor(entry, at);
        change = reply_field(reply_at(entry, 1), "change");
        if (change.len == 1 && change.at[0] == '=')
            events->on_resumed(
                events->ctx); /* memberships removed before it had no entry of their own */
        member.added = change.len == 1 && change.at[0] == '+';
        member.audience = reply_field(reply_at(entry, 1), "audience");
        member.target = reply_field(reply_at(entry, 1), "target");
        member.user = reply_field(reply_at(entry, 1), "user");
        member.xid = read_xid(reply_field(reply_at(entry, 1), "xid"));
        if (member.user.at != NULL && member.target.at != NULL)
            events->on_member(events->ctx, &member);
    }
}
