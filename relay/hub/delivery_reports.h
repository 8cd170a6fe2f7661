/* delivery_reports.h: sends delivery reports to the store and applies its replies. */
#ifndef CLAIRON_HUB_DELIVERY_REPORTS_H
#define CLAIRON_HUB_DELIVERY_REPORTS_H

#include <stdbool.h>

struct hub;

/* Sends queued reports while fewer than the maximum number of calls are in flight. */
void delivery_reports_flush(struct hub *hub);

/*
 * Applies the replies that have arrived, in order. Calls sessions back, so call it only from the
 * loop.
 */
void delivery_reports_apply(struct hub *hub);

/* True if reports must be sent or repeated. Acks wait for them. */
bool delivery_reports_wait(const struct hub *hub);

void delivery_reports_free(struct hub *hub);

#endif
