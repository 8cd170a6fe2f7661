/* inbox.c: the progress of a session in its user's inbox, and the reasons to read it again. */
#include "hub/parts/inbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void
inbox_rewind(struct inbox *inbox)
{
    snprintf(inbox->at, sizeof(inbox->at), "0");
}

void
inbox_begin(struct inbox *inbox)
{
    inbox->refill = INBOX_REFILL_NONE;
    inbox->reconcile = inbox->reconcile == INBOX_RECONCILE_WANTED ||
                               inbox->reconcile == INBOX_RECONCILE_RUNNING_WANTED
                           ? INBOX_RECONCILE_RUNNING
                           : INBOX_RECONCILE_NONE;
    inbox_rewind(inbox);
}

void
inbox_end(struct inbox *inbox)
{
    free(inbox->acked);
    inbox->acked = NULL;
    inbox->acked_count = 0;
    inbox->is_full = false;
}

bool
inbox_defer(struct inbox *inbox)
{
    bool was_deferred = inbox_is_deferred(inbox);

    if (inbox->refill == INBOX_REFILL_NONE)
        inbox->refill = INBOX_REFILL_WHEN_ROOM;
    else if (inbox->refill == INBOX_REFILL_WHEN_LIVE)
        inbox->refill = INBOX_REFILL_NOW;
    return !was_deferred;
}

void
inbox_miss(struct inbox *inbox)
{
    if (inbox->refill == INBOX_REFILL_NONE)
        inbox->refill = INBOX_REFILL_WHEN_LIVE;
    else if (inbox->refill == INBOX_REFILL_WHEN_ROOM)
        inbox->refill = INBOX_REFILL_NOW;
}

void
inbox_want_reconcile(struct inbox *inbox)
{
    if (inbox->reconcile == INBOX_RECONCILE_NONE)
        inbox->reconcile = INBOX_RECONCILE_WANTED;
    else if (inbox->reconcile == INBOX_RECONCILE_RUNNING)
        inbox->reconcile = INBOX_RECONCILE_RUNNING_WANTED;
}

void
inbox_end_reconcile(struct inbox *inbox)
{
    if (inbox->reconcile == INBOX_RECONCILE_RUNNING)
        inbox->reconcile = INBOX_RECONCILE_NONE;
    else if (inbox->reconcile == INBOX_RECONCILE_RUNNING_WANTED)
        inbox->reconcile = INBOX_RECONCILE_WANTED;
}

void
inbox_keep_acked(struct inbox *inbox, const unsigned char id[16])
{
    inbox->acked = memory_grow(inbox->acked, (inbox->acked_count + 1) * sizeof(*inbox->acked));
    memcpy(inbox->acked[inbox->acked_count++], id, 16);
}

bool
inbox_was_acked(const struct inbox *inbox, const unsigned char id[16])
{
    for (unsigned i = 0; i < inbox->acked_count; i++) {
        if (memcmp(inbox->acked[i], id, 16) == 0)
            return true;
    }
    return false;
}
