/* tail.c: follows a stream that is trimmed to its newest entries, and detects missed entries. */
#include "store/read/tail.h"

#include <stdio.h>
#include <string.h>

#include "store/servers/link.h"
#include "store/read/control.h"

/* Entries between `before` and the oldest entry were missed: this process was paused. */
static void
on_oldest(void *ctx, const struct redisReply *reply)
{
    struct tail *tail = ctx;
    char oldest_text[ENTRY_ID_TEXT_MAX] = "0-0";
    struct entry_id oldest, before;

    if (reply_is_error(reply)) {
        link_restart(tail->link, reply_text(reply)); /* the reconnect checks the new positions */
        return;
    }
    if (reply_is_array(reply, 1))
        control_read_cursor(reply_at(reply, 0), oldest_text);
    if (entry_id_read(oldest_text, strlen(oldest_text), &oldest) == RC_OK &&
        entry_id_read(tail->before, strlen(tail->before), &before) == RC_OK &&
        entry_id_less(before, oldest))
        tail->has_missed = true;
}

bool
tail_begin(struct tail *tail, const struct redisReply *entries, size_t max)
{
    const char *argv[] = {"XRANGE", tail->key, "-", "+", "COUNT", "1"};

    if (reply_count(entries) < max)
        return false;
    snprintf(tail->before, sizeof(tail->before), "%s", tail->at);
    if (link_send(tail->link, on_oldest, tail, 6, argv, NULL) != RC_OK)
        tail->has_missed = true;
    return true;
}

bool
tail_has_missed(struct tail *tail)
{
    bool has_missed = tail->has_missed;

    tail->has_missed = false;
    return has_missed;
}

void
tail_reset(struct tail *tail)
{
    tail->at[0] = tail->before[0] = '\0';
    tail->has_missed = false;
}
