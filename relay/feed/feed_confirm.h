/* feed_confirm.h: the LSN that may be confirmed, and the status messages that confirm it. */
#ifndef CLAIRON_FEED_FEED_CONFIRM_H
#define CLAIRON_FEED_FEED_CONFIRM_H

#include <ev.h>
#include <stdint.h>

#include "wire/frame.h"

#define FEED_MARKS_MAX 64

struct feed;

/* The WAL position that the store had acknowledged at a point in time. */
struct feed_mark {
    int64_t at_us;
    uint64_t lsn;
};

struct feed_confirm {
    uint64_t received_lsn;
    uint64_t idle_lsn;        /* all changes before this LSN were sent, as a keepalive reported */
    uint64_t stored_lsn;      /* the store has acknowledged all WAL before this LSN */
    uint64_t synced_lsn;      /* all WAL before this LSN is on the store's disk */
    uint64_t replicated_lsn;  /* all WAL before this LSN is on enough replicas */
    uint64_t confirmed_lsn;   /* PostgreSQL may recycle WAL before this LSN */
    uint64_t replicating_lsn; /* LSN that the replicas must reach; 0: no request */
    uint64_t marked_lsn;
    uint64_t keepalive_lsn;                 /* end of WAL in the last keepalive */
    struct feed_mark marks[FEED_MARKS_MAX]; /* ring, oldest first */
    unsigned mark_first;
    unsigned mark_count;
};

/* Status messages to the server, and the times of the last message sent and received. */
struct feed_feedback {
    ev_timer timer;
    int64_t sent_us;            /* time of the last status message */
    int64_t received_us;        /* time of the last message from the server */
    int64_t timeout_us;         /* the server's wal_sender_timeout; 0: disabled */
    uint64_t reported_lsn;      /* LSN confirmed by the last status message */
    int64_t last_commit_us;     /* arrival of the last transaction's commit frame; monotonic */
    int64_t last_commit_lag_us; /* delay between that transaction's commit and the arrival */
};

/* Advances confirmed_lsn as far as possible. */
void feed_confirm_update(struct feed *feed);
void feed_confirm_reset(struct feed *feed);
/* Waits for replicas if store.min_replicas is set. */
void feed_confirm_replicas(struct feed *feed);
/* Returns the WAL position before which no change is outstanding; 0: unknown. */
uint64_t feed_confirm_read_lsn(struct feed *feed, const struct walmsg *keepalive);

#endif
