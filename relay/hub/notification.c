/*
 * notification.c: notifications in memory: one, formatted once for all recipients; and a batch of
 * them.
 */
#include "hub/notification.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utlist.h>

#include "base/memory.h"
#include "base/clock.h"
#include "decoder/protocol/envelope.h"
#include "wire/frame.h"
#include "wire/ws_frame.h"

/* Copies of a document of this size share it. Batches are smaller, so they have no such copies. */
#define LARGE_MIN (256u * 1024)

static const char START[] = "{\"t\":\"msg\",\"pos\":\"";
static const char BEFORE_XID[] = "\",\"x\":\"";
static const char BEFORE_RULE[] = "\",\"rule\":\"";
static const char MIDDLE[] = "\",\"n\":";
static const struct bytes NOTHING = {NULL, 0};

static struct notification *large; /* utlist: all large notifications without a source */

#define RULE_JSON_MAX (6 * LIMIT_RULE + 2) /* each byte as \\u00xx, and the quotes */
#define START_MAX                                                                                  \
    (sizeof(START) + CLIENT_POS_MAX + sizeof(BEFORE_XID) + BYTES_DECIMAL_MAX +                     \
     sizeof(BEFORE_RULE) + RULE_JSON_MAX + sizeof(MIDDLE))

/* Writes the text without its terminating zero. Returns its end. */
static char *
write_literal(char *at, const char *text)
{
    size_t len = strlen(text);

    memcpy(at, text, len);
    return at + len;
}

/* Writes a JSON string without the closing quote. */
static char *
write_rule(struct bytes rule, char *at)
{
    struct buffer json;

    buffer_init(&json, RULE_JSON_MAX);
    if (buffer_add_json(&json, (const char *)rule.at, rule.len) != RC_OK)
        abort(); /* the limit covers the longest possible string */
    memcpy(at, json.bytes + 1, json.len - 2);
    at += json.len - 2;
    buffer_free(&json);
    return at;
}

/*
 * Writes the part of the frame before the JSON document: the cursor, the transaction id that a
 * client compares with its snapshot, and the name of a live rule.
 */
static size_t
write_start(const struct frame_notification *frame, const char *epoch, const struct entry_id *heads,
            unsigned shards, const struct deferral *deferral, const struct ends_mark *mark,
            char start[START_MAX], size_t *ret_pos_len)
{
    char *at = write_literal(start, START);

    client_pos_text(epoch, heads, shards, deferral, at);
    if (mark != NULL)
        client_pos_mark(at, mark);
    *ret_pos_len = strlen(at);
    at += *ret_pos_len;
    if (frame->xid != 0)
        at = bytes_decimal(frame->xid, write_literal(at, BEFORE_XID));
    if (frame->is_live && frame->rule.len > 0)
        at = write_rule(frame->rule, write_literal(at, BEFORE_RULE));
    at = write_literal(at, MIDDLE);
    return (size_t)(at - start);
}

static void
free_notification(struct shared *shared)
{
    struct notification *notification = (struct notification *)shared;

    if (notification->source != NULL)
        notification_unref(notification->source);
    else if (notification->data.len >= LARGE_MIN)
        DL_DELETE2(large, notification, large_prev, large_next);
    free(notification);
}

#define REPORTED_MAX (sizeof(struct deferral) + sizeof(struct ends_mark))

/* Copies what the cursor reports behind `heads`. Returns the end of the copies. */
static unsigned char *
keep_reported(struct notification *notification, const struct deferral *deferral,
              const struct ends_mark *mark)
{
    struct deferral *kept = (struct deferral *)(notification->heads + notification->shards);
    struct ends_mark *kept_mark = (struct ends_mark *)(kept + 1);

    notification->deferral = deferral != NULL ? kept : NULL;
    if (deferral != NULL)
        *kept = *deferral;
    notification->mark = mark != NULL ? kept_mark : NULL;
    if (mark != NULL)
        *kept_mark = *mark;
    return (unsigned char *)(mark != NULL       ? (void *)(kept_mark + 1)
                             : deferral != NULL ? (void *)(kept + 1)
                                                : (void *)kept);
}

/*
 * Uses one allocation; the caller sets the other fields. Omits `hidden`, which points into `data`.
 */
static struct notification *
make(const struct frame_notification *frame, struct bytes retry_users, struct bytes data,
     struct bytes hidden, const char *epoch, const struct entry_id *heads, unsigned shards,
     const struct deferral *deferral, const struct ends_mark *mark)
{
    const struct bytes route = frame->head;
    size_t before = hidden.len > 0 ? (size_t)(hidden.at - data.at) : data.len;
    size_t behind = data.len - before - hidden.len;
    char start[START_MAX];
    size_t pos_len;
    size_t start_len = write_start(frame, epoch, heads, shards, deferral, mark, start, &pos_len);
    size_t size = sizeof(struct notification) + shards * sizeof(*heads) +
                  (deferral != NULL || mark != NULL ? REPORTED_MAX : 0) + route.len +
                  retry_users.len + WS_TEXT_HEAD_MAX + start_len + before + behind + 1;
    struct notification *notification = memory_grow(NULL, size);
    unsigned char *at, *text;

    *notification =
        (struct notification){.shared = {.refs = 1, .size = size, .free = free_notification},
                              .shards = (unsigned char)shards,
                              .made_us = clock_monotonic_us()};
    memcpy(notification->heads, heads, shards * sizeof(*heads));
    at = keep_reported(notification, deferral, mark);
    memcpy(at, route.at, route.len);
    if (frame_parse_header((struct bytes){at, route.len}, &notification->frame) != RC_OK)
        abort(); /* these bytes were parsed before */
    at += route.len;
    if (retry_users.len > 0)
        memcpy(at, retry_users.at, retry_users.len);
    notification->retry_users = (struct bytes){at, retry_users.len};
    text = at + retry_users.len + WS_TEXT_HEAD_MAX;
    memcpy(text, start, start_len);
    notification->pos = (struct bytes){text + sizeof(START) - 1, pos_len};
    notification->data = (struct bytes){text + start_len, before + behind};
    memcpy(text + start_len, data.at, before);
    if (behind > 0)
        memcpy(text + start_len + before, hidden.at + hidden.len, behind);
    text[start_len + before + behind] = '}';
    notification->text_len = start_len + before + behind + 1;
    notification->ws_len = notification->text_len + ws_text_header(notification->text_len, text);
    notification->ws = text + notification->text_len - notification->ws_len;
    if (notification->data.len >= LARGE_MIN)
        DL_APPEND2(large, notification, large_prev, large_next);
    return notification;
}

/* Like `make`, for another cursor: the document, and all that is read from it, stay in `source`. */
static struct notification *
make_sharing(struct notification *source, const char *epoch, const struct entry_id *heads,
             const struct deferral *deferral, const struct ends_mark *mark)
{
    const unsigned shards = source->shards;
    char start[START_MAX];
    size_t pos_len;
    size_t start_len = write_start(&source->frame.as.notification, epoch, heads, shards, deferral,
                                   mark, start, &pos_len);
    size_t size = sizeof(struct notification) + shards * sizeof(*heads) + REPORTED_MAX +
                  WS_TEXT_HEAD_MAX + start_len;
    struct notification *notification = memory_grow(NULL, size);
    unsigned char *text;

    *notification = *source;
    notification->shared = (struct shared){.refs = 1, .size = size, .free = free_notification};
    notification->made_us = clock_monotonic_us();
    notification->source = notification_ref(source);
    memcpy(notification->heads, heads, shards * sizeof(*heads));
    text = keep_reported(notification, deferral, mark) + WS_TEXT_HEAD_MAX;
    memcpy(text, start, start_len);
    notification->pos = (struct bytes){text + sizeof(START) - 1, pos_len};
    notification->rest = (struct bytes){source->data.at, source->data.len + 1};
    notification->text_len = start_len + notification->rest.len;
    notification->ws = text - ws_text_header(notification->text_len, text);
    notification->ws_len = (size_t)(text - notification->ws) + notification->text_len;
    return notification;
}

/* Returns a large notification with this document, from the same stream entry. NULL: none. */
static struct notification *
find_large(unsigned char shard, struct entry_id id, const struct frame_notification *frame,
           uint16_t attempts)
{
    struct notification *notification;

    DL_FOREACH2(large, notification, large_next)
    {
        if (entry_id_equal(notification->id, id) && notification->shard == shard &&
            memcmp(notification->frame.as.notification.id, frame->id, sizeof(frame->id)) == 0 &&
            notification->frame.as.notification.attempts == attempts)
            return notification;
    }
    return NULL;
}

/* Sets `attempts` to 1. False: the document has another format. */
static bool
mark_late(struct notification *notification)
{
    const struct bytes digits = notification_attempts(notification->data);
    unsigned char *data =
        notification->ws + notification->ws_len - 1 - notification->data.len; /* writable */

    if (digits.len != 1 || digits.at[0] != '0')
        return false;
    data[digits.at - notification->data.at] = '1';
    notification->frame.as.notification.attempts = 1;
    return true;
}

/* A late change of a row, which gets `attempts` 1. */
static bool
is_marked_late(const struct entry *entry)
{
    return entry->is_late && !entry->is_retry &&
           entry->frame.as.notification.operation != FRAME_OPERATION_NOTIFY;
}

struct notification *
notification_new(const struct entry *entry, bool hides_targets, const char *epoch,
                 const struct entry_id *heads, unsigned shards)
{
    const struct frame_notification *frame = &entry->frame.as.notification;
    const struct bytes hidden = hides_targets ? notification_targets(entry->data) : NOTHING;
    struct notification *source = NULL;
    struct notification *notification;

    if (entry->data.len >= LARGE_MIN)
        source =
            find_large(entry->shard, entry->id, frame, is_marked_late(entry) ? 1 : frame->attempts);
    notification = source != NULL ? make_sharing(source, epoch, heads, NULL, NULL)
                                  : make(frame, entry->retry_users, entry->data, hidden, epoch,
                                         heads, shards, NULL, NULL);
    notification->is_retry = entry->is_retry;
    notification->expires_us = entry->expires_us;
    notification->shard = entry->shard;
    notification->id = entry->id;
    notification->first = entry->first;
    notification->needs_ack = (entry->frame.flags & FRAME_ACK_REQUIRED) != 0;
    if (source == NULL && is_marked_late(entry))
        (void)mark_late(notification);
    return notification;
}

struct notification *
notification_new_line(const char *text, size_t len)
{
    const size_t size = sizeof(struct notification) + WS_TEXT_HEAD_MAX + len;
    struct notification *line = memory_new(size);
    unsigned char *at = (unsigned char *)(line + 1) + WS_TEXT_HEAD_MAX;

    line->shared = (struct shared){.refs = 1, .size = size, .free = free_notification};
    line->is_line = true;
    line->frame.as.notification.priority = FRAME_PRIORITY_LOW;
    line->made_us = clock_monotonic_us();
    memcpy(at, text, len);
    line->text_len = len;
    line->ws = at - ws_text_header(len, at);
    line->ws_len = (size_t)(at - line->ws) + len;
    return line;
}

struct notification *
notification_new_end(uint64_t xid, const char *epoch, const struct entry_id *heads, unsigned shards,
                     const struct deferral *deferral, const struct ends_mark *mark)
{
    static const char start[] = "{\"t\":\"end\",\"x\":\"", middle[] = "\",\"pos\":\"";
    char pos[CLIENT_POS_MAX], digits[BYTES_DECIMAL_MAX + 1];
    const size_t digits_len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, xid);
    size_t pos_len, text_len, size;
    struct notification *end;
    char *at;

    client_pos_text(epoch, heads, shards, deferral, pos);
    client_pos_mark(pos, mark);
    pos_len = strlen(pos);
    text_len = sizeof(start) - 1 + digits_len + sizeof(middle) - 1 + pos_len + 2;
    size = sizeof(struct notification) + shards * sizeof(*heads) + WS_TEXT_HEAD_MAX + text_len;
    end = memory_new(size);
    end->shared = (struct shared){.refs = 1, .size = size, .free = free_notification};
    end->is_line = end->is_end = true;
    end->shards = (unsigned char)shards;
    memcpy(end->heads, heads, shards * sizeof(*heads));
    end->made_us = clock_monotonic_us();
    at = (char *)(end->heads + shards) + WS_TEXT_HEAD_MAX;
    end->ws = (unsigned char *)at - ws_text_header(text_len, (unsigned char *)at);
    end->ws_len = (size_t)((unsigned char *)at - end->ws) + text_len;
    end->text_len = text_len;
    at = write_literal(at, start);
    memcpy(at, digits, digits_len);
    at = write_literal(at + digits_len, middle);
    end->pos = (struct bytes){(unsigned char *)at, pos_len};
    memcpy(at, pos, pos_len);
    memcpy(at + pos_len, "\"}", 2);
    return end;
}

/* Copies all bytes. */
static struct notification *
copy(const struct notification *notification, const char *epoch, const struct entry_id *heads,
     const struct deferral *deferral, const struct ends_mark *mark)
{
    struct notification *copied =
        make(&notification->frame.as.notification, notification->retry_users, notification->data,
             NOTHING, epoch, heads, notification->shards, deferral, mark);

    copied->is_retry = notification->is_retry;
    copied->expires_us = notification->expires_us;
    copied->shard = notification->shard;
    copied->id = notification->id;
    copied->first = notification->first;
    copied->needs_ack = notification->needs_ack;
    copied->made_us = notification->made_us;
    copied->frame.as.notification.attempts = notification->frame.as.notification.attempts;
    return copied;
}

static struct notification *
move(struct notification *notification, const char *epoch, const struct entry_id *heads,
     const struct deferral *deferral, const struct ends_mark *mark)
{
    struct notification *moved;

    if (notification->data.len < LARGE_MIN)
        return copy(notification, epoch, heads, deferral, mark);
    moved = make_sharing(notification->source != NULL ? notification->source : notification, epoch,
                         heads, deferral, mark);
    moved->first = notification->first;
    moved->made_us = notification->made_us;
    return moved;
}

struct notification *
notification_new_at(struct notification *notification, const char *epoch,
                    const struct entry_id *heads, const struct deferral *deferral)
{
    return move(notification, epoch, heads, deferral, notification->mark);
}

struct notification *
notification_new_marked(struct notification *notification, const char *epoch,
                        const struct ends_mark *mark)
{
    return move(notification, epoch, notification->heads, notification->deferral, mark);
}

struct notification *
notification_new_late(const struct notification *notification, const char *epoch)
{
    const struct frame_notification *frame = &notification->frame.as.notification;
    struct notification *late = NULL;

    if (notification->data.len >= LARGE_MIN)
        late = find_large(notification->shard, notification->id, frame, 1);
    if (late != NULL)
        return move(late, epoch, notification->heads, notification->deferral, notification->mark);
    late =
        copy(notification, epoch, notification->heads, notification->deferral, notification->mark);
    if (mark_late(late))
        return late;
    notification_unref(late);
    return NULL;
}

bool
notification_is_expired(const struct notification *notification)
{
    return notification->expires_us != 0 && notification->expires_us <= clock_wall_us();
}

/* ---- batches */

static unsigned files; /* number of open files of all batches */

static bool
is_plain(const struct notification *notification)
{
    return !notification->needs_ack && !notification->is_retry &&
           !notification_is_expired(notification);
}

static bool
have_same_recipients(const struct notification *a, const struct notification *b)
{
    const struct frame_notification *x = &a->frame.as.notification, *y = &b->frame.as.notification;

    return a->shard == b->shard && x->priority == y->priority &&
           bytes_equal(x->audience, y->audience) && bytes_equal(x->topic, y->topic) &&
           bytes_equal(x->targets, y->targets);
}

unsigned
fanout_batch_span(struct notification *const *notifications, unsigned count)
{
    unsigned span = 1;
    size_t bytes;

    if (count == 0 || !is_plain(notifications[0]))
        return 0;
    bytes = notifications[0]->ws_len;
    while (span < count && span < BATCH_COUNT_MAX && is_plain(notifications[span]) &&
           have_same_recipients(notifications[0], notifications[span]) &&
           bytes + notifications[span]->ws_len <= BATCH_BYTES_MAX) {
        bytes += notifications[span]->ws_len;
        span++;
    }
    return span;
}

static void
free_batch(struct shared *shared)
{
    struct fanout_batch *batch = (struct fanout_batch *)shared;

    if (batch->file >= 0) {
        close(batch->file);
        files--;
    }
    if (batch->count > 1)
        free(batch->bytes);
    for (unsigned i = 0; i < batch->count; i++)
        notification_unref(batch->notifications[i]);
    free(batch);
}

struct fanout_batch *
fanout_batch_new(struct notification *const *notifications, unsigned count)
{
    struct fanout_batch *batch = memory_new(sizeof(*batch) + count * sizeof(struct notification *));
    size_t at = 0;

    batch->shared = (struct shared){.refs = 1, .free = free_batch};
    batch->count = count;
    batch->file = -1;
    for (unsigned i = 0; i < count; i++) {
        batch->notifications[i] = notification_ref(notifications[i]);
        batch->len += notifications[i]->ws_len;
        if (batch->first_message == NULL && !notifications[i]->is_end)
            batch->first_message = notifications[i];
        batch->message_count += !notifications[i]->is_end;
        batch->is_mixed |= notifications[i]->frame.commit_lsn != notifications[0]->frame.commit_lsn;
        if (notifications[i]->expires_us != 0 &&
            (batch->expires_us == 0 || notifications[i]->expires_us < batch->expires_us))
            batch->expires_us = notifications[i]->expires_us;
    }
    if (count == 1) {
        batch->bytes = notifications[0]->ws;
        return batch;
    }
    batch->shared.size = batch->len;
    batch->bytes = memory_grow(NULL, batch->len);
    for (unsigned i = 0; i < count; i++) {
        memcpy(batch->bytes + at, notifications[i]->ws, notifications[i]->ws_len);
        at += notifications[i]->ws_len;
    }
    return batch;
}

int
fanout_batch_file(struct fanout_batch *batch)
{
    if (batch->len < BATCH_FILE_BYTES_MIN || batch->len > BATCH_FILE_BYTES_MAX ||
        ++batch->sends != BATCH_FILE_SENDS || files == BATCH_FILES_MAX)
        return batch->file;
    /* Sockets keep its pages after the file is closed. */
    batch->file = memfd_create("clairon batch", MFD_CLOEXEC);
    if (batch->file >= 0 && write(batch->file, batch->bytes, batch->len) != (ssize_t)batch->len) {
        close(batch->file);
        batch->file = -1;
    }
    files += batch->file >= 0;
    return batch->file;
}

/*
 * False if a notification of `next` may have to overtake those of the other batch. An end of a
 * transaction overtakes nothing, and is overtaken only together with a notification before it.
 */
static bool
have_same_priority(const struct fanout_batch *waiting, const struct fanout_batch *next)
{
    return waiting->first_message == NULL || next->first_message == NULL ||
           waiting->first_message->frame.as.notification.priority ==
               next->first_message->frame.as.notification.priority;
}

struct fanout_batch *
merged_batch_of(struct merged_batch *merged, struct fanout_batch *waiting,
                struct fanout_batch *next)
{
    struct notification *notifications[BATCH_COUNT_MAX];

    if (merged->waiting == waiting && merged->next == next)
        return merged->whole;
    if (waiting->shared.refs < MERGED_BATCH_SHARES || merged->made == MERGED_BATCHES_MAX ||
        !have_same_priority(waiting, next) || waiting->count + next->count > BATCH_COUNT_MAX ||
        waiting->len + next->len > BATCH_BYTES_MAX ||
        fanout_batch_is_stale(waiting, clock_wall_us()))
        return NULL;
    fanout_batch_unref(merged->waiting);
    fanout_batch_unref(merged->next);
    fanout_batch_unref(merged->whole);
    merged->waiting = fanout_batch_ref(waiting);
    merged->next = fanout_batch_ref(next);
    memcpy(notifications, waiting->notifications, waiting->count * sizeof(*notifications));
    memcpy(notifications + waiting->count, next->notifications,
           next->count * sizeof(*notifications));
    merged->whole = fanout_batch_new(notifications, waiting->count + next->count);
    merged->made++;
    return merged->whole;
}

void
merged_batch_end(struct merged_batch *merged)
{
    fanout_batch_unref(merged->waiting);
    fanout_batch_unref(merged->next);
    fanout_batch_unref(merged->whole);
    *merged = (struct merged_batch){0};
}
