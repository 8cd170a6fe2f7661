/* query_order.h: which of the waiting queries runs next. */
#ifndef CLAIRON_ROWS_QUERY_ORDER_H
#define CLAIRON_ROWS_QUERY_ORDER_H

#include "rows/queue.h"

/* The first query that may run, of the first user in turn that has one. NULL: none. */
struct rows_query *query_order_next(const struct rows_queue *queue, int64_t now_us);

/* True while a query of this source is stuck. */
bool query_order_is_stuck(const struct rows_queue *queue, const char *source);

/* False while the user holds too many bytes of results. */
bool query_order_may_receive(const struct rows_queue *queue, const struct rows_user *user);

#endif
