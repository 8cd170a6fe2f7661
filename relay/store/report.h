/* report.h: delivery reports: a notification that needs an ack was sent or held back. */
#ifndef CLAIRON_STORE_REPORT_H
#define CLAIRON_STORE_REPORT_H

#include "store/store.h"

struct store_report {
    const char *user;
    const unsigned char *id; /* 16 bytes */
    struct entry_id entry;   /* its stream entry; read only if is_deferred */
    uint8_t backoff;         /* enum frame_backoff */
    uint32_t ack_timeout_ms; /* 0: use delivery.ack_timeout */
    unsigned char shard;     /* shard of the notification */
    bool is_retried;
    bool is_open_ended; /* every recipient must acknowledge it */
    bool is_deferred;   /* not delivered: the in-flight window is full */
    bool is_renewal;    /* repeats an earlier report, because the store may have lost it */
};

/* The state of a pair, as report.lua returns it. */
enum store_pair {
    STORE_PAIR_PENDING, /* or unknown: the report was omitted */
    STORE_PAIR_NONE,    /* the user does not have to acknowledge it */
    STORE_PAIR_ACKED,
    STORE_PAIR_ENDED, /* it expired, or its retries are exhausted */
    STORE_PAIR_LOST   /* deferred, and the store has lost its stream entry */
};

/* `states` contains one state per report; NULL on failure. Valid during the callback. */
typedef void store_reported(void *ctx, enum rc rc, const enum store_pair *states, size_t count);

/*
 * Starts the ack timeout. The reports must live only during the call. Reports of unavailable shards
 * are omitted: sessions read the inbox again when these shards return. RC_CLOSED: all were omitted,
 * and the callback is not called.
 */
MUST_CHECK enum rc store_report(struct store *store, const struct store_report *reports,
                                size_t count, store_reported *done, void *ctx);

#endif
