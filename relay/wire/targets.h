/* targets.h: finds the targets in a notification's JSON. Pure. */
#ifndef CLAIRON_WIRE_TARGETS_H
#define CLAIRON_WIRE_TARGETS_H

#include "wire/bytes.h"

/*
 * Returns the text between the brackets of routing.audience.targets, a view of `json`, which the
 * decoder or the API wrote. Empty: no targets.
 */
struct bytes notification_targets(struct bytes json);

#endif
