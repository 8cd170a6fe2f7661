/* query_order.h: selects the waiting query that runs next. */
#ifndef CLAIRON_ROWS_QUERY_ORDER_H
#define CLAIRON_ROWS_QUERY_ORDER_H

#include "rows/queue.h"

/*
 * Returns the next query: users take turns, and the oldest query of a user that may run is first.
 * NULL: none may run.
 */
struct rows_query *query_order_next(const struct rows_queue *queue, int64_t now_us);

/* True while a query of this source is stuck. */
bool query_order_is_stuck(const struct rows_queue *queue, const char *source);

/* False while the user's results in memory exceed the limit. */
bool query_order_may_receive(const struct rows_queue *queue, const struct rows_user *user);

#endif
