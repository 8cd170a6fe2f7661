/* ready_list.h: pending work of the current loop iteration. */
#ifndef CLAIRON_HUB_READY_LIST_H
#define CLAIRON_HUB_READY_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct hub;
struct session;

/*
 * Code called by the turn never calls upwards. Such code marks a session, or the hub, with its
 * pending work, which hub/turn.c does before the loop sleeps. A marked session is not freed.
 */
enum ready_reason {
    READY_SEND = 1,   /* write its queues to the socket */
    READY_REFILL = 2, /* read the pending list on, if the in-flight window has room */
    READY_ADVANCE = 4 /* do the next step of its state */
};

/* Pending work of the hub. */
enum hub_work {
    HUB_FLUSH = 1, /* send delivery reports, then acks */
    HUB_REFILL = 2 /* refill sessions that waited until acks were stored */
};

/*
 * Sessions in the order of their first mark. Steps (REFILL, ADVANCE) are processed before new
 * notifications are offered, because they decide whether a session is offered any. Sending is last.
 */
struct ready_list {
    struct session *first; /* sessions marked READY_SEND */
    struct session *last;
    struct session *first_step; /* sessions marked READY_REFILL or READY_ADVANCE */
    struct session *last_step;
    const struct session *probe; /* the session whose wait is measured, since probe_us */
    int64_t probe_us;            /* monotonic time at which the wait of `probe` began */
    int64_t delay_us;            /* longest queueing delay since the last measurement */
    unsigned work;               /* bits of enum hub_work */
};

/* Marks a session READY_SEND, unless its socket is full. Does not read session->hub. */
void ready_list_send(struct hub *hub, struct session *session);

/* Marks a session. `reason` is one enum ready_reason. The session must not be closed. */
void session_mark(struct session *session, unsigned reason);
void hub_mark(struct hub *hub, unsigned work);

/* Removes the first session and its mark; NULL: the list is empty. */
struct session *ready_list_pop(struct hub *hub);
/* Like ready_list_pop, for steps: READY_REFILL, READY_ADVANCE or both. */
struct session *ready_list_pop_step(struct hub *hub, unsigned *ret_reasons);

/* Retries failed requests in one second. Further failures do not delay the retry. */
void hub_retry(struct hub *hub);

#endif
