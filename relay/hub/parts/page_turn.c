/*
 * page_turn.c: the turns of a user's sessions to read pages of the stream, and the user's budget.
 */
#include "hub/parts/page_turn.h"

#include <stdlib.h>

#include <utlist.h>

#define BURST_S 60
#define SECOND_US 1000000

/* Aborts on a transition that page_turn.h does not list. */
static void
turn_set_state(struct page_turn *turn, enum page_turn_state state)
{
    static const unsigned before[] = {
        [PAGE_TURN_NONE] = 1u << PAGE_TURN_WAITING | 1u << PAGE_TURN_GRANTED,
        [PAGE_TURN_WAITING] = 1u << PAGE_TURN_NONE,
        [PAGE_TURN_GRANTED] = 1u << PAGE_TURN_WAITING,
    };

    if ((before[state] & 1u << turn->state) == 0)
        abort();
    turn->state = state;
}

static double
burst_of(int rate)
{
    return (double)rate * BURST_S;
}

void
page_budget_open(struct page_budget *budget, int rate, int64_t now_us)
{
    *budget = (struct page_budget){.left = burst_of(rate), .at_us = now_us};
}

void
page_budget_refill(struct page_budget *budget, int rate, int64_t now_us)
{
    budget->left += (double)(now_us - budget->at_us) * (double)rate / SECOND_US;
    budget->at_us = now_us;
    if (budget->left > burst_of(rate))
        budget->left = burst_of(rate);
}

bool
page_budget_is_spent(const struct page_budget *budget)
{
    return budget->left < 1;
}

static bool
is_reading(const struct page_budget *budget)
{
    return budget->is_busy || budget->is_granted;
}

bool
page_budget_is_idle(const struct page_budget *budget, int rate)
{
    return !is_reading(budget) && budget->waiting == NULL && budget->left >= burst_of(rate);
}

bool
page_budget_is_awaited(const struct page_budget *budget)
{
    return budget->waiting != NULL && !is_reading(budget);
}

bool
page_budget_allows(const struct page_budget *budget)
{
    return !is_reading(budget) && !page_budget_is_spent(budget);
}

void
page_budget_begin(struct page_budget *budget)
{
    budget->left -= 1;
    budget->is_busy = true;
}

void
page_budget_end(struct page_budget *budget, size_t bytes)
{
    if (bytes > PAGE_BUDGET_BYTES)
        budget->left -= (double)(bytes - PAGE_BUDGET_BYTES) / PAGE_BUDGET_BYTES;
    budget->is_busy = false;
}

void
page_turn_wait(struct page_turn *turn, struct page_budget *budget)
{
    turn_set_state(turn, PAGE_TURN_WAITING);
    DL_APPEND(budget->waiting, turn);
}

struct page_turn *
page_turn_grant(struct page_budget *budget)
{
    struct page_turn *turn = budget->waiting;

    if (turn == NULL || !page_budget_allows(budget))
        return NULL;
    DL_DELETE(budget->waiting, turn);
    turn_set_state(turn, PAGE_TURN_GRANTED);
    budget->is_granted = true;
    return turn;
}

bool
page_turn_end(struct page_turn *turn, struct page_budget *budget)
{
    if (turn->state != PAGE_TURN_GRANTED)
        return false;
    turn_set_state(turn, PAGE_TURN_NONE);
    budget->is_granted = false;
    return true;
}

bool
page_turn_leave(struct page_turn *turn, struct page_budget *budget)
{
    if (turn->state != PAGE_TURN_WAITING)
        return false;
    DL_DELETE(budget->waiting, turn);
    turn_set_state(turn, PAGE_TURN_NONE);
    return true;
}
