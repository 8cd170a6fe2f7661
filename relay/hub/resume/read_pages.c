/* read_pages.c: reads pages of the stream, within the budgets of the users. */
#include "hub/resume/read_pages.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/clock.h"
#include "base/memory.h"
#include "hub/resume/request.h"
#include "hub/session/hub_state.h"
#include "hub/session/shed.h"
#include "hub/session/cursors.h"
#include "hub/session/ready_list.h"

#define TURNS_EVERY_S 0.02
#define PAGES_MAX 16 /* enough to keep the store busy */
#define PAGES_BYTES_MAX (64u * 1024 * 1024)
#define PAGE_BYTES (256u * 1024)                 /* as in range.lua and inbox.lua */
#define PAGE_BYTES_UNKNOWN (PAGES_BYTES_MAX / 4) /* estimate for the first page */

struct resume_user {
    struct page_budget budget;
    UT_hash_handle hh;
    char name[];
};

static struct session *
session_of(struct page_turn *turn)
{
    return (struct session *)((char *)turn - offsetof(struct session, requests.turn));
}

static int
rate_of(const struct hub *hub)
{
    return hub->config->delivery.resume_pages;
}

static void
refill_budget(const struct hub *hub, struct resume_user *user)
{
    page_budget_refill(&user->budget, rate_of(hub), clock_monotonic_us());
}

static void
remove_user(struct hub *hub, struct resume_user *user)
{
    HASH_DEL(hub->resumes.users, user);
    free(user);
}

/* Frees the first user if its budget is idle; otherwise moves the user to the end of the list. */
static void
evict_one(struct hub *hub)
{
    struct resume_user *first = hub->resumes.users;

    if (first == NULL)
        return;
    refill_budget(hub, first);
    if (page_budget_is_idle(&first->budget, rate_of(hub))) {
        remove_user(hub, first);
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
    page_budget_open(&user->budget, rate_of(hub), clock_monotonic_us());
    HASH_ADD_STR(hub->resumes.users, name, user);
    return user;
}

bool
session_budget_is_spent(struct session *session)
{
    struct resume_user *user = find(session->hub, session->client.user);

    if (user == NULL)
        return false;
    refill_budget(session->hub, user);
    return page_budget_is_spent(&user->budget);
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
    session->requests.is_awaited = true; /* the session sends no other request meanwhile */
    page_turn_wait(&session->requests.turn, &user->budget);
    if (page_budget_is_awaited(&user->budget)) {
        stats_add(hub->stats, STAT_HUB_RESUME_WAITS, 1);
        wait_for_budget(hub);
    }
}

/* Grants a turn to the session that has waited longest, even if it no longer needs one. */
static void
grant(struct hub *hub, struct resume_user *user)
{
    struct page_turn *turn;

    refill_budget(hub, user);
    turn = page_turn_grant(&user->budget);
    if (turn == NULL)
        return;
    session_of(turn)->requests.is_awaited = false;
    session_mark(session_of(turn), READY_ADVANCE);
}

/* Grants the next turn immediately, or as soon as the budget allows. */
static void
serve(struct hub *hub, struct resume_user *user)
{
    grant(hub, user);
    if (page_budget_is_awaited(&user->budget))
        wait_for_budget(hub);
}

/* ---- the pages of all sessions */

static bool
may_read(const struct hub *hub)
{
    const struct resumes *resumes = &hub->resumes;
    size_t page_bytes = resumes->page_bytes > PAGE_BYTES ? resumes->page_bytes : PAGE_BYTES;

    if (hub_is_over_limit(hub))
        return false; /* until slow clients were closed */
    return resumes->pages == 0 ||
           (resumes->pages < PAGES_MAX && (resumes->pages + 1) * page_bytes <= PAGES_BYTES_MAX);
}

static void
grant_pages(struct hub *hub)
{
    struct resumes *resumes = &hub->resumes;

    while (resumes->first != NULL && may_read(hub)) {
        struct session *session = resumes->first;

        resumes->first = session->requests.page_next;
        if (resumes->first == NULL)
            resumes->last = NULL;
        resumes->pages++;
        session->requests.page = PAGE_GRANTED;
        session->requests.is_awaited = false;
        session_mark(session, READY_ADVANCE);
    }
}

static void
wait_for_page(struct hub *hub, struct session *session)
{
    struct resumes *resumes = &hub->resumes;

    session->requests.is_awaited = true;
    session->requests.page = PAGE_WAITING;
    session->requests.page_next = NULL;
    if (resumes->last != NULL)
        resumes->last->requests.page_next = session;
    else
        resumes->first = session;
    resumes->last = session;
    wait_for_budget(hub);
}

static void
stop_waiting_for_page(struct hub *hub, struct session *session)
{
    struct session *before = NULL;

    for (struct session *each = hub->resumes.first; each != session;
         each = each->requests.page_next)
        before = each;
    if (before != NULL)
        before->requests.page_next = session->requests.page_next;
    else
        hub->resumes.first = session->requests.page_next;
    if (hub->resumes.last == session)
        hub->resumes.last = before;
    session->requests.page = PAGE_NONE;
}

bool
session_begin_page(struct session *session)
{
    struct hub *hub = session->hub;

    if (session->requests.page == PAGE_NONE && hub->resumes.first == NULL && may_read(hub)) {
        hub->resumes.pages++;
        session->requests.page = PAGE_GRANTED;
    }
    if (session->requests.page != PAGE_GRANTED) {
        wait_for_page(hub, session);
        return false;
    }
    session->requests.page = PAGE_READING;
    return true;
}

static size_t
bytes_of(const struct store_page *page)
{
    size_t bytes = 0;

    for (size_t i = 0; page != NULL && i < page->count; i++)
        bytes += page->entries[i].data.len;
    return bytes;
}

void
session_end_page(struct session *session, const struct store_page *page)
{
    struct resumes *resumes = &session->hub->resumes;
    const size_t bytes = bytes_of(page);

    session->requests.page = PAGE_NONE;
    resumes->pages--;
    if (bytes > 0) /* smaller pages lower the estimate slowly */
        resumes->page_bytes =
            bytes > resumes->page_bytes ? bytes : (3 * resumes->page_bytes + bytes) / 4;
    if (resumes->pages == 0)
        resumes->page_bytes = PAGE_BYTES_UNKNOWN;
    if (!session->hub->closing)
        grant_pages(session->hub);
}

/* ---- turns */

static void
on_turns(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct hub *hub = timer->data;
    struct resume_user *user, *next;
    bool some_wait;

    (void)events;
    grant_pages(hub);
    some_wait = hub->resumes.first != NULL;
    HASH_ITER (hh, hub->resumes.users, user, next) {
        grant(hub, user);
        some_wait = some_wait || page_budget_is_awaited(&user->budget);
    }
    if (!some_wait)
        ev_timer_stop(loop, timer);
}

/* True if the session may read a page now. */
static bool
has_turn(const struct hub *hub, struct resume_user *user, struct session *session)
{
    if (page_turn_end(&session->requests.turn, &user->budget))
        return true;
    refill_budget(hub, user);
    return page_budget_allows(&user->budget);
}

void
session_read_page(struct session *session, struct cursor after, size_t max, store_paged *done)
{
    struct hub *hub = session->hub;
    struct resume_user *user = NULL;
    enum rc rc;

    if (!session_begin_page(session))
        return;
    if (rate_of(hub) > 0) {
        evict_one(hub);
        user = find_or_add(hub, session->client.user);
        if (!has_turn(hub, user, session)) {
            session_end_page(session, NULL);
            wait_for_turn(hub, user, session);
            return;
        }
        page_budget_begin(&user->budget);
    }
    rc = store_range(hub->store, session->client.own_shard, after, session_head(session), max, done,
                     session);
    session_await(session, rc);
    if (rc == RC_OK) {
        stats_add(hub->stats, STAT_HUB_RESUME_PAGES, 1);
        return;
    }
    session_end_page(session, NULL);
    if (user != NULL)
        page_budget_end(&user->budget, 0); /* all sessions retry when the store is available */
}

void
session_end_stream_page(struct session *session, const struct store_page *page)
{
    struct hub *hub = session->hub;
    struct resume_user *user = find(hub, session->client.user);

    session_end_page(session, page);
    if (user == NULL)
        return;
    page_budget_end(&user->budget, bytes_of(page));
    if (!hub->closing)
        serve(hub, user);
}

void
session_pass_turn(struct session *session)
{
    struct resume_user *user;

    if (session->requests.page == PAGE_GRANTED)
        session_end_page(session, NULL);
    if (page_turn_is_none(&session->requests.turn))
        return;
    user = find(session->hub, session->client.user);
    if (page_turn_end(&session->requests.turn, &user->budget))
        serve(session->hub, user);
}

void
session_leave_turns(struct session *session)
{
    struct resume_user *user;

    if (session->requests.page == PAGE_WAITING)
        stop_waiting_for_page(session->hub, session);
    else if (session->requests.page == PAGE_GRANTED)
        session_end_page(session, NULL);
    if (page_turn_is_none(&session->requests.turn))
        return;
    user = find(session->hub, session->client.user);
    if (!page_turn_leave(&session->requests.turn, &user->budget))
        session_pass_turn(session);
}

void
resumes_open(struct hub *hub)
{
    ev_init(&hub->resumes.turns, on_turns);
    hub->resumes.turns.repeat = TURNS_EVERY_S;
    hub->resumes.turns.data = hub;
    hub->resumes.page_bytes = PAGE_BYTES_UNKNOWN;
}

void
resumes_stop(struct hub *hub)
{
    ev_timer_stop(hub->loop, &hub->resumes.turns);
}

void
resumes_close(struct hub *hub)
{
    struct resume_user *user, *next;

    HASH_ITER (hh, hub->resumes.users, user, next)
        remove_user(hub, user);
}
