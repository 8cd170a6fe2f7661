/* inflight.c: notifications that were sent to one session and are not yet acknowledged. */
#include "hub/parts/inflight.h"

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
    int room = inflight->room == 0 ? INFLIGHT_FIRST_ROOM : inflight->room * 2;

    if (inflight->count < inflight->room)
        return;
    inflight->room = room < inflight->size ? room : inflight->size;
    inflight->entries =
        memory_grow(inflight->entries, (size_t)inflight->room * sizeof(*inflight->entries));
}

void
inflight_add(struct inflight *inflight, const struct notification *notification)
{
    struct inflight_entry *entry;

    inflight_grow(inflight);
    entry = &inflight->entries[inflight->count++];
    *entry = (struct inflight_entry){
        .shard = notification->shard,
        .backoff = notification->frame.as.notification.backoff,
        .ack_timeout_ms = notification->frame.as.notification.ack_timeout_ms,
        .retry_enabled = (notification->frame.flags & FRAME_RETRY_ENABLED) != 0,
        .is_open_ended = notification->is_open_ended,
    };
    memcpy(entry->id, notification->frame.as.notification.id, sizeof(entry->id));
}

void
inflight_remove(struct inflight *inflight, struct inflight_entry *entry)
{
    *entry = inflight->entries[--inflight->count];
}

bool
inflight_repeat(struct inflight_entry *entry)
{
    bool again = entry->is_missed && entry->is_written;

    entry->is_missed = false;
    entry->is_written = entry->is_written && !again;
    return again;
}

void
inflight_recheck(struct inflight *inflight)
{
    for (int i = 0; i < inflight->count; i++)
        inflight->entries[i].needs_recheck = inflight->entries[i].is_written;
}

void
inflight_confirm(struct inflight *inflight, const unsigned char id[16])
{
    struct inflight_entry *entry = inflight_find(inflight, id);

    if (entry != NULL)
        entry->needs_recheck = false;
}

bool
inflight_is_refuted(const struct inflight_entry *entry)
{
    return entry->needs_recheck && !entry->is_open_ended;
}

void
inflight_free(struct inflight *inflight)
{
    free(inflight->entries);
    *inflight = (struct inflight){.size = inflight->size};
}
