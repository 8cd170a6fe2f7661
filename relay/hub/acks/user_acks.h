/* user_acks.h: applies acknowledgements to a user's sessions. */
#ifndef CLAIRON_HUB_ACKS_USER_ACKS_H
#define CLAIRON_HUB_ACKS_USER_ACKS_H

#include <stdbool.h>
#include <stddef.h>

struct hub;

/*
 * Another relay stored these acks, or retries of these ended. `ids` are UUID texts in lower case.
 */
void hub_end_acks(struct hub *hub, const char *user, const char *const *ids, size_t count,
                  bool was_acked);

#endif
