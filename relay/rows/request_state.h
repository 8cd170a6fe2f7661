/* request_state.h: the state of a request, for the files of the queue. */
#ifndef CLAIRON_ROWS_REQUEST_STATE_H
#define CLAIRON_ROWS_REQUEST_STATE_H

#include "rows/queue.h"

struct rows_request {
    struct rows_queue *queue;
    struct rows_user *user;
    struct rows_query *query;  /* NULL once it is done */
    struct rows_request *prev; /* of its query; with a result, of its user */
    struct rows_request *next;
    struct rows_wanted wanted; /* owns source, rule and groups; the user's name is that of `user` */
    const struct rows_events *events;
    void *ctx;
    struct rows_result *result; /* a reference, once it is done */
    size_t copied_bytes;        /* counted with the results in memory */
    int64_t deadline_us;        /* for the start of its query */
    int64_t not_before_us;
    int64_t delay_us; /* before the next query, if a snapshot was too old */
    bool was_lost;
};

#endif
