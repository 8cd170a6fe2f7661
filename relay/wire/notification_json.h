/* notification_json.h: finds parts of a notification's JSON without parsing it. Pure. */
#ifndef CLAIRON_WIRE_NOTIFICATION_JSON_H
#define CLAIRON_WIRE_NOTIFICATION_JSON_H

#include "decoder/protocol/traceparent.h"
#include "wire/bytes.h"

/*
 * Returns the content of the array routing.audience.targets. It points into `json`, which the
 * decoder or publication_parse wrote. Empty: no targets, or only their number.
 */
struct bytes notification_targets(struct bytes json);

/*
 * Returns a string in the metadata of a notification, without the quotes. It points into `json` and
 * has no escapes. `before` is its ENVELOPE_..._TEXT. Empty: absent.
 */
struct bytes notification_metadata(struct bytes json, const char *before);

/* Copies the traceparent from the metadata of a notification. False if it is absent. */
bool notification_traceparent(struct bytes json, char ret_text[TRACEPARENT_LEN + 1]);

#endif
