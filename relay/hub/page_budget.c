/* page_budget.c: reads pages for sessions, within the limits of all users and of each user. */
#include "hub/hub_private.h"

#include <utlist.h>

#include "base/clock.h"
#include "base/rates.h"

#define RETRY_EVERY_S 0.02
#define PAGES_MAX 16 /* enough to keep the store busy */
#define PAGES_BYTES_MAX (64u * 1024 * 1024)
#define PAGE_BYTES (256u * 1024)                 /* as in range.lua and pending_page.lua */
#define PAGE_BYTES_UNKNOWN (PAGES_BYTES_MAX / 4) /* estimate for the first page */
#define BURST_S 60

bool
session_budget_is_spent(struct session *session)
{
    const struct hub *hub = session->hub;

    return session->requests.page != PAGE_PAID &&
           !rates_has(hub->page_budget.rates, session->client.user,
                      hub->config->delivery.resume_pages, clock_monotonic_us());
}

static bool
may_read(const struct hub *hub)
{
    const struct page_budget *budget = &hub->page_budget;
    const size_t page_bytes = budget->page_bytes > PAGE_BYTES ? budget->page_bytes : PAGE_BYTES;

    if (hub_is_over_limit(hub))
        return false; /* until slow clients were closed */
    return budget->pages == 0 ||
           (budget->pages < PAGES_MAX && (budget->pages + 1) * page_bytes <= PAGES_BYTES_MAX);
}

static struct session **
list_of(struct session *session)
{
    struct page_budget *budget = &session->hub->page_budget;

    return session->requests.page == PAGE_WAITING ? &budget->waiting : &budget->spent;
}

static void
wait_as(struct session *session, enum session_page page)
{
    struct hub *hub = session->hub;

    session->requests.is_awaited = true;
    session->requests.page = page;
    DL_APPEND2(*list_of(session), session, requests.page_prev, requests.page_next);
    if (!ev_is_active(&hub->page_budget.timer))
        ev_timer_again(hub->loop, &hub->page_budget.timer);
}

static void
stop_waiting(struct session *session)
{
    DL_DELETE2(*list_of(session), session, requests.page_prev, requests.page_next);
    session->requests.page = PAGE_NONE;
    session->requests.is_awaited = false;
}

static void
wake(struct session *session, enum session_page page)
{
    stop_waiting(session);
    session->requests.page = page;
    session_mark(session, READY_ADVANCE);
}

/* Wakes as many sessions as may read now, in order. */
static void
wake_waiting(struct hub *hub)
{
    unsigned woken = 0;

    while (hub->page_budget.waiting != NULL && hub->page_budget.pages + woken < PAGES_MAX &&
           may_read(hub)) {
        wake(hub->page_budget.waiting, PAGE_NONE);
        woken++;
    }
}

static bool
pay(struct session *session)
{
    return rates_consume(session->hub->page_budget.rates, session->client.user,
                         session->hub->config->delivery.resume_pages, clock_monotonic_us());
}

/* Wakes as many sessions of each user as there are tokens. */
static void
wake_spent(struct hub *hub)
{
    struct session *session, *next;

    DL_FOREACH_SAFE2(hub->page_budget.spent, session, next, requests.page_next)
    {
        if (pay(session))
            wake(session, PAGE_PAID);
    }
}

static void
on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct hub *hub = timer->data;

    (void)events;
    wake_waiting(hub);
    wake_spent(hub);
    if (hub->page_budget.waiting == NULL && hub->page_budget.spent == NULL)
        ev_timer_stop(loop, timer);
}

static bool
begin_page(struct session *session, bool is_of_stream)
{
    struct hub *hub = session->hub;
    const bool is_paid = session->requests.page == PAGE_PAID;

    if (!may_read(hub)) {
        if (is_paid)
            rates_refund(hub->page_budget.rates, session->client.user, 1);
        wait_as(session, PAGE_WAITING);
        return false;
    }
    if (is_of_stream && !is_paid && !pay(session)) {
        stats_add(hub->stats, STAT_HUB_RESUME_WAITS, 1);
        wait_as(session, PAGE_SPENT);
        return false;
    }
    hub->page_budget.pages++;
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
    struct page_budget *budget = &hub->page_budget;
    const size_t bytes = bytes_of(page);

    session->requests.page = PAGE_NONE;
    session->requests.is_awaited = false;
    budget->pages--;
    if (bytes > 0) /* smaller pages lower the estimate slowly */
        budget->page_bytes =
            bytes > budget->page_bytes ? bytes : (3 * budget->page_bytes + bytes) / 4;
    if (budget->pages == 0)
        budget->page_bytes = PAGE_BYTES_UNKNOWN;
    /* A page with a large notification costs as much as the pages that it is worth. */
    if (is_of_stream && bytes > PAGE_BYTES)
        rates_refund(budget->rates, session->client.user, 1 - (double)bytes / PAGE_BYTES);
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
    ev_init(&hub->page_budget.timer, on_timer);
    hub->page_budget.timer.repeat = RETRY_EVERY_S;
    hub->page_budget.timer.data = hub;
    hub->page_budget.rates = rates_new(BURST_S);
    hub->page_budget.page_bytes = PAGE_BYTES_UNKNOWN;
}

void
pages_stop(struct hub *hub)
{
    ev_timer_stop(hub->loop, &hub->page_budget.timer);
}

void
pages_close(struct hub *hub)
{
    rates_free(hub->page_budget.rates);
}
