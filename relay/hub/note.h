/* note.h: one notification in memory: the line that every recipient gets, stored once. */
#ifndef CLAIRON_HUB_NOTE_H
#define CLAIRON_HUB_NOTE_H

#include "store/entry.h"

/* One allocation; immutable; shared by note_ref and note_unref, on the loop's thread only. */
struct note {
    unsigned refs;
    unsigned queues; /* that hold it: see hub->queued_bytes */
    bool needs_ack;
    bool is_open;    /* whoever is shown it owes an ack */
    bool is_copy;    /* to be shown again, to the users of `only` */
    int64_t ends_us; /* from then on nobody is shown it; 0: never */
    struct entry_id id;
    struct frame frame;  /* views into this allocation */
    struct bytes only;   /* likewise; walk with frame_next_target */
    struct entry_id pos; /* what the line tells the client */
    int64_t made_us;     /* monotonic */
    size_t line_len;
    unsigned char *line; /* {"t":"msg",..} */
    size_t ws_len;
    unsigned char *ws; /* the line as a whole WebSocket frame: the same bytes for everyone */
    struct bytes data; /* the notification in the line */
};

/* `pos` is the position that the line tells the client. The caller owns one reference. */
struct note *note_new(const struct entry *entry, const char *epoch, struct entry_id pos);
/* The same with another position. */
struct note *note_new_at(const struct note *note, const char *epoch, struct entry_id pos);
struct note *note_ref(struct note *note);
void note_unref(struct note *note); /* accepts NULL */

/* True from its expiration on, by the wall clock. */
bool note_is_expired(const struct note *note);

/* A client's position: the store's epoch and an entry of its stream. */
#define NOTE_POS_MAX 80
void note_pos_text(const char *epoch, struct entry_id id, char ret_text[NOTE_POS_MAX]);
/* RC_CLOSED: well-formed, but of another epoch. RC_BAD: no position at all. */
MUST_CHECK enum rc note_pos_read(const char *text, const char *epoch, struct entry_id *ret_id);

#endif
