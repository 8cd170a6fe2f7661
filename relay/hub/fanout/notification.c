/* notification.c: one notification in memory. */
#include "hub/fanout/notification.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "decoder/protocol/envelope.h"
#include "hub/fanout/client_pos.h"
#include "wire/notification_json.h"
#include "wire/ws_frame.h"

#define TAIL_MAX 128 /* maximum bytes of a notification from `attempts` on */

static const char START[] = "{\"t\":\"msg\",\"pos\":\"";
static const char BEFORE_XID[] = "\",\"x\":\"";
static const char BEFORE_RULE[] = "\",\"rule\":\"";
static const char MIDDLE[] = "\",\"n\":";
static const struct bytes NOTHING = {NULL, 0};

#define RULE_JSON_MAX (6 * LIMIT_RULE + 2) /* each byte as \\u00xx, and the quotes */
#define START_MAX                                                                                  \
    (sizeof(START) + CLIENT_POS_MAX + sizeof(BEFORE_XID) + BYTES_DECIMAL_MAX +                     \
     sizeof(BEFORE_RULE) + RULE_JSON_MAX + sizeof(MIDDLE))

/* Writes decimal digits without a terminating zero. Returns their end. */
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
            unsigned shards, const struct backlog *backlog, char start[START_MAX])
{
    char *at = write_literal(start, START);

    client_pos_text(epoch, heads, shards, backlog, at);
    at += strlen(at);
    if (frame->xid != 0)
        at = bytes_decimal(frame->xid, write_literal(at, BEFORE_XID));
    if (frame->rule.len > 0)
        at = write_rule(frame->rule, write_literal(at, BEFORE_RULE));
    at = write_literal(at, MIDDLE);
    return (size_t)(at - start);
}

/*
 * Uses one allocation; the caller sets the other fields. Omits `hidden`, which points into `data`.
 */
static struct notification *
make(const struct frame_notification *frame, struct bytes retry_users, struct bytes data,
     struct bytes hidden, const char *epoch, const struct entry_id *heads, unsigned shards,
     const struct backlog *backlog)
{
    const struct bytes route = frame->head;
    size_t before = hidden.len > 0 ? (size_t)(hidden.at - data.at) : data.len;
    size_t behind = data.len - before - hidden.len;
    char start[START_MAX];
    size_t start_len = write_start(frame, epoch, heads, shards, backlog, start);
    struct notification *notification;
    struct backlog *reported;
    unsigned char *at;

    notification = memory_grow(NULL, sizeof(*notification) + shards * sizeof(*heads) +
                                         sizeof(*reported) + route.len + retry_users.len +
                                         WS_TEXT_HEAD_MAX + start_len + before + behind + 1);
    reported = (struct backlog *)(notification->heads + shards);
    at = (unsigned char *)(reported + (backlog != NULL));
    *notification = (struct notification){
        .refs = 1, .shards = (unsigned char)shards, .made_us = clock_monotonic_us()};
    memcpy(notification->heads, heads, shards * sizeof(*heads));
    if (backlog != NULL) {
        *reported = *backlog;
        notification->backlog = reported;
    }
    memcpy(at, route.at, route.len);
    if (frame_parse_header((struct bytes){at, route.len}, &notification->frame) != RC_OK)
        abort(); /* these bytes were parsed before */
    at += route.len;
    if (retry_users.len > 0)
        memcpy(at, retry_users.at, retry_users.len);
    notification->retry_users = (struct bytes){at, retry_users.len};
    notification->text = at + retry_users.len + WS_TEXT_HEAD_MAX;
    memcpy(notification->text, start, start_len);
    notification->data = (struct bytes){notification->text + start_len, before + behind};
    memcpy(notification->text + start_len, data.at, before);
    if (behind > 0)
        memcpy(notification->text + start_len + before, hidden.at + hidden.len, behind);
    notification->text[start_len + before + behind] = '}';
    notification->text_len = start_len + before + behind + 1;
    notification->ws_len =
        notification->text_len + ws_text_header(notification->text_len, notification->text);
    notification->ws = notification->text + notification->text_len - notification->ws_len;
    return notification;
}

/* The last match was written by the decoder: it follows the payload. */
static unsigned char *
find_attempts(const struct notification *notification)
{
    static const char tail[] = ENVELOPE_ATTEMPTS_TEXT "0" ENVELOPE_RETRY_LIMIT_TEXT;
    const size_t len = sizeof(tail) - 1;
    size_t min = notification->data.len > TAIL_MAX ? notification->data.len - TAIL_MAX : 0;
    unsigned char *data = notification->text + (notification->data.at - notification->text);

    for (size_t at = notification->data.len; at >= min + len; at--) {
        if (memcmp(data + at - len, tail, len) == 0)
            return data + at - len + strlen(ENVELOPE_ATTEMPTS_TEXT);
    }
    return NULL;
}

/* False: the document has another format. */
static bool
mark_late(struct notification *notification)
{
    unsigned char *attempts = find_attempts(notification);

    if (attempts == NULL)
        return false;
    *attempts = '1';
    notification->frame.as.notification.attempts = 1;
    return true;
}

static struct notification *
notification_of_entry(const struct entry *entry, struct bytes hidden, const char *epoch,
                      const struct entry_id *heads, unsigned shards)
{
    struct notification *notification = make(&entry->frame.as.notification, entry->retry_users,
                                             entry->data, hidden, epoch, heads, shards, NULL);

    notification->is_retry = entry->is_retry;
    notification->is_open_ended = entry->is_open_ended;
    notification->expires_us = entry->expires_us;
    notification->shard = entry->shard;
    notification->id = entry->id;
    notification->score = entry->score;
    notification->needs_ack = (entry->frame.flags & FRAME_ACK_REQUIRED) != 0;
    if (entry->is_late && !entry->is_retry &&
        entry->frame.as.notification.operation != FRAME_OPERATION_NOTIFY)
        (void)mark_late(notification);
    return notification;
}

struct notification *
notification_new(const struct entry *entry, const char *epoch, const struct entry_id *heads,
                 unsigned shards)
{
    return notification_of_entry(entry, NOTHING, epoch, heads, shards);
}

struct notification *
notification_new_without_targets(const struct entry *entry, const char *epoch,
                                 const struct entry_id *heads, unsigned shards)
{
    return notification_of_entry(entry, notification_targets(entry->data), epoch, heads, shards);
}

struct notification *
notification_new_at(const struct notification *notification, const char *epoch,
                    const struct entry_id *heads, const struct backlog *backlog)
{
    struct notification *moved =
        make(&notification->frame.as.notification, notification->retry_users, notification->data,
             NOTHING, epoch, heads, notification->shards, backlog);

    moved->is_retry = notification->is_retry;
    moved->is_open_ended = notification->is_open_ended;
    moved->expires_us = notification->expires_us;
    moved->shard = notification->shard;
    moved->id = notification->id;
    moved->score = notification->score;
    moved->needs_ack = notification->needs_ack;
    moved->made_us = notification->made_us;
    moved->frame.as.notification.attempts = notification->frame.as.notification.attempts;
    return moved;
}

struct notification *
notification_new_late(const struct notification *notification, const char *epoch)
{
    struct notification *late =
        notification_new_at(notification, epoch, notification->heads, notification->backlog);

    if (mark_late(late))
        return late;
    notification_unref(late);
    return NULL;
}

struct notification *
notification_ref(struct notification *notification)
{
    notification->refs++;
    return notification;
}

void
notification_unref(struct notification *notification)
{
    if (notification != NULL && --notification->refs == 0)
        free(notification);
}

bool
notification_is_expired(const struct notification *notification)
{
    return notification->expires_us != 0 && notification->expires_us <= clock_wall_us();
}
