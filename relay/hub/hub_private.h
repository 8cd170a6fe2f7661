/* hub_private.h: the hub: what its files share. */
#ifndef CLAIRON_HUB_HUB_PRIVATE_H
#define CLAIRON_HUB_HUB_PRIVATE_H

#include <ev.h>
#include <stdbool.h>

#include "base/config.h"
#include "base/rates.h"
#include "base/rc.h"
#include "base/stats.h"
#include "hub/hub.h"
#include "hub/live_rows.h"
#include "hub/recent_xids.h"
#include "hub/replay_buffer.h"
#include "hub/session_private.h"
#include "store/reader.h"
#include "store/store.h"

struct hub;
struct pair_call; /* pair_requests.c */

/* Pending work of the hub. */
enum hub_work {
    HUB_FLUSH = 1,    /* send requests about pairs, then acks */
    HUB_REFILL = 2,   /* refill sessions that waited until acks were stored */
    HUB_BARRIERS = 4, /* advance the barriers */
    HUB_ENDS = 8      /* send the ends of transactions */
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

/* ---- load shedding */

#define PRESSURE_EVERY_MS 200 /* interval between measurements */

/* The priorities that are dropped: none, LOW, or LOW and NORMAL. */
enum pressure_level { PRESSURE_NONE, PRESSURE_LOW, PRESSURE_NORMAL };

/* 0: no limit. */
struct pressure_limits {
    int64_t delay_us; /* queueing delay */
    size_t bytes;     /* bytes queued for slow sockets */
};

/*
 * Above a limit, the level becomes LOW, and after another second NORMAL. After a second below half
 * of both limits, the level drops by one. Between these thresholds it does not change.
 */
struct pressure {
    enum pressure_level level;
    int64_t delay_us; /* smoothed queueing delay */
    bool was_over;
    bool was_calm;
    int64_t since_us; /* start of the period above or below the limits; monotonic */
};

/* ---- replay_buffer.c: filled at the start of a relay */

enum backfill_state {
    BACKFILL_WAITING, /* the reader is not connected yet */
    BACKFILL_READING, /* sessions wait, at most for 4096 notifications or 16 MB */
    BACKFILL_DONE
};

struct backfill {
    enum backfill_state state;
    unsigned requests;                      /* pages in flight */
    struct entry_id base[STORE_SHARDS_MAX]; /* start of the replay buffer, as this has left it */
    struct earlier_page *pages;             /* by shard; NULL: none */
};

/* ---- the hub */

#define HUB_UNOFFERED_MAX 128
#define PAIR_REQUESTS_PER_CALL 500

struct acks {
    struct store_ack *items; /* owns the strings */
    size_t count;
    size_t room;
};

/* All acks in this relay, by the event for which they wait. */
struct ack_queue {
    struct acks queued;  /* acks that wait for the next batch */
    struct acks sent;    /* acks that wait for the reply to the current batch */
    struct acks waiting; /* acks that wait for an unavailable shard */
};

/* A query of a session (delivery.c). */
struct pair_query {
    struct session *session;           /* NULL: the request is a delivery report */
    struct notification *notification; /* a reference; NULL: a query of its end only */
};

/* A delivery report, or a query of a session, on its way to the store and back. */
struct pair_request;
/* The request has ended. has_reply: `state` is valid; otherwise the hub is closing. */
typedef void pair_replied(struct hub *hub, struct pair_request *request, bool has_reply);

struct pair_request {
    struct store_report stored; /* owns the user */
    enum store_pair state;      /* as the store replied */
    pair_replied *done;
    struct pair_query query;
};

struct pair_requests {
    struct pair_request *items; /* queued for the store */
    size_t count;
    size_t room;
    struct pair_call *calls; /* utlist, in order: pending, or to be repeated */
    unsigned call_count;     /* number of `calls` */
    unsigned failed;         /* number of calls to be repeated */
};

/*
 * Load shedding: while this process is short of CPU or memory, some notifications are dropped.
 * Other notifications report the cursor before the first dropped notification, so that a client
 * that resumes from it receives the dropped notifications, if the load allows. Afterwards clients
 * receive a gap.
 */
struct shed {
    struct pressure pressure;
    ev_timer measure;
    int64_t measured_us;                    /* time of the last measurement; monotonic */
    struct entry_id hold[STORE_SHARDS_MAX]; /* the cursor before the first dropped notification */
    int64_t began_us;
    uint64_t count; /* notifications dropped since began_us */
};

/*
 * A session that resumes from an old cursor makes the store read every later notification of all
 * audiences. All sessions of a user share a token bucket for such pages: `delivery.resume_pages`
 * per second, with a burst of 60 seconds. A session that has to wait continues from its cursor
 * later: nothing is lost.
 *
 * The number of pages of streams and pending lists that all users read at a time is limited, and so
 * are their bytes, estimated by the size of the last pages. They need memory in the store, on the
 * way, and in this process, where unsent notifications wait for slow clients.
 */
struct page_budget {
    struct rates *rates;     /* by user */
    ev_timer timer;          /* active while sessions wait */
    unsigned pages;          /* number of pages that are being read */
    size_t page_bytes;       /* estimated size of a page */
    struct session *waiting; /* utlist: sessions that wait until fewer pages are read */
    struct session *spent;   /* utlist: sessions whose user has spent its budget */
};

/* The sessions of a shard's users. */
struct followed {
    unsigned sessions;
    int64_t left_us; /* end of the last session; monotonic; 0: none ended */
};

/* What the sessions of a shard's users share. */
struct shared_end {
    struct fanout_batch *batch; /* the end of transaction `xid`, at `cursor`; NULL: none */
    uint64_t xid;
    struct cursor cursor;
    struct merged_batch merged;          /* of a batch and this end */
    struct merged_batch merged_messages; /* of a batch that has ends, and the next notifications */
};

struct hub_ends {
    /* utlists, by shard of the user: live sessions whose open transaction may end */
    struct session_ends *waiting[STORE_SHARDS_MAX];
    bool is_used; /* a session wants the ends of transactions */
    unsigned due; /* bits of the shards whose sessions are looked at in this turn */
    /* transaction of the last notification that was offered, by shard; lsn 0: none */
    struct commit offered[STORE_SHARDS_MAX];
    /* earlier notifications than of this transaction may follow; 0: none */
    uint64_t disordered_lsn;
    struct shared_end shared[STORE_SHARDS_MAX]; /* by shard of the user */
};

/* The barriers that wait (barriers.c): utlists. */
struct hub_barriers {
    struct barrier *timed; /* those that have not failed, by deadline */
    /* those that wait for the streams, by the user's shard, in the order of their positions */
    struct barrier *in_streams[STORE_SHARDS_MAX];
    struct barrier *in_sessions; /* those that wait for their session */
    struct barrier *failed;
    unsigned count;
    unsigned in_session_count;
    bool is_due;    /* all of in_sessions are checked, instead of some in each turn */
    bool has_stale; /* a position in in_streams is of another timeline */
    ev_timer timer; /* active while there are barriers */
};

#define HUB_ARRIVALS_MAX 256
/* Users who connected in this loop iteration; the strings belong to their sessions. */
struct hub_arrivals {
    const char *users[HUB_ARRIVALS_MAX];
    size_t count;
    ev_prepare report; /* before the loop sleeps */
};

struct hub {
    struct ev_loop *loop;
    const struct config *config;
    struct store *store;
    struct rows *rows; /* NULL: no connection string */
    unsigned shards;   /* number of the store's shards */
    struct stats *stats;
    struct reader *reader;
    struct followed followed[STORE_SHARDS_MAX];
    struct store_listener store_listener;
    const struct hub_cutoffs *cutoffs; /* NULL: none */
    struct audience *audiences;
    struct session *sessions;    /* utlist */
    struct session_lists *lists; /* utlist; of the sessions that have lists */
    struct hub_barriers barriers;
    struct hub_arrivals arrivals;
    uint32_t conn_prefix; /* random: in containers, relays have equal process ids */
    uint64_t session_count_ever;
    bool has_head; /* the store has been up: replay_buffer.head is valid */
    char epoch[CLIENT_POS_EPOCH_MAX + 1];
    struct replay_buffer replay_buffer;
    struct backfill backfill;
    struct recent_xids recent_xids;
    uint64_t undone_count; /* store_undone_count when the store went up */
    struct notification
        *unoffered[HUB_UNOFFERED_MAX]; /* read in this iteration and not yet offered */
    unsigned unoffered_count;
    struct merged_batch merged;               /* used for the batch that is being offered */
    struct entry_id newest[STORE_SHARDS_MAX]; /* id of the last stream entry read, by shard */
    /* the WAL whose notifications were read and offered, by shard */
    struct reader_covered covered[STORE_SHARDS_MAX];
    struct hub_ends ends;
    struct ready_list ready;
    int64_t sending_us;      /* time at which this turn began to send; wall clock */
    ev_prepare turn;         /* end of a turn: offers the batch, processes the ready list */
    ev_idle more;            /* active while the ready list is not empty */
    unsigned char *scratch;  /* buffer for a session's control queue as a frame */
    unsigned list_frames;    /* number of list frames sent in this turn */
    struct session *refills; /* utlist: sessions that must read their pending list on later */
    ev_timer refill;         /* active while `refills` is not empty */
    struct ack_queue acks;
    struct pair_requests pair_requests;
    size_t nack_count; /* number of pending ids of nacks */
    struct throttle acks_rejected;
    struct throttle nacks_rejected;
    struct throttle reports_rejected;
    ev_timer repeat; /* see hub_repeat_later */
    ev_timer heartbeat;
    bool presence_is_stale; /* a change of presence was not stored */
    struct shed shed;
    struct page_budget page_budget;
    size_t queued_bytes; /* size of the queued notifications, each counted once */
    bool closing;
};

/* ---- session.c: pending work */

void hub_mark(struct hub *hub, unsigned work);

/* Removes the first session and its mark; NULL: the list is empty. */
struct session *ready_list_pop(struct hub *hub);
/* Like ready_list_pop, for steps: READY_REFILL, READY_ADVANCE or both. */
struct session *ready_list_pop_step(struct hub *hub, unsigned *ret_reasons);

/* Repeats failed requests in one second. Further failures do not delay that. */
void hub_repeat_later(struct hub *hub);

/*
 * Logs rejected acks, nacks or delivery reports at a limited rate. `what` is the log message;
 * `user` caused the last rejection.
 */
void hub_log_rejected(struct throttle *throttle, const char *user, const char *what);

/* Returns the notification of a stream entry, without targets if delivery.hide_targets is on. */
static inline struct notification *
hub_notification_new(const struct hub *hub, const struct entry *entry, const struct entry_id *heads)
{
    return notification_new(entry, hub->config->delivery.hide_targets, hub->epoch, heads,
                            hub->shards);
}

/* replay_buffer.c: call it when the store has gone up, and when the reader has connected. */
void backfill_start(struct hub *hub);

/* ---- load_shedding.c */

/* Adds a measurement taken at `now_us`. True if the level changed. */
bool pressure_measure(struct pressure *pressure, const struct pressure_limits *limits,
                      int64_t now_us, int64_t delay_us, size_t bytes);

/*
 * Measures the overload since the last call. now_us: monotonic. Notifications that were read before
 * have been offered, at the level that applied when they were read.
 */
void shed_measure(struct hub *hub, int64_t now_us);

/* Called when the store was emptied: the gap of the new epoch covers all dropped notifications. */
void shed_reset(struct hub *hub);

/* True if this notification is dropped now. */
bool shed_drops(const struct hub *hub, const struct notification *notification);

/* Returns how many of the first notifications are not dropped. */
unsigned shed_count_kept(const struct hub *hub, struct notification *const *notifications,
                         unsigned count);

/*
 * Returns the cursor to report while notifications are dropped: not after the first dropped
 * notification, so that a client that resumes from the cursor receives the dropped notifications if
 * the load allows. Inline, because outbound.c may not call load_shedding.c, which announces gaps.
 */
static inline struct cursor
shed_cursor(const struct session *session, struct cursor cursor)
{
    const struct shed *shed = &session->hub->shed;

    if (shed->pressure.level == PRESSURE_NONE)
        return cursor;
    return cursor_min(cursor, cursor_from_heads(shed->hold, session->client.own_shard));
}

/* Like shed_cursor, with all shards, for a notification that was just read. */
const struct entry_id *shed_reported_heads(const struct hub *hub);

/*
 * True if the bytes that wait for all sockets exceed twice delivery.shed_bytes, and 64 MB, although
 * load shedding has dropped what it may. Then clients that accept nothing are closed
 * (session_slow), and no page is read for others.
 */
bool hub_is_over_limit(const struct hub *hub);

/* Announces the gap, if notifications were dropped for this session. False: none was. */
bool session_announce_shed(struct session *session);

/* Records that this notification was dropped for this session; the gap is announced later. */
void session_count_shed(struct session *session, const struct notification *notification);

/* ---- pair_requests.c */

/*
 * Queues a request about a pair of the session's user; a delivery report has no query. Returns the
 * request to the store for the caller to complete; valid until the next call. NULL: too many are
 * queued.
 */
struct store_report *pair_requests_add(struct session *session, unsigned shard,
                                       const unsigned char id[16], pair_replied *done,
                                       const struct pair_query *query);
/* True if requests must be sent or repeated. Acks wait for them. */
bool pair_requests_wait(const struct hub *hub);
void pair_requests_flush(struct hub *hub);
/*
 * Applies the replies that have arrived, in order. Calls sessions back, so call it only from the
 * loop.
 */
void pair_requests_apply(struct hub *hub);
void pair_requests_free(struct hub *hub);

/* ---- delivery.c */

/* The store states that the user does not have to acknowledge the notification, or not any more. */
void user_sessions_pair_ended(struct membership *members, const unsigned char id[16],
                              enum inflight_state state);

/* ---- acks.c */

/* Sends requests about pairs, then one batch of acks, unless one is in flight. */
void acks_flush(struct hub *hub);

/*
 * Called when the store is up. Sends all acks, including acks that waited for an unavailable shard.
 */
void acks_resume(struct hub *hub);

void acks_free(struct hub *hub); /* frees the requests about pairs, too */

/*
 * Call them when pairs of the user have ended: another relay has stored these acks, or the pairs
 * expired, were exhausted or dropped. `ids` are lower case UUIDs. In the second case, queued
 * notifications stay in flight, because they may have been redriven since; the reply to their
 * delivery report decides.
 */
void hub_end_acked(struct hub *hub, const char *user, const char *const *ids, size_t count);
void hub_end_gone(struct hub *hub, const char *user, const char *const *ids, size_t count);

/* ---- presence.c */

void presence_open(struct hub *hub);
void presence_stop(struct hub *hub);
/* The first session of a user has started, or the last one has ended. */
void presence_arrive(struct hub *hub, const char *user);
void presence_leave(struct hub *hub, const char *user);
/* One request for all users who arrive in a loop iteration: after a restart thousands reconnect. */
void presence_report_arrivals(struct hub *hub);
void presence_heartbeat(struct hub *hub);
/* Reports all users: the store is up again, or has lost this relay's users. */
void presence_announce(struct hub *hub);

/* ---- the turn: hub.c */

void turn_start(struct hub *hub);
void turn_stop(struct hub *hub);

/*
 * Offers the notifications that were read in this iteration, in order. Call it before a change of
 * memberships or acks.
 */
void hub_fan_out(struct hub *hub);

/*
 * Processes the ready list. Sends for at most `max` sessions. Frees closed sessions. Returns true
 * if sessions are left.
 */
bool hub_send_some(struct hub *hub, unsigned max);

/* ---- barriers.c */

void barriers_open(struct hub *hub);
void barriers_stop(struct hub *hub);
/*
 * Moves barriers on whose next condition is met. Of many that wait for their session, each call
 * checks some, and all of them after a tick. Only the turn calls it.
 */
void barriers_advance(struct hub *hub);
/* Ends the barriers of a session that is being closed. */
void barriers_leave(struct session *session);

/* ---- ends.c */

/* Sends the ends that are due in this turn. Only the turn calls it. */
void ends_advance(struct hub *hub);
/* The shard covers more WAL, or sessions of its users received retries. */
void hub_settle_ends(struct hub *hub, unsigned shard);
/* Call it when a notification was offered to all sessions. */
void ends_offered(struct hub *hub, const struct notification *notification);
/* The shard was not read for some time. */
void ends_followed(struct hub *hub, unsigned shard);
void ends_change_epoch(struct hub *hub);
/* Earlier notifications of another shard may follow those of this transaction. */
void hub_disorder_ends(struct hub *hub, uint64_t lsn);
/* Call it after a failover of a shard, with the newest LSN that was read before. */
void ends_begin_history(struct hub *hub, uint64_t newest_lsn);
void ends_close(struct hub *hub);

/* ---- memberships.c */

/* Joins the audiences of the user and the token. The others must be requested. */
void session_begin_groups(struct session *session, const struct session_request *request);

/*
 * Requests the session's memberships. session_reload_groups requests them again, after any pending
 * request. Call session_change_group when a row of clairon.member that assigns the user to this
 * audience was added or removed.
 */
void session_request_groups(struct session *session);
void session_reload_groups(struct session *session);
void session_change_group(struct session *session, const char *key, size_t len, bool is_added);

/* ---- loading.c: the state LOADING, before `connected` is sent */

/*
 * Checks what the client has lost since its cursor, page by page, and sends `connected`. Requires
 * current memberships.
 */
void session_load(struct session *session);

/*
 * Call it every few seconds. A session that has waited for five seconds without `connected`, and
 * whose user the store does not serve, is closed with a delay for its reconnect. Otherwise its
 * client would time out and reconnect, every few seconds.
 */
void unserved_sweep(struct hub *hub);

/* ---- resume.c: from `connected` to live delivery, and back */

/* Moves the session on in its state. Only the turn calls it; other code marks READY_ADVANCE. */
void session_advance(struct session *session);

/*
 * If the pending list must be read on and can be: changes the state from LIVE by STREAM to PENDING
 * and returns true; the session must advance immediately. If it can be read only later, the session
 * is added to hub->refills.
 */
bool session_refill(struct session *session);

/* Marks all sessions of hub->refills to refill. */
void refills_wake(struct hub *hub);
void refills_open(struct hub *hub);
void refills_stop(struct hub *hub);

/* Removes a session that is being closed from all lists. */
void session_leave_resume(struct session *session);

/* Call it when the store was emptied: no stream entry before the hub's head exists. */
void session_change_epoch(struct session *session);

/* The end of the former history was lost: calls `translate` for the session's ids of the shard. */
void session_translate_ids(struct session *session, unsigned shard,
                           void (*translate)(const struct hub *hub, unsigned shard,
                                             struct entry_id *id));

/* ---- page_budget.c: reads pages, within the limits of all users and of each user */

void pages_open(struct hub *hub);
/* After this call no session that waits is advanced. */
void pages_stop(struct hub *hub);
/* Requires that no session is left. */
void pages_close(struct hub *hub);

/* True if the session's user may read no further page of a stream now. */
bool session_budget_is_spent(struct session *session);

#define SESSION_PAGE 256 /* maximum notifications in one page */

/*
 * Reads a page of the stream, up to the hub's head, which needs a token of the session's user, or
 * of the pending list. If the session has to wait, or the store is unavailable, it is advanced
 * later to repeat the call. `done` must call session_page_arrived first.
 */
void session_read_range(struct session *session, struct cursor after, size_t max,
                        store_paged *done);
void session_read_pending(struct session *session, const struct store_pending_part *part,
                          store_paged *done);

/* Like session_reply_arrived. */
bool session_page_arrived(struct session *session, enum rc rc, const struct store_page *page,
                          bool is_of_stream);

/* Removes a session that is being closed. */
void session_leave_pages(struct session *session);

#endif
