/* stream_lines.h: shared code of SSE and poll: topics of a query, lines of a session. */
#ifndef CLAIRON_GATE_API_STREAM_LINES_H
#define CLAIRON_GATE_API_STREAM_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "hub/session/session.h"
#include "wire/bytes.h"

#define GATE_BAD_TOPICS                                                                            \
    "\"topics\" must be a comma-separated list, with * only at the end of a name"

/* Splits a comma-separated list in place (NULL: no topics). False: an invalid topic. */
bool stream_split_topics(char *list, const char *names[SESSION_TOPICS_MAX], size_t *ret_count);

/* Removes the first line from *text. False: no line is left. */
bool stream_next_line(const char **text, size_t *len, struct bytes *ret_line);

/* The cursor from which a client resumes after this line. `at` is NULL when it has none. */
struct bytes stream_line_pos(const char *line, size_t len);

#endif
