/* page_turn.h: the turns of a user's sessions to read pages of the stream, and their budget. */
#ifndef CLAIRON_HUB_PARTS_PAGE_TURN_H
#define CLAIRON_HUB_PARTS_PAGE_TURN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A session's turn to read a page. Only the functions below change the state.
 *
 * NONE: it needs none, or is reading. Next: WAITING.
 *
 * WAITING: it is in its user's queue: another session of the user reads, or the budget is spent.
 * Next: GRANTED, or NONE if the session ends.
 *
 * GRANTED: it may read a page; the others wait. Next: NONE, when it reads or does not need the turn
 * any more.
 */
enum page_turn_state { PAGE_TURN_NONE, PAGE_TURN_WAITING, PAGE_TURN_GRANTED };

/* Zeroed at the start. */
struct page_turn {
    struct page_turn *next; /* utlist, while WAITING */
    struct page_turn *prev;
    enum page_turn_state state;
};

static inline bool
page_turn_is_none(const struct page_turn *turn)
{
    return turn->state == PAGE_TURN_NONE;
}

/*
 * Pages that a user's sessions may read, one at a time. Refilled at a rate in pages per second, up
 * to 60 seconds' worth.
 */
struct page_budget {
    double left;   /* pages, at `at_us` */
    int64_t at_us; /* monotonic */
    bool is_busy;  /* a page is pending */
    bool is_granted;
    struct page_turn *waiting; /* utlist, in order */
};

/* It is full. */
void page_budget_open(struct page_budget *budget, int rate, int64_t now_us);

/* Call it before a function that depends on the budget. */
void page_budget_refill(struct page_budget *budget, int rate, int64_t now_us);

/* True if less than a page is left. */
bool page_budget_is_spent(const struct page_budget *budget);

/* True if it is full again, and no session reads or waits. */
bool page_budget_is_idle(const struct page_budget *budget, int rate);

/* True if sessions wait for the budget alone. */
bool page_budget_is_awaited(const struct page_budget *budget);

/* True if a page may be read without a turn. */
bool page_budget_allows(const struct page_budget *budget);

/* A page was requested. */
void page_budget_begin(struct page_budget *budget);

/* It was read, or the request failed. */
void page_budget_end(struct page_budget *budget);

/* Appends the turn to the queue. */
void page_turn_wait(struct page_turn *turn, struct page_budget *budget);

/* Grants the turn that has waited longest and returns it. NULL: none waits, or none may read. */
struct page_turn *page_turn_grant(struct page_budget *budget);

/* Ends a GRANTED turn, used or not. False: it was not granted. */
bool page_turn_end(struct page_turn *turn, struct page_budget *budget);

/* Removes a WAITING turn from the queue. False: it did not wait. */
bool page_turn_leave(struct page_turn *turn, struct page_budget *budget);

#endif
