/* heads.h: frame headers of notifications for tests. */
#ifndef CLAIRON_TESTS_UNIT_HEADS_H
#define CLAIRON_TESTS_UNIT_HEADS_H

#include <string.h>

#include "wire/frame.h"

#define HEAD_FOR_ALL (FRAME_NOTIFICATION_HEAD_SIZE + 3)
#define HEAD_FOR_U1 (FRAME_NOTIFICATION_HEAD_SIZE + 8)

/* The audience is ALL; `head` has room for HEAD_FOR_ALL bytes. */
static inline void
head_for_all(unsigned char *head)
{
    memset(head, 0, FRAME_NOTIFICATION_HEAD_SIZE);
    head[FRAME_AT_KIND] = FRAME_KIND_NOTIFICATION;
    head[FRAME_AT_VERSION] = FRAME_VERSION;
    head[FRAME_NOTIFICATION_AT_AUDIENCE_LEN + 1] = 3;
    memcpy(head + FRAME_NOTIFICATION_HEAD_SIZE, "ALL", 3);
}

/* The audience is USER u1; `head` has room for HEAD_FOR_U1 bytes. */
static inline void
head_for_u1(unsigned char *head)
{
    head_for_all(head);
    head[FRAME_NOTIFICATION_AT_AUDIENCE_LEN + 1] = 4;
    head[FRAME_NOTIFICATION_AT_TARGETS_LEN + 3] = 4;
    head[FRAME_NOTIFICATION_AT_TARGET_COUNT + 3] = 1;
    memcpy(head + FRAME_NOTIFICATION_HEAD_SIZE, "USER\0\2u1", 8);
}

#endif
