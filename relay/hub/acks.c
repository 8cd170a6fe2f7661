/* acks.c: gathers acknowledgements while a batch of them is under way. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "hub/hub_private.h"
#include "store/trace.h"

#define ACKS_IN_ONE_CALL 2000

#define REFUSALS_EVERY_US (10 * INT64_C(1000000))

/* `what` is said of one who asked, and how many there were since it was said last. */
static void
refuse(struct refusals *refusals, const char *who, const char *what)
{
    int64_t now_us = clock_monotonic_us();

    refusals->count++;
    if (refusals->told_us != 0 && now_us - refusals->told_us < REFUSALS_EVERY_US)
        return;
    log_warnf("hub", "%llu %s; the last of user %s", (unsigned long long)refusals->count, what,
              who);
    *refusals = (struct refusals){.told_us = now_us};
}

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
    if (hub->refill_waits && hub->acks.count == 0 && !shown_waits(hub))
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
    if (count == 0 || hub->acks_sent.count > 0 || shown_waits(hub) || !store_is_up(hub->store))
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
    /* Not lost: the message stays pending and comes again, and so will its ack. */
    if (hub->acks.count >= (shard >= 0 ? HUB_ACKS_MAX : HUB_ACKS_STRANGE_MAX)) {
        refuse(&hub->acks_refused, user, "acks were not taken, as too many wait for the store");
        return;
    }
    stats_time(hub->stats, TIME_ACKED, clock_wall_us() - trace_commit_ms(id) * 1000);
    push(&hub->acks, (struct store_ack){memory_text(user, strlen(user)),
                                        memory_text(id, strlen(id)), (signed char)shard});
}

/* A call under way. */
struct nack {
    struct hub *hub;
    size_t count;
};

static void
on_nacked(void *ctx, enum rc rc)
{
    struct nack *nack = ctx;
    struct hub *hub = nack->hub;

    hub->nack_count -= nack->count;
    free(nack);
    if (rc != RC_OK && !hub->closing)
        log_infof("hub", "a nack was not stored; its messages come again after the ack time-out");
}

enum rc
hub_nack(struct hub *hub, const char *user, const char *const *ids, size_t count, int64_t delay_ms)
{
    struct nack *nack;
    enum rc rc;

    shown_flush(hub);
    if (hub->nack_count >= HUB_NACKS_MAX)
        return RC_AGAIN;
    nack = memory_new(sizeof(*nack));
    *nack = (struct nack){hub, count};
    rc = store_nack(hub->store, user, ids, count, delay_ms, on_nacked, nack);
    if (rc == RC_OK)
        hub->nack_count += count;
    else
        free(nack);
    return rc;
}

void
session_nack(struct session *session, const char *const *ids, size_t count, int64_t delay_ms)
{
    if (hub_nack(session->hub, session->client.user, ids, count, delay_ms) != RC_OK)
        refuse(&session->hub->nacks_refused, session->client.user,
               "nacks found no way to the store; their messages come again after the ack "
               "time-out");
}

void
acks_free(struct hub *hub)
{
    clear(&hub->acks);
    clear(&hub->acks_sent);
    free(hub->acks.items);
    free(hub->acks_sent.items);
}
