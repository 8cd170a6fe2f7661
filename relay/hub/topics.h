/* topics.h: the topics to which a connection is subscribed. */
#ifndef CLAIRON_HUB_TOPICS_H
#define CLAIRON_HUB_TOPICS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "wire/bytes.h"

#define TOPICS_MAX 256
#define TOPICS_BYTES_MAX 8192 /* maximum bytes of all topics */

/* A set of exact topics and of prefixes with a trailing '*'. NULL means all topics. */
struct topics;

/*
 * Adds topics to the set; a set of all topics is replaced. RC_LIMIT: too many or too long names;
 * the set is unchanged. Copies the names.
 */
MUST_CHECK enum rc topics_add(struct topics **topics, const char *const *names, size_t count);

/*
 * Removes names, which must be spelled as they were added. An empty set matches nothing. "*" means
 * all topics.
 */
void topics_remove(struct topics **topics, const char *const *names, size_t count);

/* True if the set matches this topic. Takes two binary searches. */
bool topics_match(const struct topics *topics, struct bytes topic);

/* Writes the set as a sorted JSON array; all topics are ["*"]. */
MUST_CHECK enum rc topics_write(const struct topics *topics, struct buffer *out);

void topics_free(struct topics *topics); /* accepts NULL */

#endif
