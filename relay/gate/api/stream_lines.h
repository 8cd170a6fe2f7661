/* stream_lines.h: code shared by SSE and polls: lists in a query, lines of a session. */
#ifndef CLAIRON_GATE_API_STREAM_LINES_H
#define CLAIRON_GATE_API_STREAM_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "hub/session.h"
#include "wire/bytes.h"

#define GATE_BAD_TOPICS                                                                            \
    "\"topics\" must be a comma-separated list, with * only at the end of a name"

#define GATE_BAD_LISTS                                                                             \
    "\"rows\" must be a comma-separated list of up to 32 sources, or sources with /rule"
#define STREAM_LISTS_BYTES_MAX 4096

/* A live list of the client. */
struct stream_list {
    const char *source;
    const char *rule;
};

/* Splits a comma-separated list in place (NULL: no topics). False: invalid topic. */
bool stream_split_topics(char *list, const char *names[SESSION_TOPICS_MAX], size_t *ret_count);

/* Like stream_split_topics, for a list of "source" or "source/rule" (NULL: no lists). */
bool stream_split_lists(char *list, struct stream_list lists[SESSION_UNVERIFIED_LISTS_MAX],
                        size_t *ret_count);

/* Removes the first line from *text. False: no line is left. */
bool stream_next_line(struct bytes *text, struct bytes *ret_line);

/*
 * Returns the cursor from which a client resumes after this line. `at` is NULL if the line has
 * none.
 */
struct bytes stream_line_pos(const char *line, size_t len);

#endif
