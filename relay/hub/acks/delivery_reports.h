/* delivery_reports.h: sends delivery reports to the store and applies its replies. */
#ifndef CLAIRON_HUB_ACKS_DELIVERY_REPORTS_H
#define CLAIRON_HUB_ACKS_DELIVERY_REPORTS_H

#include <stdbool.h>

struct hub;

/* Sends waiting reports while fewer than the maximum of calls are in flight. */
void delivery_reports_flush(struct hub *hub);

/* Applies the replies that have arrived, in order. Calls back sessions: only from the loop. */
void delivery_reports_apply(struct hub *hub);

/* True if reports wait to be sent, or to be sent again. Acks wait for them. */
bool delivery_reports_wait(const struct hub *hub);

void delivery_reports_free(struct hub *hub);

#endif
