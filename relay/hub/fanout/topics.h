/* topics.h: which topics a connection wants to see. Pure. */
#ifndef CLAIRON_HUB_FANOUT_TOPICS_H
#define CLAIRON_HUB_FANOUT_TOPICS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "wire/bytes.h"

#define TOPICS_MAX 256
#define TOPICS_BYTES_MAX 8192 /* all of them together */

/* A set of exact topics and of prefixes with a trailing '*'. NULL stands for everything. */
struct topics;

/*
 * Adds to the set; one that stood for everything becomes these alone. RC_LIMIT: the set would have
 * too many or too long ones; nothing was changed. The names are copied.
 */
MUST_CHECK enum rc topics_add(struct topics **topics, const char *const *names, size_t count);

/*
 * Takes them out, as they were added. A set that is empty shows nothing. "*" stands for everything.
 */
void topics_remove(struct topics **topics, const char *const *names, size_t count);

/* Is a notification of this topic to be shown? Two binary searches. */
bool topics_show(const struct topics *topics, struct bytes topic);

/* Adds a JSON array of what the set holds, sorted; everything is ["*"]. */
MUST_CHECK enum rc topics_write(const struct topics *topics, struct buffer *out);

void topics_free(struct topics *topics); /* accepts NULL */

#endif
