/* ready_list.h: pending work of the current loop iteration. */
#ifndef CLAIRON_HUB_SESSION_READY_LIST_H
#define CLAIRON_HUB_SESSION_READY_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct hub;
struct session;

/*
 * Code below the turn never calls upwards. It marks a session, or the hub, with its pending work;
 * hub/turn.c does it before the loop sleeps. A session with a mark is not freed.
 */
enum ready_reason {
    READY_SEND = 1,   /* write its queues to the socket */
    READY_REFILL = 2, /* read the inbox again, if there is room */
    READY_ADVANCE = 4 /* do the next step of its state */
};

/* For the hub itself. */
enum hub_work {
    HUB_FLUSH = 1, /* send delivery reports, then acks */
    HUB_REFILL = 2 /* refill sessions that waited for reports and acks to be stored */
};

/*
 * Sessions in the order of their first mark. Steps (REFILL, ADVANCE) come before new notifications
 * are offered, as they decide whether a session is offered any; sending comes after.
 */
struct ready_list {
    struct session *first; /* READY_SEND */
    struct session *last;
    struct session *first_step; /* READY_REFILL or READY_ADVANCE */
    struct session *last_step;
    const struct session *probe; /* waits to send since probe_us */
    int64_t probe_us;            /* monotonic */
    int64_t delay_us;            /* the longest queueing delay since it was last measured */
    unsigned work;               /* enum hub_work */
};

/* Marks a session READY_SEND, unless its socket is full. Does not read session->hub. */
void ready_list_send(struct hub *hub, struct session *session);

/* `reason` is one enum ready_reason. A closed session must not be marked. */
void session_mark(struct session *session, unsigned reason);
void hub_mark(struct hub *hub, unsigned work);

/* Removes the first session and its mark; NULL: the list is empty. */
struct session *ready_list_pop(struct hub *hub);
/* The same for steps: one or two of READY_REFILL and READY_ADVANCE. */
struct session *ready_list_pop_step(struct hub *hub, unsigned *ret_reasons);

/* Retries failed requests in a second. Further failures do not delay the retry. */
void hub_retry(struct hub *hub);

#endif
