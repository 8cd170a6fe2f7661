/* trace.h: the trace of one notification: committed, stored, sent, acknowledged, retried. */
#ifndef CLAIRON_STORE_TRACE_H
#define CLAIRON_STORE_TRACE_H

#include "base/buffer.h"
#include "base/clock.h"
#include "store/store.h"

#define TRACE_JSON_MAX (4 * 1024 * 1024)

struct trace_event {
    char at[CLOCK_TEXT_MAX]; /* ISO 8601, UTC */
    struct bytes stage;  /* committed, stored, sent, acked, nacked, retried, errored, redriven */
    struct bytes detail; /* a stream entry, a reason or a delay; "-": no detail */
    struct bytes user;   /* empty: no user */
    int attempt;
};

/* The strings point into the store's reply; the arrays belong to the trace. */
struct trace {
    struct bytes data; /* the JSON document; empty: trimmed from the stream */
    struct trace_event *events;
    size_t event_count;
    struct bytes *waiting; /* users without an acknowledgement, at most 1000 */
    size_t waiting_count;
};

/*
 * An empty trace (no data, no events): unknown id. Its data is valid during the callback. RC_IO:
 * the notification was not found, and a shard that may have it did not reply.
 */
typedef void store_traced(void *ctx, enum rc rc, const struct trace *trace);
#define STORE_SHARD_UNKNOWN (-1)
/*
 * Requests the trace. `shard`: the notification's shard, or STORE_SHARD_UNKNOWN. `id`: a lower case
 * UUID. RC_OK and RC_AGAIN have the same meaning as in store.h.
 */
MUST_CHECK enum rc store_trace(struct store *store, int shard, const char *id, store_traced *done,
                               void *ctx);

/* {"id":..,"notification":..,"events":[..],"waiting":[..]} */
MUST_CHECK enum rc trace_write_json(const struct trace *trace, const char *id, struct buffer *out);

/* Reads a reply of trace.lua. The reply must outlive the trace. Free it with trace_free. */
struct redisReply;
MUST_CHECK enum rc trace_read(const struct redisReply *reply, const char *id,
                              struct trace *ret_trace);
void trace_free(struct trace *trace);
/* True if the id is unknown. */
bool trace_is_empty(const struct trace *trace);

/* Returns the commit time from the first 48 bits of an id. `id`: a UUID. */
int64_t trace_commit_ms(const char *id);

#endif
