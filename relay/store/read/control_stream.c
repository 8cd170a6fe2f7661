/* control_stream.c: reads the streams of ack events, membership changes, reloads and cut-offs. */
#include "store/read/reader_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/servers/link.h"

void
control_read_cursor(const struct redisReply *entry, char at[ENTRY_ID_TEXT_MAX])
{
    struct bytes id = {NULL, 0};

    if (reply_is_array(entry, 1))
        id = reply_bytes(reply_at(entry, 0));
    if (id.at != NULL && id.len < ENTRY_ID_TEXT_MAX)
        snprintf(at, ENTRY_ID_TEXT_MAX, "%.*s", (int)id.len, (const char *)id.at);
}

void
control_handle_ack_events(const struct reader_events *events, const char *own_name,
                          const struct redisReply *entries, char at[ENTRY_ID_TEXT_MAX])
{
    for (size_t i = 0; i < reply_count(entries); i++) {
        const struct redisReply *entry = reply_at(entries, i);
        struct bytes by, acked, gone;

        control_read_cursor(entry, at);
        if (!reply_is_array(entry, 2))
            continue;
        gone = reply_field(reply_at(entry, 1), "gone");
        if (gone.len > 0)
            events->on_gone_pairs(events->ctx, gone);
        acked = reply_field(reply_at(entry, 1), "acked");
        by = reply_field(reply_at(entry, 1), "by");
        if (acked.len > 0 && !bytes_equal_text(by, own_name))
            events->on_acked_pairs(events->ctx, acked);
    }
}

/* Some changes have no xid. A reply's strings end with a zero byte. */
static uint64_t
read_xid(struct bytes text)
{
    return text.at != NULL ? strtoull((const char *)text.at, NULL, 10) : 0;
}

/* One of the changes of a control stream entry: a range of its fields. */
struct change {
    const struct redisReply *fields;
    size_t from;
    size_t to;
};

/* Advances to the next change; start with {fields, 0, 0}. Each change begins with `change`. */
static bool
next_change(struct change *change)
{
    const size_t count = reply_count(change->fields);

    change->from = change->to;
    if (change->from + 1 >= count)
        return false;
    for (change->to = change->from + 2; change->to + 1 < count; change->to += 2) {
        if (bytes_equal_text(reply_bytes(reply_at(change->fields, change->to)), "change"))
            break;
    }
    return true;
}

static struct bytes
field_of(const struct change *change, const char *name)
{
    for (size_t i = change->from; i < change->to && i + 1 < reply_count(change->fields); i += 2) {
        if (bytes_equal_text(reply_bytes(reply_at(change->fields, i)), name))
            return reply_bytes(reply_at(change->fields, i + 1));
    }
    return (struct bytes){NULL, 0};
}

static bool
is_change(const struct change *change, const char *kind)
{
    return bytes_equal_text(field_of(change, "change"), kind);
}

static void
handle_reload(const struct reader_events *events, const struct redisReply *entry,
              const struct change *change)
{
    struct entry_id id = {0, 0};
    struct reader_reload reload = {.source = field_of(change, "source"),
                                   .rule = field_of(change, "rule"),
                                   .xid = read_xid(field_of(change, "xid"))};

    if (reload.source.at == NULL || reload.rule.at == NULL || reply_entry_id(entry, &id) != RC_OK)
        return;
    reload.added_us = (int64_t)id.ms * 1000;
    events->on_reload(events->ctx, &reload);
}

static void
handle_earlier_forgotten(const struct reader_events *events, const struct redisReply *entry,
                         const struct change *change)
{
    struct entry_id id;

    if (reply_entry_id(entry, &id) == RC_OK)
        events->on_forgotten(events->ctx, field_of(change, "hash"), (int64_t)id.ms * 1000);
}

static void
handle_member(const struct reader_events *events, const struct change *change)
{
    const struct reader_member member = {.added = is_change(change, "+"),
                                         .audience = field_of(change, "audience"),
                                         .target = field_of(change, "target"),
                                         .user = field_of(change, "user"),
                                         .xid = read_xid(field_of(change, "xid"))};

    if (member.user.at != NULL && member.target.at != NULL)
        events->on_member(events->ctx, &member);
}

static void
handle_cutoff(const struct reader_events *events, const struct change *change)
{
    struct cutoff cutoff;

    if (cutoff_read(field_of(change, "digest"), field_of(change, "value"), &cutoff))
        events->on_cutoff(events->ctx, &cutoff);
}

void
control_handle_changes(const struct reader_events *events, const struct redisReply *entries,
                       char at[ENTRY_ID_TEXT_MAX])
{
    for (size_t i = 0; i < reply_count(entries); i++) {
        const struct redisReply *entry = reply_at(entries, i);
        struct change change = {.from = 0};

        if (!reply_is_array(entry, 2))
            continue;
        control_read_cursor(entry, at);
        change.fields = reply_at(entry, 1);
        while (next_change(&change)) {
            if (is_change(&change, "="))
                events->on_resumed(events->ctx); /* earlier removals may be missing */
            else if (is_change(&change, "reload"))
                handle_reload(events, entry, &change);
            else if (is_change(&change, "cutoff"))
                handle_cutoff(events, &change);
            else if (is_change(&change, "forgotten"))
                events->on_forgotten(events->ctx, field_of(&change, "hash"), 0);
            else
                handle_member(events, &change);
        }
    }
}

/*
 * Counts the control stream's entries after `at`. ret_is_complete: the reply contains all of these
 * entries.
 */
static size_t
count_unread(const struct redisReply *newest, const char *at, bool *ret_is_complete)
{
    const size_t count = reply_count(newest);
    char id[ENTRY_ID_TEXT_MAX] = "";
    size_t unread;

    for (unread = 0; unread < count; unread++) {
        control_read_cursor(reply_at(newest, unread), id);
        if (strcmp(id, at) == 0)
            break;
    }
    /* "0-0": the stream was empty at the last read. */
    *ret_is_complete =
        at[0] == '\0' || unread < count || (strcmp(at, "0-0") == 0 && count < CONTROL_NEWEST_MAX);
    return unread;
}

bool
control_handle_newest(const struct reader_events *events, const struct redisReply *newest,
                      char at[ENTRY_ID_TEXT_MAX])
{
    bool is_complete;
    size_t unread = count_unread(newest, at, &is_complete);

    snprintf(at, ENTRY_ID_TEXT_MAX, "0-0");
    control_read_cursor(reply_at(newest, 0), at);
    for (; unread > 0; unread--) {
        const struct redisReply *entry = reply_at(newest, unread - 1);
        struct change change = {.from = 0};

        if (!reply_is_array(entry, 2))
            continue;
        change.fields = reply_at(entry, 1);
        while (next_change(&change)) {
            if (is_change(&change, "reload"))
                handle_reload(events, entry, &change);
            else if (is_change(&change, "forgotten"))
                handle_earlier_forgotten(events, entry, &change);
        }
    }
    if (!is_complete)
        events->on_reload(events->ctx, NULL);
    return is_complete;
}

void
control_handle_missed(const struct reader_events *events, const struct redisReply *entries,
                      char at[ENTRY_ID_TEXT_MAX])
{
    for (size_t i = 0; i < reply_count(entries); i++) {
        const struct redisReply *entry = reply_at(entries, i);
        struct change change = {.from = 0};

        control_read_cursor(entry, at);
        change.fields = reply_at(entry, 1);
        while (next_change(&change))
            if (is_change(&change, "forgotten"))
                handle_earlier_forgotten(events, entry, &change);
    }
}

static void send_missed(struct reader *reader);

static void
on_missed(void *ctx, const struct redisReply *reply)
{
    struct reader *reader = ctx;

    if (reply == NULL)
        return; /* control_reconnected continues */
    if (reply_is_error(reply)) {
        link_restart(reader->control.link, reply_text(reply));
        return;
    }
    control_handle_missed(&reader->events, reply, reader->control_missed);
    if (reply_count(reply) < CONTROL_NEWEST_MAX)
        reader->control_missed[0] = '\0';
    else
        send_missed(reader);
}

static void
send_missed(struct reader *reader)
{
    char from[ENTRY_ID_TEXT_MAX + 1], count[16];
    const char *argv[] = {"XRANGE", reader->control.key, from, "+", "COUNT", count};

    snprintf(from, sizeof(from), "(%s", reader->control_missed);
    snprintf(count, sizeof(count), "%d", CONTROL_NEWEST_MAX);
    if (link_send(reader->control.link, on_missed, reader, 6, argv, NULL) != RC_OK)
        link_restart(reader->control.link, "could not send a command");
}

/* Memberships and cut-offs are read again anyway, but users may have been removed. */
void
control_reconnected(struct reader *reader, const struct redisReply *newest)
{
    char before[ENTRY_ID_TEXT_MAX];
    bool is_complete;

    memcpy(before, reader->control.at, sizeof(before));
    is_complete = control_handle_newest(&reader->events, newest, reader->control.at);
    if (!is_complete && reader->control_missed[0] == '\0')
        memcpy(reader->control_missed, before, sizeof(before));
    if (reader->control_missed[0] != '\0')
        send_missed(reader);
}

/* Entries between `before` and the oldest entry were missed: this process was paused. */
static void
on_oldest(void *ctx, const struct redisReply *reply)
{
    struct tail *tail = ctx;
    char oldest_text[ENTRY_ID_TEXT_MAX] = "0-0";
    struct entry_id oldest, before;

    if (reply_is_error(reply)) {
        link_restart(tail->link, reply_text(reply)); /* the reconnect checks the new positions */
        return;
    }
    if (reply_is_array(reply, 1))
        control_read_cursor(reply_at(reply, 0), oldest_text);
    if (entry_id_read(oldest_text, strlen(oldest_text), &oldest) == RC_OK &&
        entry_id_read(tail->before, strlen(tail->before), &before) == RC_OK &&
        entry_id_less(before, oldest))
        tail->has_missed = true;
}

bool
tail_begin(struct tail *tail, const struct redisReply *entries, size_t max)
{
    const char *argv[] = {"XRANGE", tail->key, "-", "+", "COUNT", "1"};

    if (reply_count(entries) < max)
        return false;
    snprintf(tail->before, sizeof(tail->before), "%s", tail->at);
    if (link_send(tail->link, on_oldest, tail, 6, argv, NULL) != RC_OK)
        tail->has_missed = true;
    return true;
}

bool
tail_has_missed(struct tail *tail)
{
    bool has_missed = tail->has_missed;

    tail->has_missed = false;
    return has_missed;
}

void
tail_reset(struct tail *tail)
{
    tail->at[0] = tail->before[0] = '\0';
    tail->has_missed = false;
}
