/* run.h: notes in a row for the same readers, as one block of bytes. */
#ifndef CLAIRON_HUB_RUN_H
#define CLAIRON_HUB_RUN_H

#include "hub/note.h"

#define RUN_NOTES_MAX 64
#define RUN_BYTES_MAX (256u * 1024)

/*
 * What a session is handed in one piece when nothing else waits for it: no work for each note and
 * client, and one send. Shared by run_ref and run_unref; immutable.
 */
struct run {
    unsigned refs;
    unsigned count;
    int64_t ends_us; /* the first of its notes expires then; 0: none does */
    size_t len;
    unsigned char *bytes; /* whole WebSocket frames, one for each note */
    struct note *notes[]; /* references */
};

/*
 * How many of the notes, from the first on, may go as a run. 0: the first may not, since each
 * session has to be asked about it.
 */
unsigned run_span(struct note *const *notes, unsigned count);

/* The caller owns one reference. `count` is at most what run_span said. */
struct run *run_new(struct note *const *notes, unsigned count);
struct run *run_ref(struct run *run);
void run_unref(struct run *run); /* accepts NULL */

/* True when one of its notes has expired. */
bool run_is_stale(const struct run *run);

#endif
