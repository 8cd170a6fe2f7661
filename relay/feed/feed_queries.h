/*
 * feed_queries.h: queries on their own connection while the feed runs: to the primary, to the
 * standby, for the console.
 */
#ifndef CLAIRON_FEED_FEED_BESIDE_H
#define CLAIRON_FEED_FEED_BESIDE_H

#include <stdint.h>

#include "postgres/query.h"

struct feed;

/*
 * While CREATING a slot on a standby: asks the primary for a snapshot of running transactions.
 * _end accepts one that was not started, here and below.
 */
struct feed_primary {
    struct postgres_query query;
    ev_timer time;
    bool failure_logged;
};

void feed_primary_start(struct feed *feed);
void feed_primary_end(struct feed *feed);

/* While STREAMING from a standby: checks that new WAL arrives. */
struct feed_standby {
    struct postgres_query query;
    ev_timer time;
    bool query_failed; /* the last status query failed, and that is logged */
    unsigned failures; /* consecutive bad answers, up to the threshold */
};

void feed_standby_start(struct feed *feed);
void feed_standby_end(struct feed *feed);

/* The rules for the console. */
struct feed_rules {
    struct postgres_query query;
    ev_timer idle;   /* active: the connection is open */
    char *text;      /* JSON; NULL: never read */
    int64_t read_us; /* wall clock */
};

void feed_rules_end(struct feed *feed);

#endif
