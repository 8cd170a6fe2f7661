/* control.c: what the streams beside the notes tell: of acks, and of memberships. */
#include "store/read/control.h"

#include <stdio.h>
#include <string.h>

void
control_take_cursor(const struct redisReply *entry, char at[ENTRY_ID_TEXT_MAX])
{
    struct bytes id = {NULL, 0};

    if (reply_is_array(entry, 1))
        id = reply_bytes(reply_at(entry, 0));
    if (id.at != NULL && id.len < ENTRY_ID_TEXT_MAX)
        snprintf(at, ENTRY_ID_TEXT_MAX, "%.*s", (int)id.len, (const char *)id.at);
}

void
control_take_receipts(const struct reader_events *events, const char *own_name,
                      const struct redisReply *entries, char at[ENTRY_ID_TEXT_MAX])
{
    for (size_t i = 0; i < reply_count(entries); i++) {
        const struct redisReply *entry = reply_at(entries, i);
        struct bytes by, gone;

        control_take_cursor(entry, at);
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

void
control_take_members(const struct reader_events *events, const struct redisReply *entries,
                     char at[ENTRY_ID_TEXT_MAX])
{
    for (size_t i = 0; i < reply_count(entries); i++) {
        const struct redisReply *entry = reply_at(entries, i);
        struct reader_member member;
        struct bytes change;

        if (!reply_is_array(entry, 2))
            continue;
        control_take_cursor(entry, at);
        change = reply_field(reply_at(entry, 1), "change");
        if (change.len == 1 && change.at[0] == '=')
            events->on_resumed(events->ctx); /* what ended before them was told to nobody */
        member.added = change.len == 1 && change.at[0] == '+';
        member.audience = reply_field(reply_at(entry, 1), "audience");
        member.target = reply_field(reply_at(entry, 1), "target");
        member.user = reply_field(reply_at(entry, 1), "user");
        if (member.user.at != NULL && member.target.at != NULL)
            events->on_member(events->ctx, &member);
    }
}
