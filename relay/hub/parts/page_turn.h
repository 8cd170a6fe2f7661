/*
 * page_turn.h: the turns of a user's sessions to read pages of the stream, and the user's budget.
 */
#ifndef CLAIRON_HUB_PARTS_PAGE_TURN_H
#define CLAIRON_HUB_PARTS_PAGE_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A session's turn to read a page. Only the functions below change the state.
 *
 * NONE: the session needs no turn, or is reading. Next: WAITING.
 *
 * WAITING: the session is in its user's queue, because another session of the user reads or the
 * budget is spent. Next: GRANTED, or NONE if the session ends.
 *
 * GRANTED: the session may read a page; other sessions wait. Next: NONE, when the session reads or
 * no longer needs the turn.
 */
enum page_turn_state { PAGE_TURN_NONE, PAGE_TURN_WAITING, PAGE_TURN_GRANTED };

/* Initially zeroed. */
struct page_turn {
    struct page_turn *next; /* utlist, used in state WAITING */
    struct page_turn *prev;
    enum page_turn_state state;
};

static inline bool
page_turn_is_none(const struct page_turn *turn)
{
    return turn->state == PAGE_TURN_NONE;
}

/*
 * The number of pages that a user's sessions may read, one at a time. Refilled at a rate in pages
 * per second, up to the pages of 60 seconds.
 */
struct page_budget {
    double left;   /* pages left at `at_us` */
    int64_t at_us; /* time at which `left` was computed; monotonic */
    bool is_busy;  /* a page was requested */
    bool is_granted;
    struct page_turn *waiting; /* utlist, in order */
};

/* Initializes a full budget. */
void page_budget_open(struct page_budget *budget, int rate, int64_t now_us);

/* Call it before any function that depends on the budget. */
void page_budget_refill(struct page_budget *budget, int rate, int64_t now_us);

/* True if less than one page is left. */
bool page_budget_is_spent(const struct page_budget *budget);

/* True if the budget is full again, and no session reads or waits. */
bool page_budget_is_idle(const struct page_budget *budget, int rate);

/* True if sessions wait only for the budget. */
bool page_budget_is_awaited(const struct page_budget *budget);

/* True if a page may be read without a turn. */
bool page_budget_allows(const struct page_budget *budget);

/* A page was requested. */
void page_budget_begin(struct page_budget *budget);

/*
 * Call it when the page of `bytes` was read, or the request failed (0). A page with a large
 * notification costs as much as the pages of PAGE_BUDGET_BYTES that it is worth.
 */
#define PAGE_BUDGET_BYTES (256u * 1024)
void page_budget_end(struct page_budget *budget, size_t bytes);

/* Appends the turn to the queue. */
void page_turn_wait(struct page_turn *turn, struct page_budget *budget);

/* Grants and returns the turn that has waited longest. NULL: no session waits, or none may read. */
struct page_turn *page_turn_grant(struct page_budget *budget);

/* Ends a GRANTED turn, used or not. False if the turn was not granted. */
bool page_turn_end(struct page_turn *turn, struct page_budget *budget);

/* Removes a WAITING turn from the queue. False if the turn was not waiting. */
bool page_turn_leave(struct page_turn *turn, struct page_budget *budget);

#endif
