/* admin.h: the store's state, error log, traces and drops, for the console and for commands. */
#ifndef CLAIRON_STORE_ADMIN_H
#define CLAIRON_STORE_ADMIN_H

#include "base/clock.h"
#include "base/memory.h"
#include "store/entry.h"
#include "store/store.h"
#include "store/why.h"

struct redisReply;

/* ---- the state, for the console. RC_OK and RC_AGAIN have the same meaning as in store.h. */

/*
 * A JSON string, valid during the callback; overview.lua, errors.lua, latest.lua and user.lua
 * define its form. `missing` lists the shards that did not reply, such as "3,7": the JSON lacks
 * their data. Without shard 0 the `relays` of an overview and of a user, and the `sinks`, are null.
 * RC_IO: no shard replied.
 */
typedef void store_described(void *ctx, enum rc rc, struct bytes json, const char *missing);
MUST_CHECK enum rc store_overview(struct store *store, store_described *done, void *ctx);
/* Returns a page of the error log, newest first: dead letters before `before`; NULL: the newest. */
MUST_CHECK enum rc store_errors(struct store *store, const struct entry_id *before,
                                store_described *done, void *ctx);
/* Returns the newest notifications after `after` (NULL: all), newest first, without payloads. */
MUST_CHECK enum rc store_latest(struct store *store, const struct entry_id *after,
                                store_described *done, void *ctx);
/* Returns the relays to which a user is connected, and the number of pending notifications. */
MUST_CHECK enum rc store_user(struct store *store, const char *user, store_described *done,
                              void *ctx);

enum store_error_change {
    STORE_ERROR_CHANGED,
    STORE_ERROR_NOT_FOUND, /* the dead letter does not exist */
    STORE_ERROR_NO_USERS   /* it has no users or is invalid, so it can only be dropped */
};
/* `users`: number of users to whom the notification is sent again. */
typedef void store_error_changed(void *ctx, enum rc rc, enum store_error_change outcome,
                                 long long users);
/* Like command_redrive, for all users of the dead letter. */
MUST_CHECK enum rc store_redrive(struct store *store, struct entry_id entry,
                                 store_error_changed *done, void *ctx);
MUST_CHECK enum rc store_drop(struct store *store, struct entry_id entry, store_error_changed *done,
                              void *ctx);

/*
 * Ends the pending pairs of a notification as dropped. `is_known` false: no shard has the
 * notification, or it needs no acknowledgement. RC_IO: it may be in a shard that did not reply, or
 * some of its pairs are still pending.
 */
typedef void store_pairs_dropped(void *ctx, enum rc rc, bool is_known);
MUST_CHECK enum rc store_drop_pairs(struct store *store, const char *id, store_pairs_dropped *done,
                                    void *ctx);

/* ---- one entry of the error log */

/* Points into the store's reply. */
struct error_entry {
    struct entry_id entry;
    struct bytes id;
    struct bytes reason;
    struct bytes attempts;
    struct bytes users; /* a JSON array */
    struct bytes data;
    struct bytes route; /* the header of a notification's frame, or empty */
};

/*
 * Returns the shard whose error log may have an entry with this id. With several shards,
 * notifications.lua encodes the shard in the id. Any other id maps to an arbitrary shard.
 */
static inline unsigned
error_entry_shard(struct entry_id id, unsigned shard_count)
{
    return (unsigned)(id.seq % STORE_SHARDS_MAX) % shard_count;
}

/* Reads a row of the error log. RC_BAD: invalid row. */
MUST_CHECK enum rc error_entry_read(const struct redisReply *row, struct error_entry *ret_entry);

/* ---- the trace of one notification: committed, stored, sent, acknowledged, retried */

#define TRACE_JSON_MAX (4 * 1024 * 1024)

struct trace_event {
    char at[CLOCK_TEXT_MAX]; /* ISO 8601, UTC */
    /*
     * committed, stored, sent, unsubscribed, acked, nacked, retried, errored, redriven, dropped,
     * forgotten
     */
    struct bytes stage;
    struct bytes detail; /* a stream entry, connection, reason or delay; "-": no detail */
    struct bytes user;   /* empty: no user */
    int attempt;
};

/* The strings point into the store's reply; the arrays belong to the trace. */
struct trace {
    struct bytes data;  /* the JSON document; empty: trimmed from the stream */
    struct bytes route; /* the header of its frame; empty: trimmed from the stream */
    struct trace_event *events;
    size_t event_count;
    struct bytes *waiting; /* users without an acknowledgement, at most 1000 */
    size_t waiting_count;
    struct user_facts facts; /* of store_trace_of_user */
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

/* Like store_trace in all shards, with the facts about a user. `user` is copied. */
MUST_CHECK enum rc store_trace_of_user(struct store *store, const char *id, const char *user,
                                       store_traced *done, void *ctx);

/* {"id":..,"notification":..,"events":[..],"waiting":[..]} */
MUST_CHECK enum rc trace_write_json(const struct trace *trace, const char *id, struct buffer *out);

/* Reads a reply of trace.lua. The reply must outlive the trace. Free it with trace_free. */
MUST_CHECK enum rc trace_read(const struct redisReply *reply, const char *id,
                              struct trace *ret_trace);
void trace_free(struct trace *trace);
/* True if the store does not have the notification. */
static inline bool
trace_is_gone(const struct trace *trace)
{
    return trace->data.len == 0 && trace->event_count == 0;
}

/* True if nothing is known: no gap covers the notification either. */
static inline bool
trace_is_empty(const struct trace *trace)
{
    return trace_is_gone(trace) && !trace->facts.has_gap;
}

/* Returns the first event of a stage; NULL: none. */
static inline const struct trace_event *
trace_find_stage(const struct trace *trace, const char *stage)
{
    for (size_t i = 0; i < trace->event_count; i++)
        if (bytes_equal_text(trace->events[i].stage, stage))
            return &trace->events[i];
    return NULL;
}

/* True if the detail of the event is a connection. */
bool trace_event_has_conn(const struct trace_event *event);

#endif
