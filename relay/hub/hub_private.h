/* hub_private.h: the hub's and a session's state, shared by the files of this room. */
#ifndef CLAIRON_HUB_HUB_PRIVATE_H
#define CLAIRON_HUB_HUB_PRIVATE_H

#include <ev.h>

#include "hub/audience.h"
#include "hub/hub.h"
#include "hub/recent.h"
#include "hub/topics.h"
#include "store/reader.h"
#include "store/store.h"

#define HUB_ACKS_MAX 100000
#define HUB_NACKS_MAX 64 /* calls under way */
#define HUB_EPOCH_MAX 32
#define SESSION_QUEUE_MAX 1024
#define SESSION_SAID_MAX 65536
#define SESSION_PAGE 256
#define SESSION_NAME_MAX 320

struct acks {
    struct store_ack *items; /* texts owned */
    size_t count;
    size_t room;
};

struct shown; /* shown.c */

struct hub {
    struct ev_loop *loop;
    const struct config *config;
    struct store *store;
    struct stats *stats;
    struct reader *reader;
    struct store_listener store_listener;
    struct audience *audiences;
    struct session *sessions; /* utlist */
    uint64_t session_count_ever;
    bool has_position; /* the store was up once: recent.head means something */
    char epoch[HUB_EPOCH_MAX];
    struct recent recent;
    struct note *lent;       /* whose bytes the last frame was */
    unsigned char *scratch;  /* SESSION_HEADROOM + SESSION_FRAME_MAX: frames of several lines */
    unsigned deferred_count; /* sessions with is_deferred */
    struct acks acks;        /* waiting for the store */
    struct acks acks_sent;   /* under way */
    struct shown *shown;     /* waiting for the store */
    size_t shown_count;
    size_t shown_room;
    unsigned shown_calls; /* under way */
    unsigned nack_calls;  /* likewise */
    ev_timer acks_retry;
    bool closing;
};

/*
 * GROUPING (asks for memberships) -> CHECKING (is the client's position still held?) -> INBOX
 * (what waits for an ack) -> CATCHING_UP (entries since the position) -> LIVE. A live session whose
 * queue is full goes back to CATCHING_UP. session_step does what comes next in each of them.
 */
enum session_state {
    SESSION_GROUPING,
    SESSION_CHECKING,
    SESSION_INBOX,
    SESSION_CATCHING_UP,
    SESSION_LIVE,
    SESSION_CLOSED
};

/* A line that needs an ack, from its queueing until the ack. */
struct unacked {
    unsigned char id[16];
    bool is_written; /* to the socket; else it is still queued */
    bool is_missed;  /* a retry of it could not be queued */
};

struct session {
    enum session_state state;
    struct hub *hub;
    const struct session_transport *transport;
    void *socket;
    struct session *next;
    struct session *prev;
    char *user;
    char *pos; /* what the client brought; NULL once used */
    struct membership *memberships;
    struct topics *topics; /* that it is shown; NULL: all */
    int64_t expires_s;
    int64_t request_id;
    bool has_request_id;
    bool is_awaited;        /* an answer of the store will call session_step */
    bool is_regrouping;     /* memberships are being asked for again */
    bool groups_stale;      /* they changed while they were being asked for */
    unsigned asked;         /* answers under way that hold this pointer */
    struct entry_id cursor; /* all up to here was queued, or was not for this user */
    char inbox_at[32];
    struct note **queue; /* ring of SESSION_QUEUE_MAX references, made when first needed */
    unsigned queue_first;
    unsigned queue_count;
    size_t queue_bytes;
    struct buffer said; /* control lines, each with its '\n' */
    int window;
    int unacked_count;
    int unacked_room;
    struct unacked *unacked; /* at most `window` */
    bool is_deferred;        /* more waits in the user's inbox: the window was full .. */
    bool has_missed;         /* .. or a retry came at a bad time */
    bool has_lost;           /* what expired before it was written is not yet told as a gap */
    struct entry_id lost_from;
    struct entry_id lost_to;
    char name[SESSION_NAME_MAX];
};

/* session.c */
void session_set_state(struct session *session, enum session_state state);
bool session_is_full(const struct session *session);
/*
 * Queues it (a reference of its own), unless it needs an ack and the window is full: then it stays
 * in the user's inbox, and what needs no ack goes on.
 */
void session_enqueue(struct session *session, struct note *note);
/* Fetches from the inbox what was deferred, once acks have made room. */
void session_refill(struct session *session);
/* A new note for this session's audience. */
void session_offer(struct session *session, struct note *note);
/* A retry of a note for this session's user. */
void session_offer_again(struct session *session, struct note *note);
/* Queues a note that was held back although no ack of this user is waited for. */
void session_give_unowed(struct session *session, struct note *note);
bool session_is_for(const struct session *session, const struct frame *frame);
void session_gap(struct session *session, struct entry_id from, struct entry_id to,
                 const char *why);
void session_free_if_done(struct session *session);
/* Another relay stored these acks: `ids` in lower case. */
void hub_acked_elsewhere(struct hub *hub, const char *user, const char *const *ids, size_t count);

/* session_load.c */
void session_step(struct session *session);
void session_regroup(struct session *session);
/* The store was emptied: nothing before `head` exists any more. */
void session_change_epoch(struct session *session, struct entry_id head);

/* window.c */
/* Whether the store waits for this user's ack: named, a member, or whoever is shown it. */
bool window_owes(const struct session *session, const struct note *note);
/* Takes a place in the window. False when the note is not to be queued now. */
bool window_enter(struct session *session, struct note *note);
/* The line was handed to the socket: from now the time of its ack runs. */
void window_wrote(struct session *session, struct note *note);
/* A retry is to be queued: by window_enter, now or when the inbox is read again. */
void window_miss(struct session *session, const struct note *note);
/* The inbox is to be read again, once there is room. */
void window_defer(struct session *session);
/* Gives its place back: it was acked, or left the queue unwritten. */
void window_forget(struct session *session, const char *id);
void window_drop(struct session *session, const struct note *note);

/* shown.c: reports to the store, before any ack that comes later. */
void shown_add(struct session *session, struct note *note);
/* The window was full: an open audience's note goes to the user's inbox. */
void shown_defer(struct session *session, struct note *note);
void shown_flush(struct hub *hub);
void shown_free(struct hub *hub);

/* acks.c */
void acks_add(struct hub *hub, const char *user, const char *id);
/* What was shown, then the acks. */
void acks_flush(struct hub *hub);
void acks_free(struct hub *hub);

/* hub.c */
/* After acks went to the store: what they made room for. */
void hub_refill(struct hub *hub);
/* The sessions of a user, as members of an audience; NULL when there are none. */
struct audience *hub_find_user(struct hub *hub, struct bytes user);

#endif
