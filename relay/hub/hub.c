/*
 * hub.c: starts and ends sessions, with the shards that are followed for them; passes the events of
 * the store on to sessions; and in each loop iteration, the turn, offers new notifications to the
 * sessions of their audiences, does the pending work of sessions, and sends.
 */
#include "hub/hub_private.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/admin.h"
#include "wire/codes.h"
#include "wire/ws_frame.h"

#define REPEAT_S 1.0
#define MEASURE_EVERY_S (PRESSURE_EVERY_MS / 1000.0)
#define HEARTBEAT_S (STORE_PRESENCE_EVERY_MS / 1e3)
#define ACK_EVENTS_MAX 256    /* maximum ids in one `acked` */
#define CLOCK_SKEW_US 5000000 /* of store and relay */

/* ---- followed shards */

/* Longer than a client needs to reconnect or to poll again. */
#define UNFOLLOW_AFTER_US (30 * INT64_C(1000000))

/* Shards without a session are no longer followed after a delay. */
static void
followed_sweep(struct hub *hub)
{
    const int64_t now_us = clock_monotonic_us();

    for (unsigned shard = 1; shard < hub->shards; shard++) {
        const struct followed *followed = &hub->followed[shard];

        if (followed->sessions == 0 && followed->left_us != 0 &&
            now_us - followed->left_us >= UNFOLLOW_AFTER_US) {
            hub->followed[shard].left_us = 0;
            reader_unfollow(hub->reader, shard);
        }
    }
}

/* ---- sessions */

struct session *
hub_attach(struct hub *hub, const struct session_request *request,
           const struct session_transport *transport, void *socket)
{
    struct session *session = session_new(hub, request, transport, socket);

    if (request->topics.count > 0 && session_add_topics(session, &request->topics) != RC_OK)
        log_error("hub", "topics exceed the limit: sending all topics", LOG_SESSION(session));
    if (request->wants_ends)
        ends_begin(session);
    DL_APPEND(hub->sessions, session);
    hub->followed[session->client.own_shard].sessions++;
    if (hub->reader != NULL)
        reader_follow(hub->reader, session->client.own_shard);
    if (hub_sessions_of_user(hub, session->client.user) == NULL)
        presence_arrive(hub, session->client.user);
    session_begin_groups(session, request);
    session_mark(session, READY_ADVANCE);
    return session;
}

void
session_detach(struct session *session)
{
    struct hub *hub = session->hub;
    struct followed *followed;

    presence_report_arrivals(hub); /* may contain the session's user */
    session_set_state(session, SESSION_CLOSED);
    session_leave_resume(session);
    barriers_leave(session);
    ends_leave(session);
    lists_free(session);
    groups_clear(&session->groups, &hub->audiences);
    if (hub_sessions_of_user(hub, session->client.user) == NULL)
        presence_leave(hub, session->client.user);
    DL_DELETE(hub->sessions, session);
    followed = &hub->followed[session->client.own_shard];
    if (--followed->sessions == 0)
        followed->left_us = clock_monotonic_us();
    outbound_clear(&session->outbound, &hub->queued_bytes);
    topics_free(session->topics);
    session->topics = NULL;
    session_free_if_done(session);
}

/* ---- new notifications */

/* Sends a retry to users with a pending ack who still belong to the audience. */
static void
offer_retry(struct hub *hub, struct notification *notification)
{
    struct bytes users = notification->retry_users;
    struct bytes user;
    struct audience *audience;
    struct membership *member;

    while (frame_next_target(&users, &user) == RC_OK) {
        audience = hub_find_user(hub, user);
        if (audience == NULL)
            continue;
        DL_FOREACH (audience->members, member) {
            if (session_is_recipient(member->session, &notification->frame))
                session_offer_retry(member->session, notification);
            else
                /* sent if the user joins again */
                session_mark_retry(member->session, notification);
        }
    }
}

static void
offer_one(struct hub *hub, struct session *session, struct notification *notification,
          struct fanout_batch *batch)
{
    if (batch != NULL)
        session_offer_batch(hub, session, batch);
    else
        session_offer(session, notification);
}

/* `batch` contains only this notification, or several with the same recipients. */
static void
offer_to(struct hub *hub, const char *key, size_t len, struct notification *notification,
         struct fanout_batch *batch)
{
    struct audience *audience = audience_find(hub->audiences, key, len);
    struct membership *member;

    if (audience == NULL)
        return;
    DL_FOREACH (audience->members, member) {
        if (member->next != NULL) { /* there may be many members, far apart in memory */
            __builtin_prefetch(member->next->next);
            __builtin_prefetch(&member->next->session->outbound.batch);
        }
        offer_one(hub, member->session, notification, batch);
    }
}

/*
 * Offers the notification to members of all parts of a target. A session is compared once, even if
 * it belongs to the groups of many targets.
 */
static void
offer_to_composite(struct hub *hub, struct notification *notification, struct fanout_batch *batch)
{
    const struct frame_notification *frame = &notification->frame.as.notification;
    struct audience_match match;
    struct membership *member;

    audience_match_begin(&match, hub->audiences, frame->audience, frame->targets,
                         frame->target_count);
    for (size_t i = 0; i < match.candidate_count; i++) {
        DL_FOREACH (match.candidates[i]->members, member) {
            struct session_groups *groups = &member->session->groups;

            if (groups->compared == match.number)
                continue;
            groups->compared = match.number;
            if (audience_match_has(&match, groups->memberships))
                offer_one(hub, member->session, notification, batch);
        }
    }
    audience_match_end(&match);
}

static void
offer(struct hub *hub, struct notification *notification, struct fanout_batch *batch)
{
    const struct frame_notification *frame = &notification->frame.as.notification;
    struct bytes targets = frame->targets;
    struct bytes target;
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    if (audience_is_all(frame->audience)) {
        offer_to(hub, AUDIENCE_ALL, sizeof(AUDIENCE_ALL) - 1, notification, batch);
        return;
    }
    if (audience_is_composite(frame->audience)) {
        offer_to_composite(hub, notification, batch);
        return;
    }
    while (frame_next_target(&targets, &target) == RC_OK) {
        if (audience_key(frame->audience, target, key, &len))
            offer_to(hub, key, len, notification, batch);
    }
}

/* Offers the first notifications, up to the end of a batch. Returns their number. */
static unsigned
offer_some(struct hub *hub, struct notification **notifications, unsigned count)
{
    unsigned span = fanout_batch_span(notifications, shed_count_kept(hub, notifications, count));
    struct fanout_batch *batch = span > 0 ? fanout_batch_new(notifications, span) : NULL;

    if (notifications[0]->is_retry)
        offer_retry(hub, notifications[0]);
    else
        offer(hub, notifications[0], batch);
    merged_batch_end(&hub->merged);
    for (unsigned own = 0; hub->ends.is_used && own < hub->shards; own++)
        merged_batch_end(&hub->ends.shared[own].merged_messages);
    fanout_batch_unref(batch);
    return span > 0 ? span : 1;
}

/* ---- the turn */

#define SENDS_PER_TURN 256

/* The loop ends, because replies to these requests arrive in later turns. */
static void
do_pending_work(struct hub *hub)
{
    struct session *session;
    unsigned work, reasons;

    do {
        work = hub->closing ? 0 : hub->ready.work;
        hub->ready.work = 0;
        if ((work & HUB_FLUSH) != 0) {
            pair_requests_apply(hub);
            acks_flush(hub);
        }
        if ((work & HUB_ENDS) != 0)
            ends_advance(hub);
        if ((work & HUB_BARRIERS) != 0)
            barriers_advance(hub);
        if ((work & HUB_REFILL) != 0 && hub->acks.queued.count == 0)
            refills_wake(hub);
        while ((session = ready_list_pop_step(hub, &reasons)) != NULL) {
            if (session->state == SESSION_CLOSED) {
                session_free_if_done(session);
                continue;
            }
            if ((reasons & READY_REFILL) != 0 && session_refill(session))
                reasons |= READY_ADVANCE;
            if ((reasons & READY_ADVANCE) != 0)
                session_advance(session);
        }
    } while (hub->ready.work != 0);
}

void
hub_fan_out(struct hub *hub)
{
    unsigned at = 0;

    if (hub->unoffered_count == 0)
        return;
    do_pending_work(hub);
    while (at < hub->unoffered_count) {
        unsigned done = offer_some(hub, hub->unoffered + at, hub->unoffered_count - at);

        for (unsigned end = at + done; at < end; at++) {
            replay_buffer_add(&hub->replay_buffer, hub->unoffered[at]);
            ends_offered(hub, hub->unoffered[at]);
            notification_unref(hub->unoffered[at]);
        }
    }
    hub->unoffered_count = 0;
}

bool
hub_send_some(struct hub *hub, unsigned max)
{
    struct session *session;

    do_pending_work(hub);
    hub->sending_us = clock_wall_us();
    do {
        while (max > 0 && (session = ready_list_pop(hub)) != NULL) {
            max--;
            /* Prefetches the next two sessions: there are many, far apart in memory. */
            if (hub->ready.first != NULL) {
                __builtin_prefetch(hub->ready.first->socket.handle);
                if (hub->ready.first->ready_next != NULL)
                    __builtin_prefetch(&hub->ready.first->ready_next->outbound.batch);
            }
            if (session->state == SESSION_CLOSED)
                session_free_if_done(session);
            else
                session_send(hub, session);
        }
        do_pending_work(hub);
    } while (max > 0 && hub->ready.first != NULL);
    return hub->ready.first != NULL;
}

static void
on_more(struct ev_loop *loop, ev_idle *idle, int events)
{
    (void)loop; /* keeps the loop awake; on_turn does the work */
    (void)idle;
    (void)events;
}

/* Runs before the loop sleeps. Limited, so that acks and new connections are served in between. */
static void
on_turn(struct ev_loop *loop, ev_prepare *prepare, int events)
{
    struct hub *hub = prepare->data;

    (void)events;
    hub_fan_out(hub);
    if (hub->barriers.in_session_count > 0)
        barriers_advance(hub);
    hub->list_frames = 0;
    if (hub_send_some(hub, SENDS_PER_TURN))
        ev_idle_start(loop, &hub->more);
    else
        ev_idle_stop(loop, &hub->more);
}

void
turn_start(struct hub *hub)
{
    ev_idle_init(&hub->more, on_more);
    ev_prepare_init(&hub->turn, on_turn);
    hub->turn.data = hub;
    ev_prepare_start(hub->loop, &hub->turn);
}

void
turn_stop(struct hub *hub)
{
    ev_prepare_stop(hub->loop, &hub->turn);
    ev_idle_stop(hub->loop, &hub->more);
}

/* ---- events of the store */

static void
on_entry(void *ctx, const struct entry *entry)
{
    struct hub *hub = ctx;
    const struct frame_notification *frame = &entry->frame.as.notification;
    const struct entry_id *heads = shed_reported_heads(hub);
    struct entry_id own_heads[STORE_SHARDS_MAX];

    if (!hub->has_head || !entry_id_less(hub->newest[entry->shard], entry->id))
        return;
    hub->newest[entry->shard] = entry->id;
    if (entry->is_early)
        hub_disorder_ends(hub, entry->frame.commit_lsn);
    store_record_entry(hub->store, entry->shard, entry->id);
    /* The transaction of a retry is old, and the server it ran on may no longer exist. */
    if (!entry->is_retry)
        recent_xids_add(&hub->recent_xids, &(struct recent_xid){frame->xid, entry->id,
                                                                frame->commit_us, entry->shard});
    /* Only notifications of the shared stream report all shards; others have a single recipient. */
    if (entry->shard != 0) {
        cursor_to_heads(cursor_from_heads(heads, entry->shard), entry->shard, own_heads,
                        hub->shards);
        heads = own_heads;
    }
    hub->unoffered[hub->unoffered_count++] = hub_notification_new(hub, entry, heads);
    stats_add(hub->stats, STAT_HUB_NOTIFICATIONS, 1);
    if (hub->unoffered_count == HUB_UNOFFERED_MAX)
        hub_fan_out(hub);
}

/* An id of a history that shares nothing with the present one means that everything is unread. */
static void
translate_id(const struct hub *hub, unsigned shard, struct entry_id *id)
{
    if (store_translate_id(hub->store, shard, id) != RC_OK)
        *id = (struct entry_id){0, 0};
}

/*
 * The end of the former history was lost, or was added to a former primary after a failover. It
 * does not count: sessions continue where both histories are equal, and read the rest from the
 * store.
 */
static void
on_history(void *ctx, unsigned shard, uint64_t newest_lsn)
{
    struct hub *hub = ctx;
    struct session *session, *next;

    hub_fan_out(hub);
    hub->covered[shard] = (struct reader_covered){.lsn = 0};
    ends_begin_history(hub, newest_lsn);
    translate_id(hub, shard, &hub->newest[shard]);
    translate_id(hub, shard, &hub->shed.hold[shard]);
    replay_buffer_reset(&hub->replay_buffer, hub->newest);
    DL_FOREACH (hub->sessions, session) {
        if (shard == 0 || session->client.own_shard == shard)
            session_translate_ids(session, shard, translate_id);
    }
    DL_FOREACH_SAFE (hub->sessions, session, next)
        session_advance(session); /* pages of this server count now (page_budget.c) */
}

/* Sessions read from the store up to the entries that remain, and announce the loss. */
static void
on_trimmed(void *ctx, unsigned shard, struct entry_id reached)
{
    struct hub *hub = ctx;
    struct session *session, *next;

    hub_fan_out(hub);
    DL_FOREACH (hub->sessions, session)
        session_pause(session);
    hub->covered[shard] = (struct reader_covered){.lsn = 0};
    hub->newest[shard] = reached;
    replay_buffer_reset(&hub->replay_buffer, hub->newest);
    DL_FOREACH_SAFE (hub->sessions, session, next)
        session_advance(session);
}

static void
on_member(void *ctx, const struct reader_member *member)
{
    struct hub *hub = ctx;
    char group_key[AUDIENCE_KEY_MAX];
    size_t group_len;
    struct audience *user;
    struct membership *of_user, *next;

    hub_fan_out(hub);
    /*
     * Required even without a session of the user: a later session has the membership, and receives
     * no `reload`.
     */
    recent_xids_add(&hub->recent_xids,
                    &(struct recent_xid){.xid = member->xid, .commit_us = clock_wall_us()});
    user = hub_find_user(hub, member->user);
    if (user == NULL || !audience_key(member->audience, member->target, group_key, &group_len))
        return;
    DL_FOREACH_SAFE (user->members, of_user, next) {
        session_change_group(of_user->session, group_key, group_len, member->added);
        lists_reload(of_user->session, &member->audience, member->xid != 0);
    }
}

static void
on_reload(void *ctx, const struct reader_reload *reload)
{
    struct hub *hub = ctx;
    struct list_name name;
    struct session_lists *lists;

    hub_fan_out(hub);
    if (reload != NULL) {
        name = (struct list_name){reload->source, reload->rule};
        recent_xids_add(&hub->recent_xids,
                        &(struct recent_xid){.xid = reload->xid, .commit_us = reload->added_us});
    }
    DL_FOREACH (hub->lists, lists)
        lists_reload_rule(lists->session, reload != NULL ? &name : NULL,
                          reload != NULL && reload->xid != 0);
}

/* Removes the pairs of the first user from *pairs, up to the limit. Returns their number. */
static size_t
pop_ack_events(struct bytes *pairs, struct bytes *ret_user,
               char ids[ACK_EVENTS_MAX][FRAME_UUID_TEXT + 1])
{
    struct bytes rest = *pairs, user, id;
    size_t count = 0;

    while (count < ACK_EVENTS_MAX && frame_next_target(&rest, &user) == RC_OK &&
           frame_next_target(&rest, &id) == RC_OK && id.len == FRAME_UUID_TEXT) {
        if (count == 0)
            *ret_user = user;
        else if (!bytes_equal(user, *ret_user))
            break;
        snprintf(ids[count++], sizeof(ids[0]), "%.*s", (int)id.len, (const char *)id.at);
        *pairs = rest;
    }
    return count;
}

/* `end` handles pairs of one user. */
static void
end_pairs(struct hub *hub, struct bytes pairs,
          void (*end)(struct hub *hub, const char *user, const char *const *ids, size_t count))
{
    struct bytes user = {NULL, 0};
    char name[SESSION_USER_MAX + 1], texts[ACK_EVENTS_MAX][FRAME_UUID_TEXT + 1];
    const char *ids[ACK_EVENTS_MAX];
    size_t count;

    hub_fan_out(hub);
    for (size_t i = 0; i < ACK_EVENTS_MAX; i++)
        ids[i] = texts[i];
    while ((count = pop_ack_events(&pairs, &user, texts)) > 0) {
        if (user.len >= sizeof(name))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)user.len, (const char *)user.at);
        end(hub, name, ids, count);
    }
}

static void
on_acked_pairs(void *ctx, struct bytes pairs)
{
    end_pairs(ctx, pairs, hub_end_acked);
}

static void
on_gone_pairs(void *ctx, struct bytes pairs)
{
    end_pairs(ctx, pairs, hub_end_gone);
}

static void
on_cutoff(void *ctx, const struct cutoff *cutoff)
{
    struct hub *hub = ctx;

    if (hub->cutoffs != NULL)
        hub->cutoffs->on_cutoff(hub->cutoffs->ctx, cutoff);
}

/*
 * Ends the sessions of the user with this hash (audit_hash). No cut-off is stored: a later session
 * of the user does not end.
 */
static void
on_forgotten(void *ctx, struct bytes hash, int64_t added_us)
{
    const int64_t since_us = added_us > 0 ? clock_wall_us() - added_us - CLOCK_SKEW_US : 0;
    const int64_t now_us = clock_monotonic_us();
    struct hub *hub = ctx;
    struct session *session, *next;
    char own[AUDIT_HASH_TEXT + 1];

    hub_fan_out(hub);
    DL_FOREACH_SAFE (hub->sessions, session, next) {
        audit_hash(session->client.user, own);
        if (bytes_equal_text(hash, own) && now_us - session->client.attached_us >= since_us)
            session->socket.transport->close(session->socket.handle, GATE_CLOSE_BANNED,
                                             "user removed", -1);
    }
}

static void
miss_cutoffs(struct hub *hub)
{
    if (hub->cutoffs != NULL)
        hub->cutoffs->on_missed(hub->cutoffs->ctx);
}

static void
on_reader_resumed(void *ctx)
{
    struct hub *hub = ctx;
    struct session *session, *next;

    hub_fan_out(hub);
    backfill_start(hub);
    miss_cutoffs(hub);
    DL_FOREACH_SAFE (hub->sessions, session, next) {
        session_pause(session); /* new notifications wait for the new memberships */
        session_reload_groups(session);
        session_reconcile(session);
    }
}

/* Adds the transactions of notifications that this relay has not read. */
static void
add_earlier_xids(struct hub *hub, const struct transactions *transactions)
{
    for (unsigned i = 0; i < transactions->count; i++)
        recent_xids_add_earlier(&hub->recent_xids, transactions->items[i].xid,
                                transactions->items[i].commit_us);
}

/*
 * The shard's sessions read earlier notifications from the store. Cursors of later notifications,
 * and of a gap after load shedding, are not before the newest stream entry: nothing of the shard
 * was dropped.
 */
static void
on_followed(void *ctx, const struct reader_followed *followed)
{
    struct hub *hub = ctx;
    const unsigned shard = followed->shard;
    struct session *session;

    hub_fan_out(hub);
    if (entry_id_less(hub->newest[shard], followed->newest))
        hub->newest[shard] = followed->newest;
    if (followed->early_lsn != 0)
        hub_disorder_ends(hub, followed->early_lsn);
    hub->shed.hold[shard] = hub->newest[shard];
    replay_buffer_begin(&hub->replay_buffer, shard, hub->newest[shard]);
    add_earlier_xids(hub, &followed->notified);
    ends_followed(hub, shard);
    if (hub->barriers.count > 0)
        hub_mark(hub, HUB_BARRIERS);
    DL_FOREACH (hub->sessions, session) {
        if (session->client.own_shard == shard)
            session_mark(session, READY_ADVANCE);
    }
}

static void
on_covered(void *ctx, unsigned shard, const struct reader_covered *covered)
{
    struct hub *hub = ctx;

    hub_fan_out(hub);
    hub->covered[shard] = *covered;
    hub_settle_ends(hub, shard);
    if (hub->barriers.count > 0)
        hub_mark(hub, HUB_BARRIERS);
}

static void
set_epoch(struct hub *hub)
{
    const struct entry_id *head = store_newest(hub->store);
    struct session *session, *next;

    hub_fan_out(hub);
    if (hub->has_head)
        log_error("hub", "store was emptied or its progress reset: clients receive a gap",
                  LOG_TEXT("old_epoch", hub->epoch), LOG_TEXT("epoch", store_epoch(hub->store)));
    snprintf(hub->epoch, sizeof(hub->epoch), "%s", store_epoch(hub->store));
    replay_buffer_reset(&hub->replay_buffer, head);
    /* No snapshot contains an undone transaction. The store returns the others below. */
    if (hub->undone_count != store_undone_count(hub->store))
        recent_xids_free(&hub->recent_xids);
    hub->undone_count = store_undone_count(hub->store);
    recent_xids_clear_ids(&hub->recent_xids);
    for (unsigned shard = 0; shard < hub->shards; shard++)
        add_earlier_xids(hub, store_newest_transactions(hub->store, shard));
    memcpy(hub->newest, head, hub->shards * sizeof(*head));
    memset(hub->covered, 0, sizeof(hub->covered));
    ends_change_epoch(hub);
    shed_reset(hub);
    if (hub->has_head) {
        DL_FOREACH_SAFE (hub->sessions, session, next)
            session_change_epoch(session);
    }
    hub->has_head = true;
    reader_seek(hub->reader, head);
}

static void
advance_all(struct hub *hub)
{
    struct session *session, *next;

    DL_FOREACH_SAFE (hub->sessions, session, next)
        session_advance(session);
}

static void
on_store_up(void *ctx)
{
    struct hub *hub = ctx;

    miss_cutoffs(hub); /* first: they are read before what sessions request */
    if (!hub->has_head || strcmp(hub->epoch, store_epoch(hub->store)) != 0)
        set_epoch(hub);
    reader_resume(hub->reader);
    backfill_start(hub);
    presence_announce(hub); /* before retries become due */
    acks_resume(hub);
    advance_all(hub);
}

static void
on_repeat(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct hub *hub = timer->data;

    (void)events;
    ev_timer_stop(loop, timer);
    acks_flush(hub);
    advance_all(hub);
}

static void
on_measure(struct ev_loop *loop, ev_timer *timer, int events)
{
    const int64_t now_us = clock_monotonic_us();

    (void)events;
    /* A late timer would fire twice, and the second time measure no delay. */
    ev_timer_again(loop, timer);
    hub_fan_out(timer->data);
    shed_measure(timer->data, now_us);
}

static void
on_heartbeat(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    presence_heartbeat(timer->data);
    followed_sweep(timer->data);
    unserved_sweep(timer->data);
}

struct hub *
hub_open(struct ev_loop *loop, const struct config *config, struct store *store, struct rows *rows,
         struct stats *stats)
{
    struct hub *hub = memory_new(sizeof(*hub));
    const struct reader_events events = {.on_entry = on_entry,
                                         .on_member = on_member,
                                         .on_reload = on_reload,
                                         .on_cutoff = on_cutoff,
                                         .on_forgotten = on_forgotten,
                                         .on_acked_pairs = on_acked_pairs,
                                         .on_gone_pairs = on_gone_pairs,
                                         .on_history = on_history,
                                         .on_trimmed = on_trimmed,
                                         .on_resumed = on_reader_resumed,
                                         .on_followed = on_followed,
                                         .on_covered = on_covered,
                                         .ctx = hub};

    hub->loop = loop;
    hub->config = config;
    hub->store = store;
    hub->rows = rows;
    hub->shards = store_shards(store);
    hub->stats = stats;
    hub->scratch = memory_new(WS_TEXT_HEAD_MAX + SESSION_ACKED_MAX);
    ev_init(&hub->repeat, on_repeat);
    hub->repeat.repeat = REPEAT_S;
    hub->repeat.data = hub;
    turn_start(hub);
    hub->reader = reader_open(loop, config, store, stats, &events);
    if (hub->reader == NULL) {
        turn_stop(hub);
        free(hub->scratch);
        free(hub);
        return NULL;
    }
    if (getrandom(&hub->conn_prefix, sizeof(hub->conn_prefix), GRND_NONBLOCK) < 0)
        hub->conn_prefix = (uint32_t)clock_wall_us(); /* early in the boot */
    replay_buffer_open(&hub->replay_buffer, hub->shards);
    hub->store_listener = (struct store_listener){.on_up = on_store_up, .ctx = hub};
    store_listen(store, &hub->store_listener);
    ev_timer_init(&hub->heartbeat, on_heartbeat, HEARTBEAT_S, HEARTBEAT_S);
    hub->heartbeat.data = hub;
    ev_timer_start(loop, &hub->heartbeat);
    hub->shed.measured_us = clock_monotonic_us();
    ev_timer_init(&hub->shed.measure, on_measure, MEASURE_EVERY_S, MEASURE_EVERY_S);
    hub->shed.measure.data = hub;
    ev_timer_start(loop, &hub->shed.measure);
    presence_open(hub);
    pages_open(hub);
    refills_open(hub);
    barriers_open(hub);
    return hub;
}

struct store *
hub_store(const struct hub *hub)
{
    return hub->store;
}

void
hub_set_cutoffs(struct hub *hub, const struct hub_cutoffs *cutoffs)
{
    hub->cutoffs = cutoffs;
}

size_t *
hub_waiting_bytes(struct hub *hub)
{
    return &hub->queued_bytes;
}

void
hub_close(struct hub *hub)
{
    size_t acks;

    if (hub == NULL)
        return;
    hub->closing = true;
    reader_close(hub->reader);
    hub->reader = NULL;
    ev_timer_stop(hub->loop, &hub->repeat);
    ev_timer_stop(hub->loop, &hub->heartbeat);
    ev_timer_stop(hub->loop, &hub->shed.measure);
    pages_stop(hub);
    refills_stop(hub);
    barriers_stop(hub);
    turn_stop(hub);
    presence_stop(hub);
    acks = hub->acks.queued.count + hub->acks.sent.count + hub->acks.waiting.count;
    if (acks > 0)
        log_info("hub", "could not store acks: their notifications remain pending",
                 LOG_UINT("count", acks));
}

void
hub_free(struct hub *hub)
{
    if (hub == NULL)
        return;
    (void)hub_send_some(hub, UINT_MAX); /* frees the closed sessions */
    replay_buffer_close(&hub->replay_buffer);
    recent_xids_free(&hub->recent_xids);
    ends_close(hub);
    while (hub->unoffered_count > 0)
        notification_unref(hub->unoffered[--hub->unoffered_count]);
    acks_free(hub);
    pages_close(hub);
    free(hub->scratch);
    free(hub);
}
