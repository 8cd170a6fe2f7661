/* recent.h: the newest notifications, for sessions that are a little behind. */
#ifndef CLAIRON_HUB_RECENT_H
#define CLAIRON_HUB_RECENT_H

#include "hub/note.h"

#define RECENT_NOTES_MAX 4096
#define RECENT_BYTES_MAX (16u << 20)

/* A ring of notes in stream order; it holds every entry with base < id <= head. */
struct recent {
    struct note *notes[RECENT_NOTES_MAX];
    unsigned first;
    unsigned count;
    size_t bytes;
    struct entry_id base;
    struct entry_id head;
};

/* Empties it; what comes next follows `head`. */
void recent_reset(struct recent *recent, struct entry_id head);
void recent_add(struct recent *recent, struct note *note); /* takes a reference of its own */

/* True when all that follows `after` is here. */
bool recent_covers(const struct recent *recent, struct entry_id after);

/* The first note after `after`, NULL when there is none. Only where recent_covers. */
struct note *recent_next(const struct recent *recent, struct entry_id after);

#endif
