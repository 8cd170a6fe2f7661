/* notification_json.h: finds parts of a notification's JSON without parsing it. Pure. */
#ifndef CLAIRON_WIRE_NOTIFICATION_JSON_H
#define CLAIRON_WIRE_NOTIFICATION_JSON_H

#include "decoder/protocol/traceparent.h"
#include "wire/bytes.h"

/*
 * The text between the brackets of routing.audience.targets, a view of `json`, which the decoder or
 * publication_parse wrote. Empty: no targets.
 */
struct bytes notification_targets(struct bytes json);

/*
 * The value of a text in the metadata of such a document, a view of `json` without the quotes. The
 * text has no escapes. `before` is its ENVELOPE_.._TEXT. Empty: there is none.
 */
struct bytes notification_metadata(struct bytes json, const char *before);

/* The trace in the metadata of such a document. False: none. */
bool notification_traceparent(struct bytes json, char ret_text[TRACEPARENT_LEN + 1]);

#endif
