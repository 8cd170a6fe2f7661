/* report_queue.c: delivery reports that wait for the store. */
#include "hub/delivery/report_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "hub/session/backlog.h"
#include "hub/session/hub_state.h"
#include "hub/session/ready_list.h"

#define REPORTS_MAX 262144

static void
push(struct hub *hub, struct delivery_report item)
{
    if (hub->shown.count == hub->shown.room) {
        hub->shown.room = hub->shown.room == 0 ? 64 : hub->shown.room * 2;
        hub->shown.items =
            memory_grow(hub->shown.items, hub->shown.room * sizeof(*hub->shown.items));
    }
    hub->shown.items[hub->shown.count++] = item;
}

static bool
has_room(const struct session *session)
{
    if (session->hub->shown.count < REPORTS_MAX)
        return true;
    /* Not lost: it stays pending and is shown at the user's next connect. */
    log_warnf(session->client.name,
              "more than %d lines wait to be reported as shown, leaving one out", REPORTS_MAX);
    return false;
}

static void
add(struct session *session, struct delivery_report item)
{
    struct hub *hub = session->hub;

    item.user = memory_text(session->client.user, strlen(session->client.user));
    push(hub, item);
    if (hub->shown.calls == 0 || hub->shown.count >= REPORTS_IN_ONE_CALL)
        hub_mark(hub, HUB_FLUSH);
}

static struct delivery_report
item_of(const struct note *note)
{
    struct delivery_report item = {
        .shard = note->shard,
        .backoff = note->frame.as.note.backoff,
        .ack_timeout_ms = note->frame.as.note.ack_timeout_ms,
        .is_retried = (note->frame.flags & FRAME_RETRY_ENABLED) != 0,
        .is_open_ended = note->is_open_ended,
    };

    memcpy(item.id, note->frame.as.note.id, sizeof(item.id));
    return item;
}

void
shown_add(struct session *session, const struct note *note)
{
    if (has_room(session))
        add(session, item_of(note));
}

void
shown_keep(struct session *session, const struct inflight_entry *entry)
{
    struct delivery_report item = {
        .shard = entry->shard,
        .backoff = entry->backoff,
        .ack_timeout_ms = entry->ack_timeout_ms,
        .is_retried = entry->is_retried,
        .is_open_ended = entry->is_open_ended,
        .is_kept = true,
    };

    memcpy(item.id, entry->id, sizeof(item.id));
    if (has_room(session))
        add(session, item);
}

void
shown_defer(struct session *session, struct note *note)
{
    struct delivery_report item = item_of(note);

    if (!has_room(session))
        return;
    session->requests.count++;
    session->inbox.held_count++;
    session->inbox.held_bytes += note->line_len;
    if (!note->is_retry)
        backlog_asked(session, note);
    item.deferred = session;
    item.note = note_ref(note);
    add(session, item);
}
