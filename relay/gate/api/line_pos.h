/* line_pos.h: the position that a line of a session holds. */
#ifndef CLAIRON_GATE_API_LINE_POS_H
#define CLAIRON_GATE_API_LINE_POS_H

#include <stddef.h>

#include "wire/bytes.h"

/* Where a client that reconnects continues. NULL: the line holds none. */
struct bytes gate_line_pos(const char *line, size_t len);

#endif
