/* note.c: one notification in memory. */
#include "hub/note.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "hub/session.h"

struct note *
note_new(const struct entry *entry, const char *epoch, struct entry_id pos)
{
    char pos_text[NOTE_POS_MAX];
    char start[NOTE_POS_MAX + 32];
    size_t route_len = entry->frame.as.note.head.len;
    size_t start_len;
    struct note *note;
    unsigned char *route, *only;

    note_pos_text(epoch, pos, pos_text);
    start_len =
        (size_t)snprintf(start, sizeof(start), "{\"t\":\"msg\",\"pos\":\"%s\",\"n\":", pos_text);
    note = memory_new(sizeof(*note) + route_len + entry->only.len + SESSION_HEADROOM + start_len +
                      entry->data.len + 1);
    route = (unsigned char *)(note + 1);
    memcpy(route, entry->frame.as.note.head.at, route_len);
    only = route + route_len;
    if (entry->only.len > 0)
        memcpy(only, entry->only.at, entry->only.len);
    note->only = (struct bytes){only, entry->only.len};
    note->is_copy = entry->is_copy;
    note->is_open = entry->is_open;
    note->ends_us = entry->ends_us;
    note->refs = 1;
    note->id = entry->id;
    note->needs_ack = (entry->frame.flags & FRAME_ACK_REQUIRED) != 0;
    if (frame_parse_head((struct bytes){route, route_len}, &note->frame) != RC_OK)
        abort(); /* the entry was parsed from these very bytes */
    note->line = only + entry->only.len + SESSION_HEADROOM;
    memcpy(note->line, start, start_len);
    memcpy(note->line + start_len, entry->data.at, entry->data.len);
    note->line[start_len + entry->data.len] = '}';
    note->line_len = start_len + entry->data.len + 1;
    return note;
}

struct note *
note_ref(struct note *note)
{
    note->refs++;
    return note;
}

void
note_unref(struct note *note)
{
    if (note != NULL && --note->refs == 0)
        free(note);
}

bool
note_is_expired(const struct note *note)
{
    return note->ends_us != 0 && note->ends_us <= clock_wall_us();
}

void
note_pos_text(const char *epoch, struct entry_id id, char ret_text[NOTE_POS_MAX])
{
    char id_text[ENTRY_ID_TEXT_MAX];

    entry_id_text(id, id_text);
    snprintf(ret_text, NOTE_POS_MAX, "%s.%s", epoch, id_text);
}

enum rc
note_pos_read(const char *text, const char *epoch, struct entry_id *ret_id)
{
    const char *dot = strchr(text, '.');
    struct entry_id id;

    if (dot == NULL || entry_id_read(dot + 1, strlen(dot + 1), &id) != RC_OK)
        return RC_BAD;
    if ((size_t)(dot - text) != strlen(epoch) || strncmp(text, epoch, strlen(epoch)) != 0)
        return RC_CLOSED;
    *ret_id = id;
    return RC_OK;
}
