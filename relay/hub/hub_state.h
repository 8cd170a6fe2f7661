/* hub_state.h: the state of the hub, shared by the files of this module. */
#ifndef CLAIRON_HUB_HUB_STATE_H
#define CLAIRON_HUB_HUB_STATE_H

#include <ev.h>

#include "base/config.h"
#include "base/stats.h"
#include "hub/client_pos.h"
#include "hub/pressure.h"
#include "hub/recent_xids.h"
#include "hub/replay_buffer.h"
#include "hub/batch.h"
#include "hub/ready_list.h"
#include "hub/session_state.h"
#include "store/reader.h"
#include "store/store.h"

#define HUB_UNPUBLISHED_MAX 128

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

struct rejections {
    uint64_t count; /* rejections since the last log message */
    int64_t logged_us;
};

struct delivery_report; /* delivery/report_queue.h */
struct report_call;     /* acks/delivery_reports.c */

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

struct page_budget; /* resume/pages.c */

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

/* The sessions of a shard's users (followed.h). */
struct followed {
    unsigned sessions;
    int64_t left_us; /* end of the last session; monotonic; 0: none ended */
};

struct rows;

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
    struct rejections acks_rejected;
    struct rejections nacks_rejected;
    struct rejections reports_rejected;
    ev_timer retry;
    ev_timer heartbeat;
    bool presence_is_stale; /* a change of presence was not stored */
    struct shed shed;
    struct resumes resumes;
    size_t queued_bytes; /* size of the queued notifications, each counted once */
    bool closing;
};

#endif
