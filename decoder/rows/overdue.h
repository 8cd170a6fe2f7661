/*
 * overdue.h: ends a backend whose query ignores statement_timeout.
 *
 * The planner may run code of the table's owner, which can catch the cancellation and continue. No
 * code can catch the end of its process.
 */
#ifndef CLAIRON_ROWS_OVERDUE_H
#define CLAIRON_ROWS_OVERDUE_H

#include "postgres.h"

/*
 * Ends this process, as pg_terminate_backend does, two seconds after statement_timeout. False
 * without statement_timeout, and if an outer call set the timer already.
 */
extern bool overdue_begin(void);
extern void overdue_end(void); /* after a begin that returned true, also on an error */

#endif
