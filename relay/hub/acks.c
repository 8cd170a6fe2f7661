/*
 * acks.c: acknowledgements and negative acknowledgements: the store learns them after the delivery
 * reports (pair_requests.c), and they have effects on the sessions of a user.
 */
#include "hub/hub_private.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "wire/frame.h"

/* ---- effects on the sessions of a user */

/*
 * The user acknowledged a notification in the session `by` (NULL: elsewhere). Returns its shard, or
 * -1 if it was not in flight or the id is invalid.
 */
static int
user_sessions_end_inflight(struct membership *members, const char *text, const struct session *by)
{
    struct membership *member;
    unsigned char id[16];
    int shard = -1;

    if (!frame_id_parse(text, strlen(text), id))
        return -1;
    DL_FOREACH (members, member) {
        int known = session_inflight_end(member->session, id,
                                         member->session == by ? INFLIGHT_ENDED : INFLIGHT_ACKED);

        shard = known >= 0 ? known : shard;
    }
    return shard;
}

static void
user_sessions_refill(struct membership *members)
{
    struct membership *member;

    DL_FOREACH (members, member)
        session_mark(member->session, READY_REFILL);
}

/* ---- acknowledgements */

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

/*
 * `shard` is the shard of the notification; -1: unknown. If the queue is full, the ack is dropped:
 * the notification stays pending, and the user receives it again, by a retry or on a reconnect.
 */
static void
add_ack(struct hub *hub, const char *user, const char *id, int shard)
{
    if (hub->acks.queued.count + hub->acks.waiting.count >=
        (shard >= 0 ? ACKS_MAX : FOREIGN_ACKS_MAX)) {
        hub_log_rejected(&hub->acks_rejected, user, "ack queue is full: acks dropped");
        return;
    }
    stats_time(hub->stats, TIME_ACKED, clock_wall_us() - frame_uuid_ms(id) * 1000);
    push(&hub->acks.queued, (struct store_ack){memory_text(user, strlen(user)),
                                               memory_text(id, strlen(id)), (signed char)shard});
}

static void
queue_again(struct hub *hub, struct acks *acks)
{
    for (size_t i = 0; i < acks->count; i++)
        push(&hub->acks.queued, acks->items[i]);
    acks->count = 0;
}

/*
 * Sessions may have queued these notifications after another session acknowledged them, while the
 * acks were still queued: then the replies to their delivery reports were that they are pending.
 */
static void
end_stored_acks(struct hub *hub, const struct acks *acks)
{
    struct membership *members = NULL;
    unsigned char id[16];

    for (size_t i = 0; i < acks->count; i++) {
        const struct store_ack *ack = &acks->items[i];

        if (i == 0 || strcmp(ack->user, acks->items[i - 1].user) != 0)
            members = hub_sessions_of_user(hub, ack->user);
        if (members != NULL && frame_id_parse(ack->id, strlen(ack->id), id))
            user_sessions_pair_ended(members, id, INFLIGHT_ACKED);
    }
}

static void
on_acked(void *ctx, enum rc rc)
{
    struct hub *hub = ctx;

    if (hub->closing)
        return;
    if (rc == RC_OK) {
        end_stored_acks(hub, &hub->acks.sent);
        clear(&hub->acks.sent);
        acks_flush(hub);
        hub_mark(hub, HUB_REFILL);
        return;
    }
    /* The acks may have been stored, but they are idempotent, so they are sent again. */
    queue_again(hub, &hub->acks.sent);
    hub_repeat_later(hub);
}

void
acks_flush(struct hub *hub)
{
    struct acks *queued = &hub->acks.queued, *sent = &hub->acks.sent;
    size_t count = 0;

    pair_requests_flush(hub);
    if (queued->count == 0 || sent->count > 0 || pair_requests_wait(hub) ||
        !store_replies(hub->store))
        return;
    /* Acks of an unavailable shard leave the queue, so that they do not block others. */
    while (count < queued->count && sent->count < ACKS_PER_CALL) {
        const struct store_ack *ack = &queued->items[count++];

        push(store_acks_wait(hub->store, ack) ? &hub->acks.waiting : sent, *ack);
    }
    queued->count -= count;
    memmove(queued->items, queued->items + count, queued->count * sizeof(*queued->items));
    if (sent->count > 0 && store_ack(hub->store, sent->items, sent->count, on_acked, hub) != RC_OK)
        on_acked(hub, RC_AGAIN);
}

void
acks_resume(struct hub *hub)
{
    queue_again(hub, &hub->acks.waiting);
    acks_flush(hub);
}

void
acks_free(struct hub *hub)
{
    pair_requests_free(hub);
    clear(&hub->acks.queued);
    clear(&hub->acks.sent);
    clear(&hub->acks.waiting);
    free(hub->acks.waiting.items);
    free(hub->acks.queued.items);
    free(hub->acks.sent.items);
}

/*
 * A session that has still to receive one of them gets `acked` again behind it. `except` may be
 * NULL.
 */
static void
send_acked(struct membership *members, const struct session *except, const char *const *ids,
           size_t count)
{
    struct membership *member;

    DL_FOREACH (members, member) {
        if (member->session != except)
            session_send_acked(member->session, ids, count);
    }
}

void
hub_end_acked(struct hub *hub, const char *user, const char *const *ids, size_t count)
{
    struct membership *members = hub_sessions_of_user(hub, user);

    for (size_t i = 0; i < count; i++)
        (void)user_sessions_end_inflight(members, ids[i], NULL);
    send_acked(members, NULL, ids, count);
    user_sessions_refill(members);
}

void
hub_end_gone(struct hub *hub, const char *user, const char *const *ids, size_t count)
{
    struct membership *members = hub_sessions_of_user(hub, user), *member;
    unsigned char id[16];

    for (size_t i = 0; i < count; i++) {
        if (!frame_id_parse(ids[i], strlen(ids[i]), id))
            continue;
        DL_FOREACH (members, member)
            session_inflight_end_written(member->session, id);
    }
    user_sessions_refill(members);
}

static int
compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the ids and removes duplicates. Returns the number of ret_ids. */
static size_t
sort_ids(const char *const *ids, size_t count, const char **ret_ids)
{
    bool is_sorted = true;
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        ret_ids[i] = ids[i];
        is_sorted = is_sorted && (i == 0 || strcmp(ids[i - 1], ids[i]) < 0);
    }
    if (is_sorted) /* the typical case: acknowledged in commit order */
        return count;
    qsort(ret_ids, count, sizeof(*ret_ids), compare_ids);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || strcmp(ret_ids[kept - 1], ret_ids[i]) != 0)
            ret_ids[kept++] = ret_ids[i];
    }
    return kept;
}

static void
apply_acks(struct hub *hub, const char *user, const struct session *session, const char *const *ids,
           size_t count)
{
    const char *sorted[SESSION_ACKS_MAX];
    struct membership *members = hub_sessions_of_user(hub, user);

    count = sort_ids(ids, count, sorted);
    for (size_t i = 0; i < count; i++)
        add_ack(hub, user, sorted[i], user_sessions_end_inflight(members, sorted[i], session));
    acks_flush(hub);
    send_acked(members, session, sorted, count);
    user_sessions_refill(members);
}

void
session_ack(struct session *session, const char *const *ids, size_t count)
{
    apply_acks(session->hub, session->client.user, session, ids, count);
}

void
hub_ack(struct hub *hub, const char *user, const char *const *ids, size_t count)
{
    apply_acks(hub, user, NULL, ids, count);
}

/* ---- negative acknowledgements */

#define NACKS_MAX 8192 /* maximum pending ids */

/* A call in flight. */
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
    if (rc != RC_OK && !hub->closing)
        log_info("hub", "could not store nacks: notifications are retried after the ack timeout",
                 LOG_UINT("count", nack->count));
    free(nack);
}

enum rc
hub_nack(struct hub *hub, const char *user, const char *const *ids, size_t count, int64_t delay_ms)
{
    struct nack *nack;
    enum rc rc;

    pair_requests_flush(hub);
    if (hub->nack_count >= NACKS_MAX)
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
        hub_log_rejected(&session->hub->nacks_rejected, session->client.user,
                         "nacks dropped: store is unavailable, or too many are pending");
}
