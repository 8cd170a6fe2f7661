/* traceparent.h: the trace that a notification's line names. Pure. */
#ifndef CLAIRON_WIRE_TRACEPARENT_H
#define CLAIRON_WIRE_TRACEPARENT_H

#include "decoder/protocol/traceparent.h"
#include "wire/bytes.h"

/* Of a line that the decoder or publication_read wrote. False: its metadata has none. */
bool traceparent_of_line(struct bytes line, char ret_text[TRACEPARENT_LEN + 1]);

#endif
