/* request_state.h: the state of a request, shared by the files of the queue. */
#ifndef CLAIRON_ROWS_REQUEST_STATE_H
#define CLAIRON_ROWS_REQUEST_STATE_H

#include "rows/queue.h"

struct rows_request {
    struct rows_queue *queue;
    struct rows_user *user;
    struct rows_query *query;  /* NULL after completion */
    struct rows_request *prev; /* links of the query's list; with a result, of the user's list */
    struct rows_request *next;
    struct rows_wanted wanted; /* owns source, rule and groups; the user's name belongs to `user` */
    const struct rows_events *events;
    void *ctx;
    struct rows_result *result; /* a reference; set when the request completes */
    size_t copied_bytes;        /* size of the client's copy, counted as result memory */
    int64_t deadline_us;        /* time limit for the start of the query */
    int64_t not_before_us;
    int64_t delay_us;          /* delay before the next query, if this one must be repeated */
    enum rows_status repeated; /* why a query was repeated with a delay; ROWS_OK: none was */
    bool was_lost;
};

#endif
