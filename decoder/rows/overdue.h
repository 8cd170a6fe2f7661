/*
 * overdue.h: ends a backend whose query ignores statement_timeout.
 *
 * The planner may run code of the table's owner, which can catch a cancellation and continue, but
 * not a termination.
 */
#ifndef CLAIRON_ROWS_OVERDUE_H
#define CLAIRON_ROWS_OVERDUE_H

#include "postgres.h"

/*
 * Ends this process, as pg_terminate_backend does, two seconds after statement_timeout. Returns
 * false without statement_timeout, or if an outer call has set the timer.
 */
extern bool overdue_begin(void);
extern void overdue_end(void); /* only after overdue_begin returned true, even on an error */

#endif
