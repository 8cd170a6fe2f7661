/* page_turn.c: the budget of pages that the sessions of a user read from the store. */
#include "hub/resume/page_turn.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/memory.h"
#include "hub/resume/request.h"
#include "hub/session/hub_state.h"
#include "hub/session/position.h"
#include "hub/session/ready_list.h"

#define BURST_S 60 /* of the budget */
#define SECOND_US 1000000
#define TURNS_EVERY_S 0.02

struct resume_user {
    double left; /* pages, at `at_us` */
    int64_t at_us;
    bool is_busy;            /* a page is pending */
    bool is_granted;         /* a session has PAGE_TURN_GRANTED */
    struct session *waiting; /* utlist by requests.turn, in order */
    UT_hash_handle hh;
    char name[];
};

static double
burst_of(const struct hub *hub)
{
    return (double)hub->config->delivery.resume_pages * BURST_S;
}

static void
refill(const struct hub *hub, struct resume_user *user)
{
    int64_t now_us = clock_monotonic_us();
    double rate = (double)hub->config->delivery.resume_pages;

    user->left += (double)(now_us - user->at_us) * rate / SECOND_US;
    user->at_us = now_us;
    if (user->left > burst_of(hub))
        user->left = burst_of(hub);
}

static void
forget(struct hub *hub, struct resume_user *user)
{
    HASH_DEL(hub->resumes.users, user);
    free(user);
}

static bool
is_reading(const struct resume_user *user)
{
    return user->is_busy || user->is_granted;
}

/* Frees the first user if its budget is whole again; otherwise moves it to the end. */
static void
forget_one(struct hub *hub)
{
    struct resume_user *first = hub->resumes.users;

    if (first == NULL)
        return;
    refill(hub, first);
    if (!is_reading(first) && first->waiting == NULL && first->left >= burst_of(hub)) {
        forget(hub, first);
        return;
    }
    HASH_DEL(hub->resumes.users, first);
    HASH_ADD_STR(hub->resumes.users, name, first);
}

static struct resume_user *
find(struct hub *hub, const char *name)
{
    struct resume_user *user;

    HASH_FIND_STR(hub->resumes.users, name, user);
    return user;
}

static struct resume_user *
find_or_add(struct hub *hub, const char *name)
{
    size_t size = strlen(name) + 1;
    struct resume_user *user = find(hub, name);

    if (user != NULL)
        return user;
    user = memory_new(sizeof(*user) + size);
    memcpy(user->name, name, size);
    user->left = burst_of(hub);
    user->at_us = clock_monotonic_us();
    HASH_ADD_STR(hub->resumes.users, name, user);
    return user;
}

static bool
has_turn(const struct hub *hub, struct resume_user *user)
{
    refill(hub, user);
    return !is_reading(user) && user->left >= 1;
}

bool
resume_budget_is_spent(struct session *session)
{
    struct resume_user *user = find(session->hub, session->client.user);

    if (user == NULL)
        return false;
    refill(session->hub, user);
    return user->left < 1;
}

static void
wait_for_budget(struct hub *hub)
{
    if (!ev_is_active(&hub->resumes.turns))
        ev_timer_again(hub->loop, &hub->resumes.turns);
}

static void
wait_for_turn(struct hub *hub, struct resume_user *user, struct session *session)
{
    session->requests.is_awaited = true; /* it sends no other request meanwhile */
    session->requests.turn.state = PAGE_TURN_WAITING;
    DL_APPEND2(user->waiting, session, requests.turn.prev, requests.turn.next);
    if (!is_reading(user)) {
        stats_add(hub->stats, STAT_HUB_RESUME_WAITS, 1);
        wait_for_budget(hub);
    }
}

static void
stop_waiting(struct resume_user *user, struct session *session)
{
    DL_DELETE2(user->waiting, session, requests.turn.prev, requests.turn.next);
    session->requests.turn.state = PAGE_TURN_NONE;
    session->requests.is_awaited = false;
}

/* To the session that has waited longest. It may not need the turn any more. */
static void
grant(struct hub *hub, struct resume_user *user)
{
    struct session *session = user->waiting;

    if (session == NULL || !has_turn(hub, user))
        return;
    stop_waiting(user, session);
    session->requests.turn.state = PAGE_TURN_GRANTED;
    user->is_granted = true;
    session_mark(session, READY_ADVANCE);
}

/* Grants the next turn, now or when the budget allows. */
static void
serve(struct hub *hub, struct resume_user *user)
{
    grant(hub, user);
    if (user->waiting != NULL && !is_reading(user))
        wait_for_budget(hub);
}

static void
on_turns(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct hub *hub = timer->data;
    struct resume_user *user, *next;
    bool some_wait = false;

    (void)events;
    HASH_ITER (hh, hub->resumes.users, user, next) {
        grant(hub, user);
        some_wait = some_wait || (user->waiting != NULL && !is_reading(user));
    }
    if (!some_wait)
        ev_timer_stop(loop, timer);
}

static bool
use_grant(struct resume_user *user, struct session *session)
{
    if (session->requests.turn.state != PAGE_TURN_GRANTED)
        return false;
    session->requests.turn.state = PAGE_TURN_NONE;
    user->is_granted = false;
    return true;
}

void
resume_range(struct session *session, struct cursor after, size_t max, store_paged *done)
{
    struct hub *hub = session->hub;
    struct resume_user *user = NULL;
    enum rc rc;

    if (hub->config->delivery.resume_pages > 0) {
        forget_one(hub);
        user = find_or_add(hub, session->client.user);
        if (!use_grant(user, session) && !has_turn(hub, user)) {
            wait_for_turn(hub, user, session);
            return;
        }
        user->left -= 1;
        user->is_busy = true;
    }
    rc = store_range(hub->store, session->client.own_shard, after, session_head(session), max, done,
                     session);
    session_await(session, rc);
    if (rc == RC_OK)
        stats_add(hub->stats, STAT_HUB_RESUME_PAGES, 1);
    else if (user != NULL)
        user->is_busy = false; /* all sessions ask again when the store is back */
}

void
resume_answered(struct session *session)
{
    struct hub *hub = session->hub;
    struct resume_user *user = find(hub, session->client.user);

    if (user == NULL)
        return;
    user->is_busy = false;
    if (!hub->closing)
        serve(hub, user);
}

void
resume_pass_on(struct session *session)
{
    struct resume_user *user;

    if (session->requests.turn.state != PAGE_TURN_GRANTED)
        return;
    user = find(session->hub, session->client.user);
    (void)use_grant(user, session);
    serve(session->hub, user);
}

void
resume_leave(struct session *session)
{
    if (session->requests.turn.state == PAGE_TURN_WAITING)
        stop_waiting(find(session->hub, session->client.user), session);
    resume_pass_on(session);
}

void
resumes_open(struct hub *hub)
{
    ev_init(&hub->resumes.turns, on_turns);
    hub->resumes.turns.repeat = TURNS_EVERY_S;
    hub->resumes.turns.data = hub;
}

void
resumes_close(struct hub *hub)
{
    struct resume_user *user, *next;

    HASH_ITER (hh, hub->resumes.users, user, next)
        forget(hub, user);
}
