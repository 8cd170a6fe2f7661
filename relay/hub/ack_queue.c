/* ack_queue.c: queues acknowledgements while a batch of them is in flight. */
#include "hub/ack_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "hub/delivery_reports.h"
#include "hub/rejections.h"
#include "hub/hub_state.h"
#include "hub/ready_list.h"
#include "store/trace.h"

#define ACKS_PER_CALL 2000
#define ACKS_MAX 100000
/* acks of notifications that are not in flight on this relay */
#define FOREIGN_ACKS_MAX (ACKS_MAX / 2)

static void
clear(struct acks *acks)
{
    for (size_t i = 0; i < acks->count; i++) {
        free((char *)acks->items[i].user);
        free((char *)acks->items[i].id);
    }
    acks->count = 0;
}

static void
push(struct acks *acks, struct store_ack ack)
{
    if (acks->count == acks->room) {
        acks->room = acks->room == 0 ? 64 : acks->room * 2;
        acks->items = memory_grow(acks->items, acks->room * sizeof(*acks->items));
    }
    acks->items[acks->count++] = ack;
}

static void
on_acked(void *ctx, enum rc rc)
{
    struct hub *hub = ctx;

    if (hub->closing)
        return;
    if (rc == RC_OK) {
        clear(&hub->acks.sent);
        acks_flush(hub);
        hub_mark(hub, HUB_REFILL);
        return;
    }
    /* The acks may have been stored, but they are idempotent, so they are sent again. */
    for (size_t i = 0; i < hub->acks.sent.count; i++)
        push(&hub->acks.queued, hub->acks.sent.items[i]);
    hub->acks.sent.count = 0;
    hub_retry(hub);
}

/*
 * Fills the next batch. Acks of an unavailable shard leave the queue, so that they do not block
 * others.
 */
static void
fill_batch(struct hub *hub)
{
    struct acks *queued = &hub->acks.queued;
    size_t count = 0;

    while (count < queued->count && hub->acks.sent.count < ACKS_PER_CALL) {
        const struct store_ack *ack = &queued->items[count++];

        push(store_acks_wait(hub->store, ack) ? &hub->acks.waiting : &hub->acks.sent, *ack);
    }
    queued->count -= count;
    memmove(queued->items, queued->items + count, queued->count * sizeof(*queued->items));
}

void
acks_flush(struct hub *hub)
{
    struct acks *sent = &hub->acks.sent;

    delivery_reports_flush(hub);
    if (hub->acks.queued.count == 0 || sent->count > 0 || delivery_reports_wait(hub) ||
        !store_is_up(hub->store))
        return;
    fill_batch(hub);
    if (sent->count > 0 && store_ack(hub->store, sent->items, sent->count, on_acked, hub) != RC_OK)
        on_acked(hub, RC_AGAIN);
}

void
acks_resume(struct hub *hub)
{
    for (size_t i = 0; i < hub->acks.waiting.count; i++)
        push(&hub->acks.queued, hub->acks.waiting.items[i]);
    hub->acks.waiting.count = 0;
    acks_flush(hub);
}

void
acks_add(struct hub *hub, const char *user, const char *id, int shard)
{
    /* The notification stays pending: it is retried and acknowledged again. */
    if (hub->acks.queued.count + hub->acks.waiting.count >=
        (shard >= 0 ? ACKS_MAX : FOREIGN_ACKS_MAX)) {
        rejections_add(&hub->acks_rejected, user, "ack queue is full: acks dropped");
        return;
    }
    stats_time(hub->stats, TIME_ACKED, clock_wall_us() - trace_commit_ms(id) * 1000);
    push(&hub->acks.queued, (struct store_ack){memory_text(user, strlen(user)),
                                               memory_text(id, strlen(id)), (signed char)shard});
}

void
acks_free(struct hub *hub)
{
    clear(&hub->acks.queued);
    clear(&hub->acks.sent);
    clear(&hub->acks.waiting);
    free(hub->acks.waiting.items);
    free(hub->acks.queued.items);
    free(hub->acks.sent.items);
}
