/* run.h: notes in a row for the same readers, as one block of bytes. */
#ifndef CLAIRON_HUB_FANOUT_RUN_H
#define CLAIRON_HUB_FANOUT_RUN_H

#include "hub/fanout/note.h"

#define RUN_NOTES_MAX 64
#define RUN_BYTES_MAX (256u * 1024)

/* From so many bytes and sockets on a file of them pays; of so many runs at a time. */
#define RUN_FILE_BYTES_MIN (8u * 1024)
#define RUN_FILE_SENDS 16
#define RUN_FILES_MAX 16
/* Two runs become one where so many wait with the first; so often for one run, as it copies. */
#define RUN_JOINT_SHARES 16
#define RUN_JOINTS_MAX 4

/*
 * What a session is handed in one piece when nothing else waits for it: no work for each note and
 * client, and one send. Shared by run_ref and run_unref; its notes and bytes are immutable.
 */
struct run {
    unsigned refs;
    unsigned count;
    unsigned sends;  /* so far, as run_file was told */
    int file;        /* -1: none */
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

/*
 * Of one run that is offered to many: what a session that still waits with another gets in its
 * place, both in one. The same for all that wait with that one, so made once; begins zeroed.
 */
struct run_joint {
    struct run *waiting; /* references */
    struct run *whole;
    unsigned made;
};

/* NULL: these two are not to go as one. The answer is the joint's own. */
struct run *run_joint_of(struct run_joint *joint, struct run *waiting, const struct run *next);
void run_joint_end(struct run_joint *joint);

/*
 * To be asked once a socket: a file that holds the run's bytes, for sendfile(2), which shares its
 * pages among all sockets where send(2) copies the bytes for each. -1 while that does not pay, or
 * when there is none to be had. It is the run's own.
 */
int run_file(struct run *run);

/* True when one of its notes has expired. */
bool run_is_stale(const struct run *run);

#endif
