/* page_budget.c: reads pages for sessions, within the limits of all users and of each user. */
#include "hub/hub_private.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/memory.h"

#define RETRY_EVERY_S 0.02
#define PAGES_MAX 16 /* enough to keep the store busy */
#define PAGES_BYTES_MAX (64u * 1024 * 1024)
#define PAGE_BYTES (256u * 1024)                 /* as in range.lua and pending_page.lua */
#define PAGE_BYTES_UNKNOWN (PAGES_BYTES_MAX / 4) /* estimate for the first page */
#define BURST_S 60

/* The token bucket of a user. */
struct page_budget {
    double tokens;  /* at `at_us`; below zero after a large page */
    int64_t at_us;  /* monotonic */
    unsigned woken; /* sessions that were woken in this wake-up, each for a token */
    UT_hash_handle hh;
    char user[];
};

static double
burst_of(const struct hub *hub)
{
    return (double)hub->config->delivery.resume_pages * BURST_S;
}

static void
add_tokens(const struct hub *hub, struct page_budget *budget)
{
    const int64_t now_us = clock_monotonic_us();

    budget->tokens +=
        (double)(now_us - budget->at_us) * hub->config->delivery.resume_pages / 1000000;
    if (budget->tokens > burst_of(hub))
        budget->tokens = burst_of(hub);
    budget->at_us = now_us;
}

static void
remove_budget(struct hub *hub, struct page_budget *budget)
{
    HASH_DEL(hub->resumes.budgets, budget);
    free(budget);
}

/* Frees the first bucket if it is full; otherwise moves it to the end of the list. */
static void
evict_one(struct hub *hub)
{
    struct page_budget *first = hub->resumes.budgets;

    if (first == NULL)
        return;
    add_tokens(hub, first);
    if (first->tokens >= burst_of(hub)) {
        remove_budget(hub, first);
        return;
    }
    HASH_DEL(hub->resumes.budgets, first);
    HASH_ADD_STR(hub->resumes.budgets, user, first);
}

/* NULL: the bucket of this user is full. */
static struct page_budget *
find(struct hub *hub, const char *user)
{
    struct page_budget *budget;

    HASH_FIND_STR(hub->resumes.budgets, user, budget);
    if (budget != NULL)
        add_tokens(hub, budget);
    return budget;
}

static struct page_budget *
find_or_add(struct hub *hub, const char *user)
{
    const size_t size = strlen(user) + 1;
    struct page_budget *budget = find(hub, user);

    if (budget != NULL)
        return budget;
    evict_one(hub);
    budget = memory_new(sizeof(*budget) + size);
    memcpy(budget->user, user, size);
    budget->tokens = burst_of(hub);
    budget->at_us = clock_monotonic_us();
    HASH_ADD_STR(hub->resumes.budgets, user, budget);
    return budget;
}

bool
session_budget_is_spent(struct session *session)
{
    const struct page_budget *budget = find(session->hub, session->client.user);

    return budget != NULL && budget->tokens < 1;
}

static bool
may_read(const struct hub *hub)
{
    const struct resumes *resumes = &hub->resumes;
    const size_t page_bytes = resumes->page_bytes > PAGE_BYTES ? resumes->page_bytes : PAGE_BYTES;

    if (hub_is_over_limit(hub))
        return false; /* until slow clients were closed */
    return resumes->pages == 0 ||
           (resumes->pages < PAGES_MAX && (resumes->pages + 1) * page_bytes <= PAGES_BYTES_MAX);
}

static struct session **
list_of(struct session *session)
{
    struct resumes *resumes = &session->hub->resumes;

    return session->requests.page == PAGE_WAITING ? &resumes->waiting : &resumes->spent;
}

static void
wait_as(struct session *session, enum session_page page)
{
    struct hub *hub = session->hub;

    session->requests.is_awaited = true;
    session->requests.page = page;
    DL_APPEND2(*list_of(session), session, requests.page_prev, requests.page_next);
    if (!ev_is_active(&hub->resumes.timer))
        ev_timer_again(hub->loop, &hub->resumes.timer);
}

static void
stop_waiting(struct session *session)
{
    DL_DELETE2(*list_of(session), session, requests.page_prev, requests.page_next);
    session->requests.page = PAGE_NONE;
    session->requests.is_awaited = false;
}

static void
wake(struct session *session)
{
    stop_waiting(session);
    session_mark(session, READY_ADVANCE);
}

/* Wakes as many sessions as may read now, in order. */
static void
wake_waiting(struct hub *hub)
{
    unsigned woken = 0;

    while (hub->resumes.waiting != NULL && hub->resumes.pages + woken < PAGES_MAX &&
           may_read(hub)) {
        wake(hub->resumes.waiting);
        woken++;
    }
}

/* Wakes as many sessions of each user as there are tokens. */
static void
wake_spent(struct hub *hub)
{
    struct session *session, *next;

    DL_FOREACH2(hub->resumes.spent, session, requests.page_next)
    find_or_add(hub, session->client.user)->woken = 0;
    DL_FOREACH_SAFE2(hub->resumes.spent, session, next, requests.page_next)
    {
        struct page_budget *budget = find_or_add(hub, session->client.user);

        if (budget->tokens >= budget->woken + 1) {
            budget->woken++;
            wake(session);
        }
    }
}

static void
on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct hub *hub = timer->data;

    (void)events;
    wake_waiting(hub);
    wake_spent(hub);
    if (hub->resumes.waiting == NULL && hub->resumes.spent == NULL)
        ev_timer_stop(loop, timer);
}

static bool
begin_page(struct session *session, bool is_of_stream)
{
    struct hub *hub = session->hub;
    const bool is_counted = is_of_stream && hub->config->delivery.resume_pages > 0;
    struct page_budget *budget = is_counted ? find_or_add(hub, session->client.user) : NULL;

    if (!may_read(hub)) {
        wait_as(session, PAGE_WAITING);
        return false;
    }
    if (budget != NULL && budget->tokens < 1) {
        stats_add(hub->stats, STAT_HUB_RESUME_WAITS, 1);
        wait_as(session, PAGE_SPENT);
        return false;
    }
    if (budget != NULL)
        budget->tokens -= 1;
    hub->resumes.pages++;
    session->requests.page = PAGE_READING;
    if (is_of_stream)
        stats_add(hub->stats, STAT_HUB_RESUME_PAGES, 1);
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

static void
end_page(struct session *session, const struct store_page *page, bool is_of_stream)
{
    struct hub *hub = session->hub;
    struct resumes *resumes = &hub->resumes;
    const size_t bytes = bytes_of(page);
    struct page_budget *budget = is_of_stream ? find(hub, session->client.user) : NULL;

    session->requests.page = PAGE_NONE;
    session->requests.is_awaited = false;
    resumes->pages--;
    if (bytes > 0) /* smaller pages lower the estimate slowly */
        resumes->page_bytes =
            bytes > resumes->page_bytes ? bytes : (3 * resumes->page_bytes + bytes) / 4;
    if (resumes->pages == 0)
        resumes->page_bytes = PAGE_BYTES_UNKNOWN;
    /* A page with a large notification costs as much as the pages that it is worth. */
    if (budget != NULL && bytes > PAGE_BYTES)
        budget->tokens -= (double)bytes / PAGE_BYTES - 1;
    if (!hub->closing)
        wake_waiting(hub);
}

bool
session_page_arrived(struct session *session, enum rc rc, const struct store_page *page,
                     bool is_of_stream)
{
    end_page(session, page, is_of_stream);
    return session_reply_arrived(session, rc);
}

/* The request for a page was sent, or the session advances when the store is up again. */
static void
await_page(struct session *session, enum rc sent, bool is_of_stream)
{
    if (sent != RC_OK) {
        end_page(session, NULL, is_of_stream);
        return;
    }
    session->requests.is_awaited = true;
    session->requests.count++;
}

void
session_read_range(struct session *session, struct cursor after, size_t max, store_paged *done)
{
    if (begin_page(session, true))
        await_page(session,
                   store_range(session->hub->store, session->client.own_shard, after,
                               session_head(session), max, done, session),
                   true);
}

void
session_read_pending(struct session *session, const struct store_pending_part *part,
                     store_paged *done)
{
    if (begin_page(session, false))
        await_page(session,
                   store_pending(session->hub->store, session->client.user, part, done, session),
                   false);
}

void
session_leave_pages(struct session *session)
{
    if (session->requests.page == PAGE_WAITING || session->requests.page == PAGE_SPENT)
        stop_waiting(session);
}

void
pages_open(struct hub *hub)
{
    ev_init(&hub->resumes.timer, on_timer);
    hub->resumes.timer.repeat = RETRY_EVERY_S;
    hub->resumes.timer.data = hub;
    hub->resumes.page_bytes = PAGE_BYTES_UNKNOWN;
}

void
pages_stop(struct hub *hub)
{
    ev_timer_stop(hub->loop, &hub->resumes.timer);
}

void
pages_close(struct hub *hub)
{
    struct page_budget *budget, *next;

    HASH_ITER (hh, hub->resumes.budgets, budget, next)
        remove_budget(hub, budget);
}
