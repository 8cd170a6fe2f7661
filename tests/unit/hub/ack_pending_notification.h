/* ack_pending_notification.h: a notification that needs an ack. */
#ifndef CLAIRON_TESTS_UNIT_ACK_PENDING_NOTIFICATION_H
#define CLAIRON_TESTS_UNIT_ACK_PENDING_NOTIFICATION_H

#include "tests/unit/heads.h"
#include "hub/session/hub_state.h"

/* A notification for USER u1. `number` is its entry id, its LSN and the last byte of its id. */
static inline struct notification *
ack_pending_notification(unsigned char number)
{
    unsigned char head[HEAD_FOR_U1];
    struct entry entry = {.id = {number, 0}};

    head_for_u1(head);
    head[FRAME_AT_FLAGS + 1] = FRAME_ACK_REQUIRED;
    head[FRAME_NOTIFICATION_AT_ID + 15] = number;
    head[FRAME_AT_COMMIT_LSN + 7] = number;
    assert_int_equal(frame_parse_header((struct bytes){head, sizeof(head)}, &entry.frame), RC_OK);
    entry.data = (struct bytes){(const unsigned char *)"{}", 2};
    return notification_new(&entry, "e", &entry.id, 1);
}

#endif
