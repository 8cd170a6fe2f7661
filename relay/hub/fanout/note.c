/* note.c: one notification in memory. */
#include "hub/fanout/note.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "wire/targets.h"
#include "wire/ws_frame.h"

#define TAIL_MAX 128 /* bytes of a notification, from `attempts` on */

static const char START[] = "{\"t\":\"msg\",\"pos\":\"";
static const struct bytes NOTHING = {NULL, 0};
static const char MIDDLE[] = "\",\"n\":";

/* What stands before the notification in its line. */
static size_t
write_start(const char *epoch, const struct entry_id *pos, unsigned shards,
            const struct backlog *backlog, char *at)
{
    size_t len = sizeof(START) - 1;

    memcpy(at, START, len);
    note_pos_text(epoch, pos, shards, backlog, at + len);
    len += strlen(at + len);
    memcpy(at + len, MIDDLE, sizeof(MIDDLE) - 1);
    return len + sizeof(MIDDLE) - 1;
}

/*
 * All in one allocation; the rest is the caller's to set. `hidden`, a view of `data`, is left out.
 */
static struct note *
make(struct bytes route, struct bytes retry_users, struct bytes data, struct bytes hidden,
     const char *epoch, const struct entry_id *pos, unsigned shards, const struct backlog *backlog)
{
    size_t before = hidden.len > 0 ? (size_t)(hidden.at - data.at) : data.len;
    size_t behind = data.len - before - hidden.len;
    char start[NOTE_POS_MAX + sizeof(START) + sizeof(MIDDLE)];
    size_t start_len = write_start(epoch, pos, shards, backlog, start);
    struct note *note;
    struct backlog *told;
    unsigned char *at;

    note =
        memory_grow(NULL, sizeof(*note) + shards * sizeof(*pos) + sizeof(*told) + route.len +
                              retry_users.len + WS_TEXT_HEAD_MAX + start_len + before + behind + 1);
    told = (struct backlog *)(note->pos + shards);
    at = (unsigned char *)(told + (backlog != NULL));
    *note =
        (struct note){.refs = 1, .shards = (unsigned char)shards, .made_us = clock_monotonic_us()};
    memcpy(note->pos, pos, shards * sizeof(*pos));
    if (backlog != NULL) {
        *told = *backlog;
        note->told = told;
    }
    memcpy(at, route.at, route.len);
    if (frame_parse_head((struct bytes){at, route.len}, &note->frame) != RC_OK)
        abort(); /* the entry was parsed from these very bytes */
    at += route.len;
    if (retry_users.len > 0)
        memcpy(at, retry_users.at, retry_users.len);
    note->retry_users = (struct bytes){at, retry_users.len};
    note->line = at + retry_users.len + WS_TEXT_HEAD_MAX;
    memcpy(note->line, start, start_len);
    note->data = (struct bytes){note->line + start_len, before + behind};
    memcpy(note->line + start_len, data.at, before);
    if (behind > 0)
        memcpy(note->line + start_len + before, hidden.at + hidden.len, behind);
    note->line[start_len + before + behind] = '}';
    note->line_len = start_len + before + behind + 1;
    note->ws_len = note->line_len + ws_text_head(note->line_len, note->line);
    note->ws = note->line + note->line_len - note->ws_len;
    return note;
}

static struct note *
note_of_entry(const struct entry *entry, struct bytes hidden, const char *epoch,
              const struct entry_id *pos, unsigned shards)
{
    struct note *note = make(entry->frame.as.note.head, entry->retry_users, entry->data, hidden,
                             epoch, pos, shards, NULL);

    note->is_retry = entry->is_retry;
    note->is_open_ended = entry->is_open_ended;
    note->ends_us = entry->ends_us;
    note->shard = entry->shard;
    note->id = entry->id;
    note->score = entry->score;
    note->needs_ack = (entry->frame.flags & FRAME_ACK_REQUIRED) != 0;
    return note;
}

struct note *
note_new(const struct entry *entry, const char *epoch, const struct entry_id *pos, unsigned shards)
{
    return note_of_entry(entry, NOTHING, epoch, pos, shards);
}

struct note *
note_new_without_targets(const struct entry *entry, const char *epoch, const struct entry_id *pos,
                         unsigned shards)
{
    return note_of_entry(entry, targets_of(entry->data), epoch, pos, shards);
}

struct note *
note_new_at(const struct note *note, const char *epoch, const struct entry_id *pos,
            const struct backlog *backlog)
{
    struct note *moved = make(note->frame.as.note.head, note->retry_users, note->data, NOTHING,
                              epoch, pos, note->shards, backlog);

    moved->is_retry = note->is_retry;
    moved->is_open_ended = note->is_open_ended;
    moved->ends_us = note->ends_us;
    moved->shard = note->shard;
    moved->id = note->id;
    moved->score = note->score;
    moved->needs_ack = note->needs_ack;
    moved->made_us = note->made_us;
    return moved;
}

/* The decoder's tail is the last that looks like it: no payload can stand behind it. */
static unsigned char *
find_attempts(const struct note *note)
{
    static const char tail[] = "\"attempts\":0,\"limit\":";
    const size_t len = sizeof(tail) - 1;
    size_t least = note->data.len > TAIL_MAX ? note->data.len - TAIL_MAX : 0;
    unsigned char *data = note->line + (note->data.at - note->line);

    for (size_t at = note->data.len; at >= least + len; at--) {
        if (memcmp(data + at - len, tail, len) == 0)
            return data + at - len + strlen("\"attempts\":");
    }
    return NULL;
}

struct note *
note_new_late(const struct note *note, const char *epoch)
{
    struct note *late = note_new_at(note, epoch, note->pos, note->told);
    unsigned char *attempts = find_attempts(late);

    if (attempts == NULL) {
        note_unref(late);
        return NULL;
    }
    *attempts = '1';
    late->frame.as.note.attempts = 1;
    return late;
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
