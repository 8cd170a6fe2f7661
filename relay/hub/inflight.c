/* inflight.c: notifications that were sent to one session and are not yet acknowledged. */
#include "hub/inflight.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define INFLIGHT_FIRST_ROOM 4

struct inflight_entry *
inflight_find(const struct inflight *inflight, const unsigned char id[16])
{
    for (int i = 0; i < inflight->count; i++) {
        if (memcmp(inflight->entries[i].id, id, 16) == 0)
            return &inflight->entries[i];
    }
    return NULL;
}

static void
inflight_grow(struct inflight *inflight)
{
    if (inflight->count < inflight->room)
        return;
    inflight->room = inflight->room == 0 ? INFLIGHT_FIRST_ROOM : inflight->room * 2;
    inflight->entries =
        memory_grow(inflight->entries, (size_t)inflight->room * sizeof(*inflight->entries));
}

void
inflight_add(struct inflight *inflight, const struct notification *notification,
             enum inflight_end end)
{
    struct inflight_entry *entry;

    inflight_grow(inflight);
    entry = &inflight->entries[inflight->count++];
    *entry = (struct inflight_entry){
        .shard = notification->shard,
        .end = end,
        .backoff = notification->frame.as.notification.backoff,
        .ack_timeout_ms = notification->frame.as.notification.ack_timeout_ms,
        .retry_enabled = (notification->frame.flags & FRAME_RETRY_ENABLED) != 0,
        .is_open_ended = notification->is_open_ended,
    };
    memcpy(entry->id, notification->frame.as.notification.id, sizeof(entry->id));
    inflight->ended += end != INFLIGHT_OPEN;
}

void
inflight_remove(struct inflight *inflight, struct inflight_entry *entry)
{
    inflight->ended -= entry->end != INFLIGHT_OPEN;
    *entry = inflight->entries[--inflight->count];
}

void
inflight_end(struct inflight *inflight, struct inflight_entry *entry, enum inflight_end end)
{
    entry->end = (uint8_t)end;
    inflight->ended++;
}

void
inflight_sweep(struct inflight *inflight)
{
    for (int i = inflight->count - 1; i >= 0 && inflight->ended > 0; i--) {
        struct inflight_entry *entry = &inflight->entries[i];

        if (entry->is_written && entry->end != INFLIGHT_OPEN)
            inflight_remove(inflight, entry);
    }
}

void
inflight_free(struct inflight *inflight)
{
    free(inflight->entries);
    *inflight = (struct inflight){.size = inflight->size};
}
