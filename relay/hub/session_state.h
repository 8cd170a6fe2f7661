/* session_state.h: the parts of a session, and its states. */
#ifndef CLAIRON_HUB_SESSION_STATE_H
#define CLAIRON_HUB_SESSION_STATE_H

#include <stddef.h>

#include "base/buffer.h"
#include "hub/client_pos.h"
#include "hub/groups.h"
#include "hub/inflight.h"
#include "hub/outbound.h"
#include "hub/subscription.h"
#include "hub/session.h"
#include "store/cursor.h"

struct hub;
struct session_lists; /* lists.h */
struct session_transport;
struct row_order; /* row_order.c */

/*
 * The states of a session. session_advance processes them; only session_set_state changes them.
 * Except in LIVE and CLOSED, at most one request of the session for a page is pending.
 *
 * LOADING: requests the user's memberships, then checks that all stream entries after the client's
 * cursor still exist. Ends with `connected`, before which nothing is sent. Next: PENDING.
 *
 * PENDING: reads the user's pending list page by page: notifications up to the cursor that wait for
 * an acknowledgement. Ends at the last page, or when the in-flight window is full. New
 * notifications are not offered, because they follow the cursor. Next: STREAM.
 *
 * STREAM: reads the notifications after the cursor, from the replay buffer or from the store. A
 * full outbound queue suspends the reading until the socket is writable. Next: LIVE, or PENDING if
 * the pending list must be read on.
 *
 * LIVE: the hub offers new notifications. Next: STREAM when the outbound queue is full, or to read
 * the pending list on (struct session_pending).
 *
 * FAILED: an unlisted transition was attempted. The next step closes the client's connection. Next:
 * CLOSED.
 *
 * CLOSED: the socket is closed. The session is freed once no pending reply or list refers to it.
 */
enum __attribute__((packed)) session_state {
    SESSION_LOADING,
    SESSION_PENDING,
    SESSION_STREAM,
    SESSION_LIVE,
    SESSION_FAILED,
    SESSION_CLOSED
};

/* The client, as reported by `connected`. */
struct session_client {
    char *user;
    char conn[SESSION_CONN_SIZE]; /* id of the connection */
    int64_t expires_s;
    int64_t request_id;
    bool has_request_id;
    unsigned char own_shard; /* shard of the user */
    int64_t attached_us;     /* monotonic time of hub_attach */
};

/* The log fields that identify a session. */
#define LOG_SESSION(session)                                                                       \
    LOG_TEXT("conn", (session)->client.conn), LOG_TEXT("user", (session)->client.user)

/*
 * The control queue, which is sent before notifications; gaps to be added to that queue; and
 * replies to requests for rows. has_control: at least one of these can be sent.
 */
struct session_control {
    struct buffer frames;   /* frames, each with a final '\n' */
    struct cursor gap_from; /* start of a gap to be announced ... */
    const char *gap_why;    /* ... and its reason; NULL: no gap */
    /* load shedding dropped notifications and has not announced it yet */
    bool has_dropped;
    struct session_lists *lists; /* NULL: the client has not requested rows */
};

/* The socket of a session. */
struct session_socket {
    void *handle;
    const struct session_transport *transport;
};

/* Valid while the socket is full. */
struct session_stall {
    size_t skipped_bytes; /* bytes offered while the session was paused */
    int64_t accepted_us;  /* time at which the socket last accepted bytes; monotonic */
};

/*
 * Whether the session reads a page, as one of all sessions. Only pages.c changes it.
 *
 * NONE: it reads none. Next: READING, or one of those below.
 *
 * WAITING: too many pages are being read. SPENT: the budget of its user is spent. Both repeat the
 * request later. Next: NONE.
 *
 * READING: a page was requested. Next: NONE.
 */
enum session_page { PAGE_NONE, PAGE_WAITING, PAGE_SPENT, PAGE_READING };

/* Requests to the store. */
struct session_requests {
    unsigned count;  /* pending requests; their replies refer to the session */
    bool is_awaited; /* a page, or the end of the wait for one, will mark the session to advance */
    bool has_failed; /* the last request failed */
    enum session_page page;
    struct session *page_prev; /* links of resumes.waiting or resumes.spent */
    struct session *page_next;
};

/* How the session begins, until `connected` is sent. */
struct session_resume {
    char *pos; /* cursor from the client; NULL: none, or `connected` was sent */
    union {
        struct cursor checked;    /* in LOADING: nothing was lost up to this cursor */
        struct cursor started_at; /* after LOADING: start of the session */
    };
    unsigned checked_pages;
    bool is_read;           /* `pos` is read: the session has its cursor */
    bool has_checked_ended; /* deferred notifications that ended were checked */
    bool is_lost;           /* one of them is lost */
    bool is_continued;      /* this poll continues from the cursor of the previous poll */
};

/*
 * The user's pending list, and the notifications for which the in-flight window had no room.
 *
 * Without room nothing is held: the session is marked `is_due`, and its `deferral` begins. As soon
 * as half of the slots that the last pass filled are free, a pass reads the pending list on from
 * `at`. What ended in the list meanwhile, because another session acknowledged it, is in the list
 * of the user's ended pairs, from which the pass sends it too. If the list of the ended pairs is
 * too short, or the deferral is `by_stream`, the stream is read instead, from deferral.from.
 */
struct session_pending {
    struct cursor at;         /* notifications up to it were sent, or are not for the session */
    struct deferral deferral; /* valid if session->is_deferred */
    bool is_due;              /* the list must be read on from `at` once there is room */
    bool is_rewound;          /* it must be read from its start, for example after a missed retry */
    bool is_rereading;        /* this pass began at the start of the list */
    bool is_reading_stream;   /* in STREAM: reads the deferred notifications, from deferral.from */
    bool is_waiting;          /* in hub->refills */
    bool is_overdue;          /* ... for long: fills the slots that are free */
    int filled;               /* slots that the last pass filled */
    /* Notifications for groups, until the store states whether the user must acknowledge them. */
    unsigned held_count;
    size_t held_bytes;
    /* Deferred notifications that were sent immediately: the user does not have to acknowledge. */
    unsigned early_count;
    unsigned char (*early)[16];
    struct session *refill_prev; /* links of hub->refills */
    struct session *refill_next;
};

#define EARLY_MAX 256 /* further ones wait until the deferred notifications are read */

struct session { /* from a pool; aligned to a cache line */
    struct hub *hub;
    struct session *next;
    struct session *prev;
    struct session *step_next; /* link of the ready list */
    struct subscription subscription;
    struct outbound outbound;
    /* One cache line with the second half of `outbound`: all fields that a fan-out reads. */
    enum session_state state;
    bool is_blocked;  /* the socket is full; session_writable will be called */
    uint8_t ready;    /* enum ready_reason; nonzero while the session is in the ready list */
    bool has_control; /* see session_control */
    bool has_topics;  /* subscribed to some topics only (subscription) */
    bool is_deferred; /* see session_pending */
    bool is_poll;     /* the session ends with one response */
    struct session *ready_next;
    struct session_socket socket;
    /* all earlier notifications were queued, or do not address this session */
    struct cursor cursor;
    /* A fan-out does not read the second half of the cursor and the fields below. */
    struct session_groups groups;
    struct session_client client;
    struct session_control control;
    struct session_stall stall;
    struct row_order *rows; /* NULL: no row notification that needs an ack has been queued */
    struct session_requests requests;
    struct session_resume resume;
    struct session_pending pending;
    struct inflight inflight;
};

_Static_assert(offsetof(struct session, outbound.batch) == 64 &&
                   offsetof(struct session, cursor.own) == 128,
               "a fan-out reads one cache line of a session");

#endif
