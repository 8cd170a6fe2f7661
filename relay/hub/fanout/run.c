/* run.c: notes in a row for the same readers, as one block of bytes. */
#include "hub/fanout/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

static unsigned files; /* that are open, of all runs of this process */

static bool
is_plain(const struct note *note)
{
    return !note->needs_ack && !note->is_retry;
}

/* Audience, topic and targets stand in a row in a frame's head, after their lengths. */
static bool
have_same_readers(const struct note *a, const struct note *b)
{
    const struct frame_note *x = &a->frame.as.note, *y = &b->frame.as.note;

    return a->shard == b->shard && x->priority == y->priority && x->head.len == y->head.len &&
           memcmp(x->head.at + FRAME_NOTIFICATION_AT_AUDIENCE_LEN,
                  y->head.at + FRAME_NOTIFICATION_AT_AUDIENCE_LEN,
                  x->head.len - FRAME_NOTIFICATION_AT_AUDIENCE_LEN) == 0;
}

unsigned
run_span(struct note *const *notes, unsigned count)
{
    unsigned span = 1;
    size_t bytes;

    if (count == 0 || !is_plain(notes[0]))
        return 0;
    bytes = notes[0]->ws_len;
    while (span < count && span < RUN_NOTES_MAX && is_plain(notes[span]) &&
           have_same_readers(notes[0], notes[span]) &&
           bytes + notes[span]->ws_len <= RUN_BYTES_MAX) {
        bytes += notes[span]->ws_len;
        span++;
    }
    return span;
}

struct run *
run_new(struct note *const *notes, unsigned count)
{
    struct run *run = memory_new(sizeof(*run) + count * sizeof(struct note *));
    size_t at = 0;

    run->refs = 1;
    run->count = count;
    run->file = -1;
    for (unsigned i = 0; i < count; i++) {
        run->notes[i] = note_ref(notes[i]);
        run->len += notes[i]->ws_len;
        if (notes[i]->ends_us != 0 && (run->ends_us == 0 || notes[i]->ends_us < run->ends_us))
            run->ends_us = notes[i]->ends_us;
    }
    if (count == 1) {
        run->bytes = notes[0]->ws;
        return run;
    }
    run->bytes = memory_grow(NULL, run->len);
    for (unsigned i = 0; i < count; i++) {
        memcpy(run->bytes + at, notes[i]->ws, notes[i]->ws_len);
        at += notes[i]->ws_len;
    }
    return run;
}

struct run *
run_ref(struct run *run)
{
    run->refs++;
    return run;
}

void
run_unref(struct run *run)
{
    if (run == NULL || --run->refs > 0)
        return;
    if (run->file >= 0) {
        close(run->file);
        files--;
    }
    if (run->count > 1)
        free(run->bytes);
    for (unsigned i = 0; i < run->count; i++)
        note_unref(run->notes[i]);
    free(run);
}

/* Pages that sockets still hold outlive the file. */
static int
file_of(const unsigned char *bytes, size_t len)
{
    int file = memfd_create("clairon run", MFD_CLOEXEC);

    if (file >= 0 && write(file, bytes, len) != (ssize_t)len) {
        close(file);
        return -1;
    }
    return file;
}

int
run_file(struct run *run)
{
    if (run->len < RUN_FILE_BYTES_MIN || ++run->sends != RUN_FILE_SENDS || files == RUN_FILES_MAX)
        return run->file;
    run->file = file_of(run->bytes, run->len);
    files += run->file >= 0;
    return run->file;
}

static uint8_t
priority_of(const struct run *run)
{
    return run->notes[0]->frame.as.note.priority;
}

static struct run *
join(const struct run *waiting, const struct run *next)
{
    struct note *notes[RUN_NOTES_MAX];

    memcpy(notes, waiting->notes, waiting->count * sizeof(*notes));
    memcpy(notes + waiting->count, next->notes, next->count * sizeof(*notes));
    return run_new(notes, waiting->count + next->count);
}

struct run *
run_joint_of(struct run_joint *joint, struct run *waiting, const struct run *next)
{
    if (joint->waiting == waiting)
        return joint->whole;
    if (waiting->refs < RUN_JOINT_SHARES || joint->made == RUN_JOINTS_MAX ||
        priority_of(waiting) != priority_of(next) || waiting->count + next->count > RUN_NOTES_MAX ||
        waiting->len + next->len > RUN_BYTES_MAX || run_is_stale(waiting))
        return NULL;
    run_unref(joint->waiting);
    run_unref(joint->whole);
    joint->waiting = run_ref(waiting);
    joint->whole = join(waiting, next);
    joint->made++;
    return joint->whole;
}

void
run_joint_end(struct run_joint *joint)
{
    run_unref(joint->waiting);
    run_unref(joint->whole);
    *joint = (struct run_joint){0};
}

bool
run_is_stale(const struct run *run)
{
    return run->ends_us != 0 && run->ends_us <= clock_wall_us();
}
