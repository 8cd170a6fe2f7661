/* hub.c: hands each new notification to the sessions of its audience. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "base/memory.h"
#include "hub/hub_private.h"
#include "wire/ws_frame.h"

#define RETRY_S 1.0
#define BEAT_S 2.0 /* due.lua takes a relay for gone after 10 s */
#define SENDS_A_TURN 256
#define SETTLED_MAX 256 /* ids in one `acked` */

struct audience *
hub_find_user(struct hub *hub, struct bytes user)
{
    const struct bytes kind = {(const unsigned char *)"USER", 4};
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    return audience_key(kind, user, key, &len) ? audience_find(hub->audiences, key, len) : NULL;
}

/* A retry is for those who lack the ack, as far as they are still of the audience. */
static void
publish_again(struct hub *hub, struct note *note)
{
    struct bytes users = note->retry_users;
    struct bytes user;
    struct audience *audience;
    struct membership *member;

    while (frame_next_target(&users, &user) == RC_OK) {
        audience = hub_find_user(hub, user);
        if (audience == NULL)
            continue;
        DL_FOREACH (audience->members, member) {
            if (session_is_for(member->session, &note->frame))
                session_offer_again(member->session, note);
            else
                window_miss(member->session, note); /* may be shown once it is of it again */
        }
    }
}

static void
offer_one(struct hub *hub, struct session *session, struct note *note, struct run *run)
{
    if (run != NULL)
        session_offer_run(hub, session, run);
    else
        session_offer(session, note);
}

/* `run` holds just that note, or several with the same readers. */
static void
offer_to(struct hub *hub, const char *key, size_t len, struct note *note, struct run *run)
{
    struct audience *audience = audience_find(hub->audiences, key, len);
    struct membership *member;

    if (audience == NULL)
        return;
    DL_FOREACH (audience->members, member) {
        if (member->next != NULL) { /* they are many, and far apart in memory */
            __builtin_prefetch(member->next->next);
            __builtin_prefetch(&member->next->session->outbound.run);
        }
        offer_one(hub, member->session, note, run);
    }
}

/* To those of the smallest part who belong to the others too. */
static void
offer_to_parts(struct hub *hub, struct bytes target, struct note *note, struct run *run)
{
    const struct bytes kind = note->frame.as.note.audience;
    struct audience_parts parts = {.count = 0};
    struct audience *smallest;
    struct membership *member;

    smallest =
        audience_split(kind, target, &parts) ? audience_smallest(hub->audiences, &parts) : NULL;
    if (smallest == NULL)
        return;
    DL_FOREACH (smallest->members, member) {
        if (audience_has_all(member->session->groups.memberships, &parts))
            offer_one(hub, member->session, note, run);
    }
}

static void
offer(struct hub *hub, struct note *note, struct run *run)
{
    const struct frame_note *frame = &note->frame.as.note;
    struct bytes targets = frame->targets;
    struct bytes target;
    char key[AUDIENCE_KEY_MAX];
    size_t len;

    if (audience_is_all(frame->audience)) {
        offer_to(hub, AUDIENCE_ALL, sizeof(AUDIENCE_ALL) - 1, note, run);
        return;
    }
    while (frame_next_target(&targets, &target) == RC_OK) {
        if (audience_is_composite(frame->audience))
            offer_to_parts(hub, target, note, run);
        else if (audience_key(frame->audience, target, key, &len))
            offer_to(hub, key, len, note, run);
    }
}

/* Offers the first notes of `notes` that go together; how many these are. */
static unsigned
publish_some(struct hub *hub, struct note **notes, unsigned count)
{
    unsigned span = run_span(notes, shed_keeps(hub, notes, count));
    struct run *run = span > 0 ? run_new(notes, span) : NULL;

    if (notes[0]->is_retry)
        publish_again(hub, notes[0]);
    else
        offer(hub, notes[0], run);
    run_joint_end(&hub->joint);
    run_unref(run);
    return span > 0 ? span : 1;
}

/* What was read in this turn, in its order: what changes the readers comes before or after it. */
void
hub_publish(struct hub *hub)
{
    unsigned at = 0;

    while (at < hub->batch_count) {
        unsigned done = publish_some(hub, hub->batch + at, hub->batch_count - at);

        for (unsigned end = at + done; at < end; at++) {
            recent_add(&hub->recent, hub->batch[at]);
            note_unref(hub->batch[at]);
        }
    }
    hub->batch_count = 0;
}

struct note *
hub_note(const struct hub *hub, const struct entry *entry, const struct entry_id *pos)
{
    if (hub->config->delivery.hide_targets)
        return note_new_without_targets(entry, hub->epoch, pos, hub->shards);
    return note_new(entry, hub->epoch, pos, hub->shards);
}

/* Its line goes to all its readers. What is for one user need not tell where others are. */
static struct note *
note_of(const struct hub *hub, const struct entry *entry)
{
    struct entry_id pos[STORE_SHARDS_MAX];

    if (entry->shard == 0)
        return hub_note(hub, entry, shed_heads(hub));
    cursor_to_heads(cursor_from_heads(shed_heads(hub), entry->shard), entry->shard, pos,
                    hub->shards);
    return hub_note(hub, entry, pos);
}

static void
on_entry(void *ctx, const struct entry *entry)
{
    struct hub *hub = ctx;

    if (!hub->has_position || !entry_id_less(hub->newest[entry->shard], entry->id))
        return;
    hub->newest[entry->shard] = entry->id;
    store_record_entry(hub->store, entry->shard, entry->id);
    hub->batch[hub->batch_count++] = note_of(hub, entry);
    stats_add(hub->stats, STAT_HUB_NOTES, 1);
    if (hub->batch_count == HUB_BATCH_MAX)
        hub_publish(hub);
}

static void
on_more(struct ev_loop *loop, ev_idle *idle, int events)
{
    (void)loop; /* keeps the loop from waiting; on_turn does the work */
    (void)idle;
    (void)events;
}

/* Before the loop waits. A few sessions at a time: acks and new connections come in between. */
static void
on_turn(struct ev_loop *loop, ev_prepare *prepare, int events)
{
    struct hub *hub = prepare->data;

    (void)events;
    hub_publish(hub);
    if (hub_send_some(hub, SENDS_A_TURN))
        ev_idle_start(loop, &hub->more);
    else
        ev_idle_stop(loop, &hub->more);
}

static void
on_member(void *ctx, const struct reader_member *member)
{
    struct hub *hub = ctx;
    char group_key[AUDIENCE_KEY_MAX];
    size_t group_len;
    struct audience *user;
    struct membership *of_user, *next;

    hub_publish(hub);
    user = hub_find_user(hub, member->user);
    if (user == NULL || !audience_key(member->audience, member->target, group_key, &group_len))
        return;
    DL_FOREACH_SAFE (user->members, of_user, next) {
        struct session *session = of_user->session;
        if (session_awaits_groups(session))
            session->groups.state = GROUPS_STALE;
        else if (member->added)
            session_join(session, group_key, group_len);
        else
            audience_leave(&hub->audiences, &session->groups.memberships, group_key, group_len);
    }
}

/* Takes the pairs of the first user off *pairs, as many as fit; how many these are. */
static size_t
take_settled(struct bytes *pairs, struct bytes *ret_user,
             char ids[SETTLED_MAX][FRAME_UUID_TEXT + 1])
{
    struct bytes rest = *pairs, user, id;
    size_t count = 0;

    while (count < SETTLED_MAX && frame_next_target(&rest, &user) == RC_OK &&
           frame_next_target(&rest, &id) == RC_OK && id.len == FRAME_UUID_TEXT) {
        if (count == 0)
            *ret_user = user;
        else if (user.len != ret_user->len || memcmp(user.at, ret_user->at, user.len) != 0)
            break;
        snprintf(ids[count++], sizeof(ids[0]), "%.*s", (int)id.len, (const char *)id.at);
        *pairs = rest;
    }
    return count;
}

static void
on_ack_events(void *ctx, struct bytes pairs, bool was_acked)
{
    struct bytes user;
    char name[SESSION_USER_MAX + 1], texts[SETTLED_MAX][FRAME_UUID_TEXT + 1];
    const char *ids[SETTLED_MAX];
    size_t count;

    hub_publish(ctx);
    for (size_t i = 0; i < SETTLED_MAX; i++)
        ids[i] = texts[i];
    while ((count = take_settled(&pairs, &user, texts)) > 0) {
        if (user.len >= sizeof(name))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)user.len, (const char *)user.at);
        hub_settled(ctx, name, ids, count, was_acked);
    }
}

static void
on_reader_resumed(void *ctx)
{
    struct hub *hub = ctx;
    struct session *session, *next;

    hub_publish(hub);
    DL_FOREACH_SAFE (hub->sessions, session, next) {
        session_pause(session); /* what comes is judged by what is asked for here */
        session_regroup(session);
        session_doubt(session);
    }
}

void
hub_refill(struct hub *hub, bool is_beat)
{
    struct session *session, *next;

    hub->refill_waits = false;
    if (hub->deferred_count == 0)
        return;
    DL_FOREACH_SAFE (hub->sessions, session, next)
        session_refill(session, is_beat);
}

static void
take_epoch(struct hub *hub)
{
    const struct entry_id *head = store_newest(hub->store);
    struct session *session, *next;

    hub_publish(hub);
    if (hub->has_position)
        log_errorf("hub",
                   "the store was emptied or its progress reset: epoch %s became %s, clients are "
                   "told of the gap",
                   hub->epoch, store_epoch(hub->store));
    snprintf(hub->epoch, sizeof(hub->epoch), "%s", store_epoch(hub->store));
    recent_reset(&hub->recent, head);
    memcpy(hub->newest, head, hub->shards * sizeof(*head));
    shed_forget(hub);
    if (hub->has_position) {
        DL_FOREACH_SAFE (hub->sessions, session, next)
            session_change_epoch(session);
    }
    hub->has_position = true;
    reader_seek(hub->reader, head);
}

static void
step_all(struct hub *hub)
{
    struct session *session, *next;

    DL_FOREACH_SAFE (hub->sessions, session, next)
        session_step(session);
}

static void
on_store_up(void *ctx)
{
    struct hub *hub = ctx;

    if (!hub->has_position || strcmp(hub->epoch, store_epoch(hub->store)) != 0)
        take_epoch(hub);
    here_announce(hub); /* before what is due is looked for */
    acks_flush(hub);
    step_all(hub);
}

static void
on_store_down(void *ctx)
{
    (void)ctx; /* sessions stay and wait */
}

static void
on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct hub *hub = timer->data;

    (void)events;
    ev_timer_stop(loop, timer);
    acks_flush(hub);
    step_all(hub);
}

void
hub_retry(struct hub *hub)
{
    if (!hub->closing && !ev_is_active(&hub->retry)) /* failures without end must not put it off */
        ev_timer_again(hub->loop, &hub->retry);
}

static void
on_beat(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    here_beat(timer->data);
    hub_refill(timer->data, true);
}

struct hub *
hub_open(struct ev_loop *loop, const struct config *config, struct store *store,
         struct stats *stats)
{
    struct hub *hub = memory_new(sizeof(*hub));
    const struct reader_events events = {on_entry, on_member, on_ack_events, on_reader_resumed,
                                         hub};

    hub->loop = loop;
    hub->config = config;
    hub->store = store;
    hub->shards = store_shards(store);
    hub->stats = stats;
    hub->scratch = memory_new(WS_TEXT_HEAD_MAX + SESSION_SAID_MAX);
    ev_init(&hub->retry, on_retry);
    hub->retry.repeat = RETRY_S;
    hub->retry.data = hub;
    hub->reader = reader_open(loop, config, store, stats, &events);
    if (hub->reader == NULL) {
        free(hub->scratch);
        free(hub);
        return NULL;
    }
    recent_open(&hub->recent, hub->shards);
    hub->store_listener = (struct store_listener){on_store_up, on_store_down, hub, NULL};
    store_listen(store, &hub->store_listener);
    ev_timer_init(&hub->beat, on_beat, BEAT_S, BEAT_S);
    hub->beat.data = hub;
    ev_timer_start(loop, &hub->beat);
    shed_start(hub);
    resumes_open(hub);
    ev_idle_init(&hub->more, on_more);
    ev_prepare_init(&hub->turn, on_turn);
    hub->turn.data = hub;
    ev_prepare_start(loop, &hub->turn);
    return hub;
}

size_t
hub_user_sessions(struct hub *hub, const char *user)
{
    struct bytes name = {(const unsigned char *)user, strlen(user)};
    struct audience *audience = hub_find_user(hub, name);
    struct membership *member;
    size_t count = 0;

    if (audience != NULL)
        DL_COUNT(audience->members, member, count);
    return count;
}

struct store *
hub_store(const struct hub *hub)
{
    return hub->store;
}

void
hub_close(struct hub *hub)
{
    if (hub == NULL)
        return;
    hub->closing = true;
    reader_close(hub->reader);
    hub->reader = NULL;
    ev_timer_stop(hub->loop, &hub->retry);
    ev_timer_stop(hub->loop, &hub->beat);
    shed_stop(hub);
    ev_timer_stop(hub->loop, &hub->resumes.turns);
    ev_prepare_stop(hub->loop, &hub->turn);
    ev_idle_stop(hub->loop, &hub->more);
    if (hub->acks.count + hub->acks_sent.count > 0)
        log_infof("hub", "%zu acks were not stored; their messages will be shown as pending",
                  hub->acks.count + hub->acks_sent.count);
}

void
hub_free(struct hub *hub)
{
    if (hub == NULL)
        return;
    (void)hub_send_some(hub, UINT_MAX); /* all are gone */
    recent_close(&hub->recent);
    while (hub->batch_count > 0)
        note_unref(hub->batch[--hub->batch_count]);
    acks_free(hub);
    shown_free(hub);
    resumes_close(hub);
    free(hub->scratch);
    free(hub);
}
