/* overdue.c: end a backend whose query ignores statement_timeout. */
#include "rows/overdue.h"

#include <signal.h>

#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/timeout.h"

/* Longer than the relay waits: the relay then reports a timeout, not a lost connection. */
#define GRACE_MS 2000

static TimeoutId timer = MAX_TIMEOUTS; /* not registered */

static void
on_timer(void)
{
    die(SIGTERM);
}

bool
overdue_begin(void)
{
    if (StatementTimeout <= 0)
        return false;
    if (timer == MAX_TIMEOUTS)
        timer = RegisterTimeout(USER_TIMEOUT, on_timer);
    if (get_timeout_active(timer))
        return false;
    enable_timeout_after(timer, Min(StatementTimeout, PG_INT32_MAX - GRACE_MS) + GRACE_MS);
    return true;
}

void
overdue_end(void)
{
    disable_timeout(timer, false);
}
