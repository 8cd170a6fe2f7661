/*
 * states.h: the states of an object, and the transitions that are allowed. An unlisted transition
 * is an error in this program, so a debug build aborts. A release build ends the object, not the
 * process with all its connections.
 */
#ifndef CLAIRON_BASE_STATES_H
#define CLAIRON_BASE_STATES_H

#include <stdbool.h>

struct stats;

#define STATES_MAX 16

struct states {
    const char *object;            /* in the log */
    const char *names[STATES_MAX]; /* by state */
    unsigned before[STATES_MAX];   /* by state: bits of the states that may precede it */
};

/*
 * True if `to` may follow `from`. Otherwise counts the error, and logs it unless the same one was
 * logged within a few seconds; then the caller ends the object. `stats` may be NULL.
 */
bool states_allow(const struct states *states, unsigned from, unsigned to, struct stats *stats);

#endif
