/* acks.c: gathers acknowledgements while a batch of them is under way. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "hub/hub_private.h"
#include "store/trace.h"

#define ACKS_IN_ONE_CALL 2000

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

void
acks_refill(struct hub *hub)
{
    if (hub->refill_waits && hub->acks.count == 0 && hub->shown_count == 0)
        hub_refill(hub, false);
}

static void
on_acked(void *ctx, enum rc rc)
{
    struct hub *hub = ctx;

    if (hub->closing)
        return;
    if (rc == RC_OK) {
        clear(&hub->acks_sent);
        acks_flush(hub);
        acks_refill(hub);
        return;
    }
    /* Acks are idempotent: whether these arrived is unknown, so they go again. */
    for (size_t i = 0; i < hub->acks_sent.count; i++)
        push(&hub->acks, hub->acks_sent.items[i]);
    hub->acks_sent.count = 0;
    hub_retry(hub);
}

void
acks_flush(struct hub *hub)
{
    size_t count = hub->acks.count < ACKS_IN_ONE_CALL ? hub->acks.count : ACKS_IN_ONE_CALL;

    shown_flush(hub);
    if (count == 0 || hub->acks_sent.count > 0 || hub->shown_count > 0 || !store_is_up(hub->store))
        return;
    for (size_t i = 0; i < count; i++)
        push(&hub->acks_sent, hub->acks.items[i]);
    hub->acks.count -= count;
    memmove(hub->acks.items, hub->acks.items + count, hub->acks.count * sizeof(*hub->acks.items));
    if (store_ack(hub->store, hub->acks_sent.items, count, on_acked, hub) != RC_OK)
        on_acked(hub, RC_AGAIN);
}

void
acks_add(struct hub *hub, const char *user, const char *id, int shard)
{
    if (hub->acks.count >= HUB_ACKS_MAX) {
        /* Not lost: the message stays pending and comes again, and so will its ack. */
        log_warn("hub", "more than %d acks wait for the store, refusing one of user %s",
                 HUB_ACKS_MAX, user);
        return;
    }
    stats_time(hub->stats, TIME_ACKED, clock_wall_us() - trace_commit_ms(id) * 1000);
    push(&hub->acks, (struct store_ack){memory_text(user, strlen(user)),
                                        memory_text(id, strlen(id)), (signed char)shard});
}

static void
on_nacked(void *ctx, enum rc rc)
{
    struct hub *hub = ctx;

    hub->nack_calls--;
    if (rc != RC_OK && !hub->closing)
        log_info("hub", "a nack was not stored; its messages come again after the ack time-out");
}

enum rc
hub_nack(struct hub *hub, const char *user, const char *const *ids, size_t count, int64_t delay_ms)
{
    enum rc rc;

    shown_flush(hub);
    if (hub->nack_calls >= HUB_NACKS_MAX)
        return RC_AGAIN;
    rc = store_nack(hub->store, user, ids, count, delay_ms, on_nacked, hub);
    if (rc == RC_OK)
        hub->nack_calls++;
    return rc;
}

void
session_nack(struct session *session, const char *const *ids, size_t count, int64_t delay_ms)
{
    if (hub_nack(session->hub, session->user, ids, count, delay_ms) != RC_OK)
        log_info(session->name, "its nack finds no way to the store; its messages come again after "
                                "the ack time-out");
}

void
acks_free(struct hub *hub)
{
    clear(&hub->acks);
    clear(&hub->acks_sent);
    free(hub->acks.items);
    free(hub->acks_sent.items);
}
