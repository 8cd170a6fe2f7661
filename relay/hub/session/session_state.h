/* session_state.h: the parts of a session, and its states. */
#ifndef CLAIRON_HUB_SESSION_SESSION_STATE_H
#define CLAIRON_HUB_SESSION_SESSION_STATE_H

#include <stddef.h>

#include "base/buffer.h"
#include "hub/parts/groups.h"
#include "hub/parts/inbox.h"
#include "hub/parts/inflight.h"
#include "hub/parts/outbound.h"
#include "hub/parts/page_turn.h"
#include "hub/parts/resume.h"
#include "hub/parts/subscription.h"
#include "hub/session/session.h"

struct hub;
struct session_lists; /* lists.h */
struct session_transport;
struct backlog;   /* fanout/client_pos.h */
struct row_order; /* row_order.c */

/*
 * The states of a session. session_advance processes them; only session_set_state changes them.
 * Except in LIVE and CLOSED, at most one request of the session to the store is pending.
 *
 * GROUPING: requests the user's memberships. Nothing was sent, not even `connected`. Next:
 * CHECKING.
 *
 * CHECKING: checks that all stream entries after the client's cursor still exist, and that the
 * backlog reported with the cursor is still pending. Ends with `connected`, after a `gap` if
 * something was lost. Next: INBOX.
 *
 * INBOX: reads the user's inbox page by page: notifications up to the cursor that wait for an
 * acknowledgement. Ends at the last page, or when the in-flight window is full. New notifications
 * are not offered, because they follow the cursor. Next: CATCHING_UP.
 *
 * CATCHING_UP: reads the notifications after the cursor, from the replay buffer or from the store.
 * A full outbound queue suspends the reading until the socket is writable. Next: LIVE.
 *
 * LIVE: the hub offers new notifications. Next: CATCHING_UP when the outbound queue is full, or
 * INBOX when notifications in the inbox can be sent (enum inbox_refill).
 *
 * CLOSED: the socket is closed. The session is freed once no pending reply or list refers to it.
 */
enum __attribute__((packed)) session_state {
    SESSION_GROUPING,
    SESSION_CHECKING,
    SESSION_INBOX,
    SESSION_CATCHING_UP,
    SESSION_LIVE,
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
 * Whether the session may read a page, as one of all sessions. Only read_pages.c changes it.
 *
 * NONE: it reads none. Next: WAITING, READING.
 *
 * WAITING: too many pages are being read. Next: GRANTED, or NONE if the session ends.
 *
 * GRANTED: it may read a page. Next: READING, or NONE if it needs none.
 *
 * READING: a page was requested. Next: NONE.
 */
enum session_page { PAGE_NONE, PAGE_WAITING, PAGE_GRANTED, PAGE_READING };

/* Requests to the store. */
struct session_requests {
    unsigned count;        /* pending requests; their replies refer to the session */
    bool is_awaited;       /* a reply or a page turn will mark the session to advance */
    bool has_failed;       /* the last request failed */
    struct page_turn turn; /* the session's turn to read a page */
    enum session_page page;
    struct session *page_next; /* link of resumes.first */
};

struct session_order {
    struct backlog *backlog; /* NULL: none */
    struct row_order *rows;  /* NULL: no row notification that needs an ack has been queued */
};

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
    bool has_backlog; /* see session_order */
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
    struct session_order order;
    struct session_requests requests;
    struct session_resume resume;
    struct inbox inbox;
    struct inflight inflight;
};

_Static_assert(offsetof(struct session, outbound.batch) == 64 &&
                   offsetof(struct session, cursor.own) == 128,
               "a fan-out reads one cache line of a session");

#endif
