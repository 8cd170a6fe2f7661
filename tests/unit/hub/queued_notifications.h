/* queued_notifications.h: notifications for one_session.h, and a fake socket. */
#ifndef CLAIRON_TESTS_UNIT_QUEUED_NOTIFICATIONS_H
#define CLAIRON_TESTS_UNIT_QUEUED_NOTIFICATIONS_H

#include <stdio.h>
#include <sys/uio.h>

#include "gate/ws/websocket.h"
#include "tests/unit/heads.h"
#include "tests/unit/hub/one_session.h"

/*
 * Accepts `room` bytes per call and, like a WebSocket, keeps the remaining bytes of a partly
 * written frame.
 */
struct fake {
    unsigned char got[2 * SESSION_CONTROL_MAX];
    size_t len;
    size_t room;
    int calls;
};

static struct fake fake;

static inline enum rc
fake_send(void *socket, const struct session_pieces *pieces, size_t *ret_written)
{
    struct fake *to = socket;
    struct out rest = {.waiting_bytes = &hub.queued_bytes};
    size_t total = 0;
    size_t left = to->room;

    to->calls++;
    for (int i = 0; i < pieces->count; i++) {
        size_t len = pieces->at[i].iov_len < left ? pieces->at[i].iov_len : left;

        memcpy(to->got + to->len, pieces->at[i].iov_base, len);
        to->len += len;
        left -= len;
        total += pieces->at[i].iov_len;
    }
    *ret_written = to->room < total ? to->room : total;
    if (*ret_written == total)
        return RC_OK;
    *ret_written += gate_send_rest(&rest, pieces, *ret_written);
    for (const struct out_part *part = rest.first; part != NULL; part = part->next) {
        memcpy(to->got + to->len, part->at, part->len);
        to->len += part->len;
    }
    out_free(&rest);
    return RC_AGAIN;
}

static const struct session_transport TRANSPORT = {.send = fake_send};

static inline int
set_up(void **state)
{
    (void)state;
    open_session(&TRANSPORT, &fake, 1);
    fake = (struct fake){.room = SIZE_MAX};
    return 0;
}

static inline int
tear_down(void **state)
{
    (void)state;
    close_session();
    assert_int_equal(hub.queued_bytes, 0);
    return 0;
}

/* A notification for ALL. Its data is the number `ms`. */
static inline struct notification *
make_notification(uint64_t ms, uint8_t priority)
{
    unsigned char head[HEAD_FOR_ALL];
    struct entry entry = {.id = {ms, 0}};
    char data[32];

    head_for_all(head);
    head[FRAME_NOTIFICATION_AT_PRIORITY] = priority;
    assert_int_equal(frame_parse_header((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    snprintf(data, sizeof(data), "%d", (int)ms);
    entry.data = (struct bytes){(const unsigned char *)data, strlen(data)};
    return notification_new(&entry, false, "e", &entry.id, 1);
}

static inline void
queue_notification(uint64_t ms, uint8_t priority)
{
    struct notification *notification = make_notification(ms, priority);

    session_queue(&session, notification);
    notification_unref(notification);
}

/* All payloads sent, each followed by a space. Fails if the bytes are not complete frames. */
static inline const char *
sent_text(void)
{
    static char text[2 * SESSION_CONTROL_MAX];
    size_t at = 0;
    size_t len = 0;

    while (at < fake.len) {
        size_t frame_len = ws_frame_len(fake.got + at);
        size_t head_len = fake.got[at + 1] < 126 ? 2 : 4;

        assert_int_equal(fake.got[at], 0x81);
        assert_true(at + frame_len <= fake.len);
        memcpy(text + len, fake.got + at + head_len, frame_len - head_len);
        len += frame_len - head_len;
        text[len++] = ' ';
        at += frame_len;
    }
    text[len] = '\0';
    return text;
}

#define MSG(pos, data) "{\"t\":\"msg\",\"pos\":\"e." pos "\",\"n\":" data "} "

static inline struct fanout_batch *
make_batch(uint64_t from, unsigned count)
{
    struct notification *notifications[BATCH_COUNT_MAX] = {NULL};
    struct fanout_batch *batch;

    for (unsigned i = 0; i < count; i++)
        notifications[i] = make_notification(from + i, FRAME_PRIORITY_NORMAL);
    assert_int_equal(fanout_batch_span(notifications, count), count);
    batch = fanout_batch_new(notifications, count);
    for (unsigned i = 0; i < count; i++)
        notification_unref(notifications[i]);
    return batch;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
