/* feed_confirm.h: how far the slot may be confirmed. */
#ifndef CLAIRON_FEED_FEED_CONFIRM_H
#define CLAIRON_FEED_FEED_CONFIRM_H

#include <stdint.h>

#include "wire/walmsg.h"

#define FEED_MARKS_MAX 64

struct feed;

/* How far the store was at a time. */
struct feed_mark {
    int64_t at_us;
    uint64_t lsn;
};

struct feed_confirm {
    uint64_t received_lsn;
    uint64_t idle_lsn;        /* nothing can come any more before it, as a keepalive told */
    uint64_t stored_lsn;      /* the store answered for all before it */
    uint64_t synced_lsn;      /* and it is safe on disk by now */
    uint64_t replicated_lsn;  /* and enough replicas have it */
    uint64_t confirmed_lsn;   /* so PostgreSQL may forget it */
    uint64_t replicating_lsn; /* that replicas are asked for; 0: nothing */
    uint64_t marked_lsn;
    uint64_t asked_lsn;                     /* the last keepalive's end of WAL */
    struct feed_mark marks[FEED_MARKS_MAX]; /* a ring, oldest first */
    unsigned mark_first;
    unsigned mark_count;
};

/* Moves confirmed_lsn as far as is safe now. */
void feed_confirm_update(struct feed *feed);
void feed_confirm_reset(struct feed *feed);
/* Asks for replicas, where the settings want them. */
void feed_confirm_replicas(struct feed *feed);
/* Up to where nothing can come any more, as a keepalive tells; 0: it does not tell. */
uint64_t feed_confirm_read_lsn(struct feed *feed, const struct walmsg *keepalive);

#endif
