/* targets.h: where the targets stand in a notification's JSON. Pure. */
#ifndef CLAIRON_WIRE_TARGETS_H
#define CLAIRON_WIRE_TARGETS_H

#include "wire/bytes.h"

/*
 * What is between the brackets of routing.audience.targets, a view of `json`, which is a
 * notification as the decoder or the API writes it. Empty: there are none.
 */
struct bytes targets_of(struct bytes json);

#endif
