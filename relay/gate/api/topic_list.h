/* topic_list.h: the topics of a request's query. */
#ifndef CLAIRON_GATE_API_TOPIC_LIST_H
#define CLAIRON_GATE_API_TOPIC_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "hub/session/session.h"

#define GATE_BAD_TOPICS "topics are names between commas, with a * at their end only"

/* Cuts topics between commas in place (NULL: none). False: one that no subscribe would accept. */
bool topic_list_split(char *list, const char *names[SESSION_TOPICS_MAX], size_t *ret_count);

#endif
