/*
 * feed_standby.h: queries for a feed that reads a standby, over separate connections: they help to
 * create its slot, and detect missing WAL.
 */
#ifndef CLAIRON_FEED_FEED_STANDBY_H
#define CLAIRON_FEED_FEED_STANDBY_H

#include <stdbool.h>

#include "postgres/query.h"

struct feed;

/*
 * While CREATING a slot on a standby: requests a snapshot of running transactions from the primary.
 */
struct feed_primary {
    struct postgres_query query;
    bool failure_logged;
};

void feed_primary_start(struct feed *feed);

/* While STREAMING from a standby: checks that new WAL arrives. */
struct feed_standby {
    struct postgres_query query;
    bool query_failed; /* the last status query failed and was logged */
    unsigned failures; /* consecutive failed checks, up to the threshold */
};

void feed_standby_start(struct feed *feed);
void feed_standby_end(struct feed *feed);

#endif
