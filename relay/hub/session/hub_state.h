/* hub_state.h: the state of the hub, shared by the files of this module. */
#ifndef CLAIRON_HUB_SESSION_HUB_STATE_H
#define CLAIRON_HUB_SESSION_HUB_STATE_H

#include <ev.h>

#include "base/config.h"
#include "base/stats.h"
#include "hub/fanout/client_pos.h"
#include "hub/fanout/pressure.h"
#include "hub/fanout/recent_xids.h"
#include "hub/fanout/replay_buffer.h"
#include "hub/fanout/batch.h"
#include "hub/session/ready_list.h"
#include "hub/session/session_state.h"
#include "store/reader.h"
#include "store/store.h"

#define HUB_UNPUBLISHED_MAX 128

struct acks {
    struct store_ack *items; /* owns the texts */
    size_t count;
    size_t room;
};

/* All of the acks in this relay, by what they wait for. */
struct ack_queue {
    struct acks queued;  /* the next batch */
    struct acks sent;    /* a reply */
    struct acks waiting; /* the return of an unavailable shard */
};

struct rejections {
    uint64_t count; /* since the last log line */
    int64_t logged_us;
};

struct delivery_report; /* delivery/report_queue.h */
struct report_call;     /* acks/delivery_reports.c */

struct delivery_reports {
    struct delivery_report *items; /* waiting for the store */
    size_t count;
    size_t room;
    struct report_call *calls; /* utlist, in order: pending, or to be sent again */
    unsigned call_count;       /* their number */
    unsigned failed;           /* of these are to be sent again */
};

/*
 * Load shedding: while this process is short of CPU or memory, some notifications are dropped. The
 * others report the cursor before the first dropped one: a client that resumes from it receives
 * the dropped ones, if load allows. At the end clients receive a gap.
 */
struct shed {
    struct pressure pressure;
    ev_timer measure;
    int64_t measured_us;                    /* monotonic */
    struct entry_id hold[STORE_SHARDS_MAX]; /* the cursor before it */
    int64_t began_us;
    uint64_t count; /* notifications dropped since then */
};

struct resume_user; /* resume/read_pages.c */

/*
 * A session that resumes from an old cursor makes the store read every later notification, for
 * all audiences. All sessions of a user share a budget of such pages: `delivery.resume_pages` per
 * second, with a burst of 60 seconds' worth. A user reads one page at a time, so that users who
 * resume at the same time share the store fairly, however many sessions they have. A session that
 * has to wait reads later, from its cursor: nothing is lost.
 */
struct resumes {
    struct resume_user *users; /* uthash */
    ev_timer turns;            /* while users wait for their budget */
};

/* The sessions of a shard's users: followed.h. */
struct followed {
    unsigned sessions;
    int64_t left_us; /* when the last one ended; monotonic; 0: none did */
};

struct rows;

struct hub {
    struct ev_loop *loop;
    const struct config *config;
    struct store *store;
    struct rows *rows; /* NULL: no connection string */
    unsigned shards;   /* of the store */
    struct stats *stats;
    struct reader *reader;
    struct followed followed[STORE_SHARDS_MAX];
    struct store_listener store_listener;
    struct audience *audiences;
    struct session *sessions; /* utlist */
    uint64_t session_count_ever;
    bool has_head; /* the store was up once: replay_buffer.head is valid */
    char epoch[CLIENT_POS_EPOCH_MAX + 1];
    struct replay_buffer replay_buffer;
    struct recent_xids recent_xids;
    struct notification
        *unpublished[HUB_UNPUBLISHED_MAX]; /* read in this iteration, not yet offered */
    unsigned unpublished_count;
    struct merged_batch merged;               /* for the batch that is being offered */
    struct entry_id newest[STORE_SHARDS_MAX]; /* the last entry read, by shard */
    struct ready_list ready;
    int64_t sending_us;      /* when this turn began to send; wall clock */
    ev_prepare turn;         /* the end of a turn: offers the batch, processes the ready list */
    ev_idle more;            /* while the ready list is not empty */
    unsigned char *scratch;  /* a session's control queue, as a frame */
    unsigned list_frames;    /* sent in this turn */
    unsigned deferred_count; /* sessions with inbox_is_deferred */
    bool refill_is_pending;  /* some of them wait for acks and reports to be stored */
    struct ack_queue acks;
    struct delivery_reports reports;
    size_t nack_count; /* pending ids */
    struct rejections acks_rejected;
    struct rejections nacks_rejected;
    ev_timer retry;
    ev_timer heartbeat;
    bool presence_is_stale; /* a change of presence was not stored */
    struct shed shed;
    struct resumes resumes;
    size_t queued_bytes; /* of notifications in queues, each counted once */
    bool closing;
};

#endif
