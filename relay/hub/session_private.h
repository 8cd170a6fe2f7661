/* session_private.h: a session: its parts, its states, and the functions that change it. */
#ifndef CLAIRON_HUB_SESSION_PRIVATE_H
#define CLAIRON_HUB_SESSION_PRIVATE_H

#include <stddef.h>

#include "base/memory.h"
#include "hub/audience.h"
#include "hub/notification.h"
#include "hub/hub.h"
#include "store/entry.h"

struct hub;
struct row_order;     /* outbound.c */
struct session_ends;  /* ends.c */
struct session_lists; /* live_rows.h */

/* A set of exact topics and of prefixes with a trailing '*'. NULL means all topics. */
struct topics;

/* ---- the outbound queue: outbound.c */

#define OUTBOUND_MAX 1024 /* maximum notifications; a split batch may exceed it */

/*
 * Contains one batch, or single notifications in a ring, or nothing. Initially zeroed; allocates
 * nothing while it is empty, because most sessions are idle. Functions update `queued_bytes`, a
 * total over all sessions in which a notification in several queues counts once.
 *
 * The fields that a fan-out reads are last, so that they share a cache line with the session's
 * fields that it reads.
 */
struct outbound {
    struct notification **notifications; /* ring of references */
    size_t bytes;                        /* total size of their frames */
    int64_t since_us;                    /* time at which the queue was last empty; monotonic */
    struct fanout_batch *batch;          /* a reference */
    unsigned count;
    uint16_t room; /* a power of two */
    uint16_t first;
};

static inline bool
outbound_is_empty(const struct outbound *outbound)
{
    return outbound->count == 0 && outbound->batch == NULL;
}

/* Returns the number of notifications, including those of the batch. */
unsigned outbound_count(const struct outbound *outbound);
size_t outbound_bytes(const struct outbound *outbound);

/* Returns the nth single notification, starting from 0; NULL: the queue has fewer notifications. */
struct notification *outbound_nth(const struct outbound *outbound, unsigned nth);

/*
 * Returns the index for a notification of this priority: after all notifications of the same or a
 * higher priority.
 */
unsigned outbound_index_for(const struct outbound *outbound, uint8_t priority);

/*
 * Inserts before the nth notification, and takes ownership of the reference. The queue must not
 * contain a batch.
 */
void outbound_insert(struct outbound *outbound, unsigned nth, struct notification *notification,
                     size_t *queued_bytes);

/* Removes the first notification; the caller owns the reference. */
struct notification *outbound_dequeue(struct outbound *outbound, size_t *queued_bytes);

/* Removes the batch; the caller owns the reference. NULL: no batch. */
struct fanout_batch *outbound_dequeue_batch(struct outbound *outbound);

void outbound_clear(struct outbound *outbound, size_t *queued_bytes);

/*
 * Returns `cursor` or, if it is earlier, the cursor from which a client must resume to receive the
 * batch and all notifications from the nth on. `own` is the user's shard.
 */
struct cursor outbound_before(const struct outbound *outbound, unsigned nth, unsigned own,
                              struct cursor cursor);

/* ---- the in-flight window: delivery.c */

/*
 * Whether a notification in flight still waits for an acknowledgement. An ended one occupies no
 * slot of the window; it is kept until it is written, or until a page that may contain it was read.
 *
 * OPEN: it waits. ENDED: it does not. ACKED: another session acknowledged it before it was written
 * here: `acked` follows it.
 */
enum inflight_state { INFLIGHT_OPEN, INFLIGHT_ENDED, INFLIGHT_ACKED };

/* A notification from its queueing until its acknowledgement, or another end. */
struct inflight_entry {
    unsigned char id[16];
    uint16_t attempts; /* of the latest retry that was offered; 0: none was */
    unsigned char shard;
    bool is_written; /* written to the socket; otherwise still queued */
    bool is_missed;  /* a retry was not queued */
    uint8_t state;   /* enum inflight_state */
};

/* Allocates memory with the first notification, because most sessions are idle. */
struct inflight {
    int size; /* the limit that was granted to the client */
    int count;
    int ended; /* number of entries that are not OPEN */
    int room;
    struct inflight_entry *entries; /* unordered */
};

/* Returns the number of notifications that fit into the window now. */
static inline int
inflight_free_slots(const struct inflight *inflight)
{
    return inflight->size - (inflight->count - inflight->ended);
}

/* Removes entries that were written and have ended. */
void inflight_sweep(struct inflight *inflight);

/* ---- topics.c */

/*
 * Adds topics to the set; a set of all topics is replaced. RC_LIMIT: too many or too long names;
 * the set is unchanged. Copies the names.
 */
MUST_CHECK enum rc topics_add(struct topics **topics, const char *const *names, size_t count);

/*
 * Removes names, which must be spelled as they were added. An empty set matches nothing. "*" means
 * all topics.
 */
void topics_remove(struct topics **topics, const char *const *names, size_t count);

/* True if the set matches this topic. Takes two binary searches. */
bool topics_match(const struct topics *topics, struct bytes topic);

/*
 * Records that a notification was skipped because its topic is not in the set. False if it, or a
 * later one, was recorded before.
 */
bool topics_skip(struct topics *topics, unsigned shard, struct entry_id id);

/* Writes the set as a sorted JSON array; all topics are ["*"]. */
MUST_CHECK enum rc topics_write(const struct topics *topics, struct buffer *out);

void topics_free(struct topics *topics); /* accepts NULL */

/* RC_LIMIT: too many topics; the session's topics are unchanged. */
MUST_CHECK enum rc session_add_topics(struct session *session, const struct session_topics *topics);

/* ---- a session */

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
    const char *conn; /* id of the connection, in the memory of `user` */
    int64_t expires_s;
    int64_t request_id;
    int64_t attached_us; /* monotonic time of hub_attach */
    bool has_request_id;
    unsigned char own_shard; /* shard of the user */
};

/* The log fields that identify a session. */
#define LOG_SESSION(session)                                                                       \
    LOG_TEXT("conn", (session)->client.conn), LOG_TEXT("user", (session)->client.user)

/* The control queue, which is sent before notifications, and a gap to be added to it. */
struct control_queue {
    struct buffer frames;   /* a struct control_head, line and cursor of each frame */
    struct cursor gap_from; /* start of a gap to be announced ... */
    const char *gap_why;    /* ... and its reason; NULL: no gap */
};

/*
 * The control queue, and replies to requests for rows. has_control: at least one of these can be
 * sent.
 */
struct session_control {
    struct control_queue *queue; /* NULL: it is empty, because most sessions are idle */
    struct session_lists *lists; /* NULL: the client has not requested rows */
    struct barrier *barriers;    /* utlist: those that wait */
    unsigned barrier_count;
    /* load shedding dropped notifications and has not announced it yet */
    bool has_dropped;
    bool has_lost_acked; /* `acked` had no room, so the connection is closed: see session_slow */
};

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
 * Whether the session reads a page, as one of all sessions. Only page_budget.c changes it.
 *
 * NONE: it reads none. Next: READING, or one of those below.
 *
 * WAITING: too many pages are being read. Repeats the request later. Next: NONE.
 *
 * SPENT: the budget of its user is spent. Repeats the request later. Next: PAID, NONE.
 *
 * PAID: the next page was charged to the budget. Next: READING or WAITING.
 *
 * READING: a page was requested. Next: NONE.
 */
enum __attribute__((packed)) session_page {
    PAGE_NONE,
    PAGE_WAITING,
    PAGE_SPENT,
    PAGE_PAID,
    PAGE_READING
};

/* Requests to the store. */
struct session_requests {
    unsigned count;  /* pending requests; their replies refer to the session */
    bool is_awaited; /* a page, or the end of the wait for one, will mark the session to advance */
    bool has_failed; /* the last request failed */
    enum session_page page;
    struct session *page_prev; /* links of page_budget.waiting or page_budget.spent */
    struct session *page_next;
};

/*
 * The steps of LOADING. Each reads pages up to resume.checked. A step that is not necessary is
 * skipped.
 *
 * POS: reads `pos`, the cursor of the client. Next: ENDS.
 *
 * ENDS: looks for the end of the transaction that is at the cursor. Next: PAIRS.
 *
 * PAIRS: looks for losses among the deferred notifications that ended. Next: STREAM.
 *
 * STREAM: looks for losses after the cursor, or after the deferral if it is read from the stream.
 */
enum __attribute__((packed)) load_step { LOAD_POS, LOAD_ENDS, LOAD_PAIRS, LOAD_STREAM };

/*
 * How the session begins. Before `connected`, in LOADING, the client's cursor is read and checked;
 * then the session knows where it started.
 */
struct session_resume {
    char *pos; /* cursor from the client; NULL: none, or `connected` was sent */
    union {
        struct cursor checked;    /* in LOADING: the present step has read up to this cursor */
        struct cursor started_at; /* after LOADING: start of the session */
    };
    uint16_t checked_pages; /* in LOADING, as the next two */
    enum load_step step;
    bool is_missed;    /* PAIRS has found a loss */
    bool is_continued; /* after LOADING: this poll continues from the cursor of the previous poll */
};

/*
 * A pass: of the pending list, or of the deferred notifications in the stream.
 *
 * NONE: the list was read to its end.
 *
 * DUE: it must be read on from `at` once there is room. Next: ON.
 *
 * REREAD: in PENDING, reads it from its start. ON: in PENDING, reads it on from `at`. Next: DUE at
 * a notification for which there is no room. At the end of the list: FROM_STREAM if the deferral is
 * `by_stream`, otherwise NONE.
 *
 * FROM_STREAM: in STREAM, reads the deferred notifications, from deferral.from. Next: DUE, NONE.
 */
enum __attribute__((packed)) pending_pass {
    PASS_NONE,
    PASS_DUE,
    PASS_REREAD,
    PASS_ON,
    PASS_FROM_STREAM
};

/* A pair that needs no acknowledgement any more. */
struct ended_pair {
    unsigned char id[16];
    uint8_t state; /* enum inflight_state */
};

/*
 * The user's pending list, and the notifications for which the in-flight window had no room.
 *
 * Without room nothing is held: a pass of the list is DUE, and the session's `deferral` begins. As
 * soon as half of the slots that the last pass filled are free, a pass reads the list on from `at`.
 * What ended in the list meanwhile, because another session acknowledged it, is in the list of the
 * user's ended pairs, from which the pass sends it too. If the list of the ended pairs is too
 * short, or the deferral is `by_stream`, the stream is read instead, from deferral.from. Where such
 * a pass ends for lack of room, the store is asked which of the next notifications have ended:
 * those need no slot in the next pass.
 */
struct session_pending {
    struct cursor at;         /* notifications up to it were sent, or are not for the session */
    struct deferral deferral; /* valid if session->has_deferral */
    enum pending_pass pass;
    bool is_rewound; /* a further pass must reread the list, for example after a missed retry */
    int filled;      /* slots that the last pass filled; 0: a pass needs a single slot */
    unsigned query_count; /* pair queries without a reply */
    uint32_t query_bytes; /* size of the notifications that are held until the reply */
    /* Deferred notifications that were sent immediately: the user does not have to acknowledge. */
    unsigned early_count;
    unsigned char (*early)[16];
    /* The next deferred notifications of the stream, as far as all of them have ended. */
    struct ended_pair *ended;
    uint16_t ended_count;
    uint16_t queried; /* number of notifications about which the store was asked */
    uint16_t queried_max;
    bool is_open;                /* one of them has not ended: later ones do not count */
    struct session *refill_prev; /* links of hub->refills; NULL: not in it */
    struct session *refill_next;
};

#define EARLY_MAX 256 /* further ones wait until the deferred notifications are read */

struct session { /* from a pool; aligned to a cache line */
    struct hub *hub;
    struct session *next;
    struct session *prev;
    struct session *step_next; /* link of the ready list */
    struct topics *topics;     /* NULL: all topics */
    struct outbound outbound;
    /* One cache line with the second half of `outbound`: all fields that a fan-out reads. */
    enum session_state state;
    bool is_blocked;   /* the socket is full; session_writable will be called */
    uint8_t ready;     /* enum ready_reason; nonzero while the session is in the ready list */
    bool has_control;  /* see session_control */
    bool has_topics;   /* subscribed to some topics only: `topics` is not NULL */
    bool has_deferral; /* see session_pending */
    bool is_poll;      /* the session ends with one response */
    bool has_ends;     /* the client wants the ends of transactions: `ends` is not NULL */
    struct session *ready_next;
    struct session_socket socket;
    /* all earlier notifications were queued, or do not address this session */
    struct cursor cursor;
    /* A fan-out does not read the second half of the cursor and the fields below. */
    struct session_groups groups;
    struct session_client client;
    struct session_control control;
    struct session_stall stall;
    struct row_order *row_order; /* NULL: no row notification that needs an ack has been queued */
    struct session_requests requests;
    struct session_resume resume;
    struct session_pending pending;
    struct inflight inflight;
    struct session_ends *ends; /* ends.c */
};

_Static_assert(offsetof(struct session, outbound.batch) == 64 &&
                   offsetof(struct session, cursor.own) == 128,
               "a fan-out reads one cache line of a session");

/* ---- birth, states, pending work, requests, control queue: session.c */

/* In LOADING, and in no list of the hub. session_free_if_done returns it to its pool. */
struct session *session_new(struct hub *hub, const struct session_request *request,
                            const struct session_transport *transport, void *socket);

/* The only way to change the state. An unlisted transition leads to FAILED. */
void session_set_state(struct session *session, enum session_state state);

/* Frees a CLOSED session, unless a pending reply of the store or the ready list refers to it. */
void session_free_if_done(struct session *session);

/*
 * Code called by the turn never calls upwards. Such code marks a session, or the hub, with its
 * pending work, which hub/hub.c does before the loop sleeps. A marked session is not freed.
 */
enum ready_reason {
    READY_SEND = 1,   /* write its queues to the socket */
    READY_REFILL = 2, /* read the pending list on, if the in-flight window has room */
    READY_ADVANCE = 4 /* do the next step of its state */
};

/* Marks a session READY_SEND, unless its socket is full. Does not read session->hub. */
void ready_list_send(struct hub *hub, struct session *session);

/* Marks a session. `reason` is one enum ready_reason. The session must not be closed. */
void session_mark(struct session *session, unsigned reason);

/* The pending list must be read again from its start. */
void session_rewind(struct session *session);

/*
 * Must be called first in every reply callback. Returns false if the session is closed, is being
 * closed, or waits until the store is up again.
 */
bool session_reply_arrived(struct session *session, enum rc rc);

/* Maximum bytes of the control queue; with `acked`, of which acks on other devices cause many. */
#define SESSION_CONTROL_MAX 65536
#define SESSION_ACKED_MAX (4 * SESSION_CONTROL_MAX)

/* Returns the control queue; allocates it if it is empty. */
struct control_queue *session_control_queue(struct session *session);
/* Frees the control queue if it is empty. */
void session_end_control(struct session *session);

static inline bool
session_has_gap(const struct session *session)
{
    return session->control.queue != NULL && session->control.queue->gap_why != NULL;
}

/* True if the control queue has room for a frame of this length. */
bool session_can_send_control(const struct session *session, size_t len);
/*
 * Queues a copy of a frame ahead of notifications. Without room, the reply to a request is dropped,
 * and for `acked` the client is closed as a slow one. `pos`: the cursor from which a client resumes
 * after it; NULL: none.
 */
void session_send_control(struct session *session, enum session_line_kind kind, const char *line,
                          size_t len, const char *pos);
/*
 * Reads the frame at an offset of the queue, initially 0, and moves the offset behind it. False: no
 * further frame. The line is valid until the queue changes.
 */
bool session_next_control(const struct session *session, size_t *offset,
                          struct session_line *ret_line);

/* ---- outbound queue, cursors, gaps: outbound.c */

#define SESSION_QUEUE_BYTES (512u * 1024)

bool session_is_full(const struct session *session);

/* Queues by priority, HIGH first. A poll receives notifications in the order of the calls. */
void session_queue(struct session *session, struct notification *notification);

/* Queues a line behind all notifications that are queued. The queue must not be full. */
void session_queue_line(struct session *session, const char *text, size_t len);
/*
 * Queues the end of transaction `xid` in the same place. A client that resumes from it has read up
 * to `cursor`.
 */
void session_queue_end(struct session *session, uint64_t xid, struct cursor cursor,
                       const struct ends_mark *mark);

/*
 * Queues a whole batch. False if the notifications must be queued individually, because other
 * notifications are queued or the socket is full.
 */
bool session_queue_batch(struct hub *hub, struct session *session, struct fanout_batch *batch,
                         struct merged_batch *merged);

/* Splits the batch into single notifications, except for the first `sent` bytes. */
void session_split_batch(struct session *session, size_t sent);

/*
 * Returns the hub's cursor in the two streams of this session: the shared stream and the user's
 * shard. Pages are read from the store only up to this cursor, because memberships are known up to
 * it, and the store does not read two streams at the same moment.
 */
struct cursor session_head(const struct session *session);

/*
 * Returns the cursor before which all notifications were sent to this session, or do not address
 * it.
 */
struct cursor session_reached(const struct session *session);

/*
 * True if the in-flight window holds back nothing up to this cursor: the session has read its
 * pending list as far, and it has sent what was deferred as far.
 */
bool session_is_complete_to(const struct session *session, struct cursor cursor);

/*
 * Return notifications that report cursors of this session only. `overtaken`: the first queued
 * notification that it overtakes; NULL: none. The caller owns one reference.
 */
struct notification *session_notification_new(const struct session *session,
                                              const struct entry *entry, struct cursor cursor);
struct notification *session_notification_at(const struct session *session,
                                             struct notification *notification,
                                             struct cursor cursor,
                                             const struct notification *overtaken);

void session_pos_text(const struct session *session, struct cursor cursor,
                      char ret_text[CLIENT_POS_MAX]);

/*
 * Announces a gap. The client resumes from `to`. So `to` is moved before all queued notifications,
 * and before notifications that load shedding dropped without announcing them yet.
 */
void session_gap(struct session *session, struct cursor from, struct cursor to, const char *why);

/* Like session_gap, with `to` unchanged. If the control queue is full, announces the gap later. */
void session_send_gap(struct session *session, struct cursor from, struct cursor to,
                      const char *why);

/* Announces a gap from `from` together with the next frame. */
void session_gap_later(struct session *session, struct cursor from, const char *why);

/* Announces the gap of session_gap_later, if any. */
void session_send_late_gap(struct session *session);

/* ---- the outcomes of a notification: delivery.c */

/* Offers a new notification to a session in its audience. */
void session_offer(struct session *session, struct notification *notification);
void session_offer_batch(struct hub *hub, struct session *session, struct fanout_batch *batch);

/* Offers a retry to a session whose user has not acknowledged the notification. */
void session_offer_retry(struct session *session, struct notification *notification);
/* Marks a notification in flight whose retry is not sent, as for a user outside of the audience. */
void session_mark_retry(struct session *session, const struct notification *notification);

/*
 * Decides what happens to a notification that the session has not received: it is queued (the queue
 * takes a separate reference); or deferred, if it needs an ack and the in-flight window has no
 * room; or dropped, by load shedding or because it has expired; or skipped, for its topic or
 * because it is in flight.
 */
void session_admit(struct session *session, struct notification *notification);
/*
 * The same for one that needs an ack and is pending or deferred; load shedding does not drop it.
 * False if the in-flight window has no room. `is_new`: the client has not received it before.
 */
bool session_admit_pending(struct session *session, struct notification *notification,
                           enum inflight_state state, bool is_new);
/* Changes LIVE to STREAM: offers end, and session_advance reads the following notifications. */
void session_pause(struct session *session);

/* Call it when the notification was written to the socket. Starts the ack timeout. */
void session_inflight_written(struct session *session, const struct notification *notification);
/* Removes a notification that left the outbound queue unwritten. */
void session_inflight_drop(struct session *session, const struct notification *notification);

/*
 * The notification needs no acknowledgement any more. ACKED: if it is still queued, `acked` follows
 * it. Returns its shard, or -1 if it was not in flight.
 */
int session_inflight_end(struct session *session, const unsigned char id[16],
                         enum inflight_state state);
/* Ends a notification that was written. A queued one stays in flight. */
void session_inflight_end_written(struct session *session, const unsigned char id[16]);

/*
 * Acknowledgements and retries may have been missed: reports all notifications in flight again, and
 * the replies decide.
 */
void session_reconcile(struct session *session);

/* Sends `acked`. Does nothing before `connected`. */
void session_send_acked(struct session *session, const char *const *ids, size_t count);

/*
 * True for a deferred notification that was sent without a slot, because the store replied that the
 * user does not have to acknowledge it.
 */
bool session_was_sent_early(const struct session *session, const struct notification *notification);

/*
 * Asks the store whether a deferred notification has ended. If so, it is added to pending.ended,
 * unless one about which the store was asked before has not. False: too many requests are queued.
 */
bool session_query_state(struct session *session, unsigned shard, struct entry_id entry,
                         const unsigned char id[16]);

/* ---- the ends of transactions: ends.c */

/* Call it before anything is sent: the session gets the ends of transactions. */
void ends_begin(struct session *session);
/* A failover has moved the session's cursor back in one of its streams. Requires has_ends. */
void ends_disorder(struct session *session);
/* The session starts at the end of the streams. */
void ends_begin_new(struct session *session);
void ends_leave(struct session *session);
/* No end is due any more: the client receives a gap. */
void ends_reset(struct session *session);

/*
 * Call them before a notification is queued that is the next one of the streams. An earlier
 * transaction may end. ends_note returns it, or a copy whose cursor names other transactions whose
 * ends the client lacks; the caller owns the reference. ends_note_batch requires has_ends; false:
 * the notifications must be queued individually.
 */
struct notification *ends_note(struct session *session, struct notification *notification);
bool ends_note_batch(struct session *session, const struct fanout_batch *batch);
/* The next notification of the streams is held back: the end of its transaction waits for it. */
void ends_note_held(struct session *session, const struct notification *notification);
/*
 * Call it before a retry, or a notification of the pending list, is queued that the client has not
 * received on this connection. Returns it, or a copy whose cursor names its transaction, because it
 * may not be at the cursor. The caller owns the reference.
 */
struct notification *ends_note_listed(struct session *session, struct notification *notification);
/* Call it for each notification of the pending list, in order, before ends_note_listed. */
void ends_meet_listed(struct session *session, const struct frame *frame);

/* Sends the ends that are due. Call it when the session has read on. */
void ends_settle(struct session *session);
/* Call it when notifications were written to the socket. Requires has_ends, as what follows. */
void ends_sent(struct session *session);

/* The mark of the session's own cursor. */
struct ends_mark ends_mark(const struct session *session);
/*
 * The cursor of a client that resumes has this mark. `at_cursor`: the notification at the cursor;
 * NULL: unknown. If the session in which the client began has not read its pending list to the end,
 * the list may have a part of its transaction.
 */
void ends_begin_resumed(struct session *session, const struct ends_mark *mark,
                        const struct frame *at_cursor);
/*
 * The client lacks the end of the transaction of the notification at its cursor. is_read: it
 * has received the notification.
 */
void ends_note_read(struct session *session, const struct frame *frame, bool is_read);

/* ---- writes to the socket: send.c */

/*
 * Writes as many bytes as the socket accepts. Marks the session READY_SEND again if bytes are left.
 */
void session_send(struct hub *hub, struct session *session);

#endif
