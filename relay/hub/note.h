/* note.h: one notification in memory: the line that every recipient gets, stored once. */
#ifndef CLAIRON_HUB_NOTE_H
#define CLAIRON_HUB_NOTE_H

#include "store/entry.h"

/* One allocation; immutable; shared by note_ref and note_unref, on the loop's thread only. */
struct note {
    unsigned refs;
    bool needs_ack;
    struct entry_id id;
    struct frame frame; /* views into this allocation */
    size_t line_len;
    unsigned char *line; /* {"t":"msg",..}; SESSION_HEADROOM writable bytes before it */
};

/* `pos` is the position that the line tells the client. The caller owns one reference. */
struct note *note_new(const struct entry *entry, const char *epoch, struct entry_id pos);
struct note *note_ref(struct note *note);
void note_unref(struct note *note); /* accepts NULL */

/* A client's position: the store's epoch and an entry of its stream. */
#define NOTE_POS_MAX 80
void note_pos_text(const char *epoch, struct entry_id id, char ret_text[NOTE_POS_MAX]);
/* RC_CLOSED: well-formed, but of another epoch. RC_BAD: no position at all. */
MUST_CHECK enum rc note_pos_read(const char *text, const char *epoch, struct entry_id *ret_id);

#endif
