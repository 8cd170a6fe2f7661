/*
 * feed_denials.h: reports notifications that the store has denied to the server of the slot, where
 * clairon.status and clairon.doctor name the owners.
 */
#ifndef CLAIRON_FEED_FEED_DENIALS_H
#define CLAIRON_FEED_FEED_DENIALS_H

#include <stdint.h>

#include "postgres/query.h"

struct feed;

#define FEED_DENIALS_SQL_MAX 4096 /* room for STORE_DENIALS_MAX owners */

struct feed_denials {
    struct postgres_query query;
    char sql[FEED_DENIALS_SQL_MAX]; /* the last report */
    uint64_t reported;              /* denied notifications in it */
    int64_t next_us;                /* no report before; monotonic clock */
};

/* Sends a report if notifications were denied since the last one, at most once a second. */
void feed_denials_report(struct feed *feed);

void feed_denials_end(struct feed *feed);

#endif
