/* publish.c: offers new notifications to the sessions of their audiences. */
#include "hub/publish.h"

#include <utlist.h>

#include "hub/delivery/offer.h"
#include "hub/delivery/session_inflight.h"
#include "hub/session/hub_state.h"
#include "hub/session/members.h"
#include "hub/session/shed.h"

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
publish_batch(struct hub *hub)
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
