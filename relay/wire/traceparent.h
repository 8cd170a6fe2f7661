/* traceparent.h: the trace in a notification's document. Pure. */
#ifndef CLAIRON_WIRE_TRACEPARENT_H
#define CLAIRON_WIRE_TRACEPARENT_H

#include "decoder/protocol/traceparent.h"
#include "wire/bytes.h"

/* For a document written by the decoder or publication_parse. False: no trace in its metadata. */
bool traceparent_of_notification(struct bytes line, char ret_text[TRACEPARENT_LEN + 1]);

#endif
