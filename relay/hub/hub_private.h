/* hub_private.h: the hub: what its files share. */
#ifndef CLAIRON_HUB_HUB_PRIVATE_H
#define CLAIRON_HUB_HUB_PRIVATE_H

#include <ev.h>

#include "base/config.h"
#include "base/stats.h"
#include "base/rates.h"
#include "hub/hub.h"
#include "hub/live_rows.h"
#include "hub/session_private.h"
#include "store/reader.h"
#include "store/store.h"

struct page_budget; /* pages.c */
struct report_call; /* acks.c */

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

/* ---- the hub */

#define HUB_UNPUBLISHED_MAX 128
#define REPORTS_PER_CALL 500

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

/* A report that a notification was written to a socket of this user, or is held back. */
struct delivery_report {
    unsigned char id[16];
    unsigned char shard;
    uint8_t backoff;
    uint32_t ack_timeout_ms; /* 0: use the configured timeout */
    bool retry_enabled;
    bool is_open_ended;
    bool is_renewal;       /* repeats an earlier report that the store may have lost */
    enum store_pair state; /* as the store replied */
    char *user;
    /* the session for which the notification is held back; NULL: it was written */
    struct session *deferred;
    struct notification *notification; /* a reference to the held back notification */
};

struct delivery_reports {
    struct delivery_report *items; /* reports queued for the store */
    size_t count;
    size_t room;
    struct report_call *calls; /* utlist, in order: pending, or to be repeated */
    unsigned call_count;       /* number of `calls` */
    unsigned failed;           /* number of calls to be repeated */
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
struct resumes {
    struct page_budget *budgets; /* uthash: by user */
    ev_timer timer;              /* active while sessions wait */
    unsigned pages;              /* number of pages that are being read */
    size_t page_bytes;           /* estimated size of a page */
    struct session *waiting;     /* utlist: sessions that wait until fewer pages are read */
    struct session *spent;       /* utlist: sessions whose user has spent its budget */
};

/* The sessions of a shard's users. */
struct followed {
    unsigned sessions;
    int64_t left_us; /* end of the last session; monotonic; 0: none ended */
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
    struct audience *audiences;
    struct session *sessions;    /* utlist */
    struct session_lists *lists; /* utlist; of the sessions that have lists */
    uint64_t session_count_ever;
    bool has_head; /* the store has been up: replay_buffer.head is valid */
    char epoch[CLIENT_POS_EPOCH_MAX + 1];
    struct replay_buffer replay_buffer;
    struct recent_xids recent_xids;
    uint64_t undone_count; /* store_undone_count when the store went up */
    struct notification
        *unpublished[HUB_UNPUBLISHED_MAX]; /* read in this iteration and not yet offered */
    unsigned unpublished_count;
    struct merged_batch merged;               /* used for the batch that is being offered */
    struct entry_id newest[STORE_SHARDS_MAX]; /* id of the last stream entry read, by shard */
    struct ready_list ready;
    int64_t sending_us;      /* time at which this turn began to send; wall clock */
    ev_prepare turn;         /* end of a turn: offers the batch, processes the ready list */
    ev_idle more;            /* active while the ready list is not empty */
    unsigned char *scratch;  /* buffer for a session's control queue as a frame */
    unsigned list_frames;    /* number of list frames sent in this turn */
    struct session *refills; /* utlist: sessions that must read their pending list on later */
    ev_timer refill;         /* active while `refills` is not empty */
    struct ack_queue acks;
    struct delivery_reports reports;
    size_t nack_count; /* number of pending ids of nacks */
    struct throttle acks_rejected;
    struct throttle nacks_rejected;
    struct throttle reports_rejected;
    ev_timer retry;
    ev_timer heartbeat;
    bool presence_is_stale; /* a change of presence was not stored */
    struct shed shed;
    struct resumes resumes;
    size_t queued_bytes; /* size of the queued notifications, each counted once */
    bool closing;
};

/* ---- session.c: pending work */

void hub_mark(struct hub *hub, unsigned work);

/* Removes the first session and its mark; NULL: the list is empty. */
struct session *ready_list_pop(struct hub *hub);
/* Like ready_list_pop, for steps: READY_REFILL, READY_ADVANCE or both. */
struct session *ready_list_pop_step(struct hub *hub, unsigned *ret_reasons);

/* Retries failed requests in one second. Further failures do not delay the retry. */
void hub_retry(struct hub *hub);

/*
 * Logs rejected acks, nacks or delivery reports at a limited rate. `what` is the log message;
 * `user` caused the last rejection.
 */
void hub_log_rejected(struct throttle *throttle, const char *user, const char *what);

/* ---- attach.c */

/* Call it every few seconds: shards without a session are no longer followed after a delay. */
void followed_sweep(struct hub *hub);

/* Call it every few seconds; the store expires a relay without heartbeats. */
void presence_heartbeat(struct hub *hub);

/* Reports all users. Call it when the store is up again, or has lost this relay's users. */
void presence_announce(struct hub *hub);

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
 * True if the bytes that wait for all sockets exceed twice delivery.shed_bytes, and 64 MB, although
 * load shedding has dropped what it may. Then clients that accept nothing are closed
 * (session_slow), and no page is read for others.
 */
bool hub_is_over_limit(const struct hub *hub);

/* Records that this notification was dropped for this session; the gap is announced later. */
void session_count_shed(struct session *session, const struct notification *notification);

/* ---- acks.c */

/*
 * Applies the replies that have arrived, in order. Calls sessions back, so call it only from the
 * loop.
 */
void delivery_reports_apply(struct hub *hub);

/* Sends delivery reports, then one batch of acks, unless one is in flight. */
void acks_flush(struct hub *hub);

/*
 * Called when the store is up. Sends all acks, including acks that waited for an unavailable shard.
 */
void acks_resume(struct hub *hub);

void acks_free(struct hub *hub); /* frees the delivery reports, too */

/*
 * Call it when another relay has stored these acks, or the retries of these notifications have
 * ended. `ids` are lower case UUIDs. Queued retries are still sent, because a notification may have
 * been redriven since; the reply to the delivery report decides.
 */
void hub_end_acks(struct hub *hub, const char *user, const char *const *ids, size_t count,
                  bool was_acked);

/* ---- turn.c */

void turn_start(struct hub *hub);
void turn_stop(struct hub *hub);

/*
 * Offers the notifications that were read in this iteration, in order. Call it before a change of
 * memberships or acks.
 */
void hub_publish(struct hub *hub);

/*
 * Processes the ready list. Sends for at most `max` sessions. Frees closed sessions. Returns true
 * if sessions are left.
 */
bool hub_send_some(struct hub *hub, unsigned max);

#endif
