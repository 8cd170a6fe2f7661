/* envelope_json.h: appends parts of a notification's envelope to a buffer. */
#ifndef CLAIRON_ENVELOPE_JSON_H
#define CLAIRON_ENVELOPE_JSON_H

#include "base/data.h"
#include "encode/encode.h"
#include "protocol/envelope.h"

/* Appends the fields of the envelope from `first` to `last`. */
extern void encode_envelope(const struct encode_settings *settings, StringInfo out,
                            const struct envelope *envelope, enum envelope_field first,
                            enum envelope_field last);

/*
 * Appends the targets as a JSON array of strings. With `for_recipients`, a list of more than
 * LIMIT_TARGETS_SENT is replaced by an empty array and the number of targets.
 */
extern void encode_targets(const struct encode_settings *settings, StringInfo out,
                           const struct target_list *targets, bool for_recipients);

#endif
