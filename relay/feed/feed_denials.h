/*
 * feed_denials.h: reports what the store has denied to table owners to the server of the slot,
 * where clairon.status and clairon.doctor name them.
 */
#ifndef CLAIRON_FEED_FEED_DENIALS_H
#define CLAIRON_FEED_FEED_DENIALS_H

#include <stdint.h>

#include "postgres/query.h"
#include "store/store.h"

struct feed;

#define FEED_DENIALS_SQL_MAX 8192 /* room for STORE_DENIALS_MAX owners in each account */

struct feed_denials {
    struct postgres_query query;
    char sql[FEED_DENIALS_SQL_MAX]; /* the last report */
    struct {
        uint64_t reported; /* denials in it; 0: it failed */
        uint64_t logged;
    } accounts[STORE_ACCOUNTS];
    int64_t next_us; /* no report before; monotonic clock */
};

/* Sends a report if there were denials since the last one, at most once a second. */
void feed_denials_report(struct feed *feed);

void feed_denials_end(struct feed *feed);

#endif
