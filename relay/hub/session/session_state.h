/* session_state.h: what a session is made of, and the states it goes through. */
#ifndef CLAIRON_HUB_SESSION_SESSION_STATE_H
#define CLAIRON_HUB_SESSION_SESSION_STATE_H

#include <stddef.h>

#include "base/buffer.h"
#include "hub/fanout/audience.h"
#include "hub/fanout/topics.h"
#include "hub/session/inbox.h"
#include "hub/session/inflight.h"
#include "hub/session/outbound.h"

struct hub;
struct session_transport;
struct row_order; /* row_order.c */

/*
 * What a session does next. session_advance starts it; only session_set_state changes it. In all but
 * LIVE and CLOSED at most one request to the store is under way for the session itself.
 *
 * GROUPING: it asks the store for its user's memberships. Nothing was sent, not even `connected`.
 * Then: CHECKING.
 *
 * CHECKING: it looks up whether all that follows the client's position still exists, and whether
 * the backlog that the position reports still waits. It ends with `connected`, after a `gap` if
 * something was lost. Then: INBOX.
 *
 * INBOX: it reads its user's inbox page by page: notifications up to its cursor that wait for an
 * acknowledgement. It ends at the last page, or when the in-flight window is full. New
 * notifications are not offered: they follow the cursor. Then: CATCHING_UP.
 *
 * CATCHING_UP: it reads what follows its cursor, from the replay buffer or from the store. A full
 * outbound queue suspends that until the socket took something. Then: LIVE.
 *
 * LIVE: the hub offers it new notifications. It falls back to CATCHING_UP when its queue is full,
 * and to INBOX when notifications there can be sent now (see enum inbox_refill).
 *
 * CLOSED: the socket is gone. It is freed once no answer of the store and no list holds it.
 */
enum __attribute__((packed)) session_state {
    SESSION_GROUPING,
    SESSION_CHECKING,
    SESSION_INBOX,
    SESSION_CATCHING_UP,
    SESSION_LIVE,
    SESSION_CLOSED
};

/*
 * The memberships of clairon.member, as the store answered last. Nothing is judged by them while
 * they may be those of before.
 *
 * CURRENT: they are followed change by change.
 * WANTED: they are asked for once the store is back.
 * ASKED: the answer is under way.
 * STALE: likewise, but it may have been made before a change: then they are asked for again.
 */
enum groups_state { GROUPS_CURRENT, GROUPS_WANTED, GROUPS_ASKED, GROUPS_STALE };

struct session_groups {
    struct membership *memberships;
    enum groups_state state;
};

/*
 * A session's turn to read a page of the stream: see struct resumes.
 *
 * NONE: it does not need one. WAITING: another session of its user reads, or the budget is used up.
 * GRANTED: it is the next to ask, and is marked to advance; if it does not ask, the turn passes on.
 */
enum page_turn { PAGE_TURN_NONE, PAGE_TURN_WAITING, PAGE_TURN_GRANTED };

/* What the client brought, and what `connected` reports of it. */
struct session_client {
    char *user;
    char *name; /* for the log */
    int64_t expires_s;
    int64_t request_id;
    bool has_request_id;
    unsigned char own_shard; /* of its user */
};

/* Lines of its own, sent before notifications, and the gaps that are to be announced by them. */
struct session_control {
    struct buffer lines;     /* each with its '\n' */
    struct cursor lost_from; /* where a gap that is not announced yet begins .. */
    const char *lost_why;    /* .. and why; NULL: there is none */
    bool has_dropped;        /* notifications were left out in this stretch */
};

/* How its socket takes what is sent. */
struct session_socket {
    void *handle;
    const struct session_transport *transport;
};

/* While the socket takes nothing; both 0 unless session->is_timed. */
struct session_stall {
    size_t skipped_bytes; /* offered while the session was paused */
    int64_t taken_us;     /* when it last took something; monotonic */
};

/* Where a session resumes, and its turn to read pages. */
struct session_resume {
    char *pos; /* from the client; NULL once used */
    union {
        struct cursor checked;  /* nothing was lost between its position and here; then: */
        struct cursor began_at; /* where it was to resume */
    };
    struct session *next; /* of the same user, while WAITING */
    struct session *prev;
    unsigned checked_pages;
    bool is_continued; /* a poll: the one before reported where this one resumes */
    bool is_caught_up; /* it was live once */
    enum page_turn turn;
};

/* Answers of the store. */
struct session_requests {
    unsigned count;  /* under way, that hold the session's address */
    bool is_awaited; /* one of them, or its turn to resume, will call session_advance */
    bool has_failed; /* the last one reported an error */
};

struct session_order {
    struct backlog *backlog; /* NULL: none, and nothing to report of one */
    struct row_order *rows;  /* NULL: no notification of a row that needs an ack was queued yet */
};

struct session { /* from a pool: at the start of a cache line */
    struct hub *hub;
    struct topics *topics; /* that it is shown; NULL: all */
    struct session *next;
    struct session *prev;
    struct session_requests requests;
    struct outbound outbound;
    /* With the second half of `outbound` one cache line: all that a fan-out reads of a session. */
    enum session_state state;
    bool is_blocked;  /* the transport calls session_writable */
    uint8_t ready;    /* enum ready_reason: the ready list refers to it */
    bool has_control; /* lines of its own wait, or a gap that is not told yet */
    bool has_topics;  /* it is not shown all: see topics */
    bool is_timed;    /* see stall */
    bool has_backlog; /* its lines report one: see order */
    bool is_poll;     /* it lasts for one answer */
    struct session *ready_next;
    struct session_socket socket;
    struct cursor cursor; /* all up to here was queued, or was not for this user */
    /* The rest, from the cursor's own half on. */
    struct session_groups groups;
    struct session_client client;
    struct session_control control;
    struct session_stall stall;
    struct session_order order;
    struct session_resume resume;
    struct session *step_next; /* in the ready list */
    struct inbox inbox;
    struct inflight inflight;
};

_Static_assert(offsetof(struct session, outbound.batch) == 64 &&
                   offsetof(struct session, cursor.own) == 128,
               "a fan-out reads one cache line of a session");

#endif
