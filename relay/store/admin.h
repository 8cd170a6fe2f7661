/*
 * admin.h: what operators read and change in the store, over HTTP, on the console and by commands:
 * its state, the error log, traces, users, and the acts themselves.
 */
#ifndef CLAIRON_STORE_ADMIN_H
#define CLAIRON_STORE_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rc.h"
#include "base/stats.h"
#include "store/entry.h"
#include "store/store.h"

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

/* ---- a notification and a user */

enum fact { FACT_UNKNOWN, FACT_NO, FACT_YES };

/* A gap that a connection of the user received: the stream entries after `from` up to `to`. */
struct user_gap {
    char at[CLOCK_TEXT_MAX];
    char why[16];
    char conn[STORE_CONN_TEXT + 1];
    struct cursor from;
    struct cursor to;
};

#define USER_GAPS_MAX 8 /* as in gap.lua */

struct user_gaps {
    struct user_gap items[USER_GAPS_MAX]; /* newest first */
    size_t count;
};

/* What the store knows of a notification and a user (trace.lua). */
struct user_facts {
    bool is_waiting;         /* the user must acknowledge it */
    int64_t acked_ms;        /* 0: not acknowledged */
    bool is_pending;         /* some user must acknowledge it */
    bool knows_pairs;        /* a user without a pair never had one */
    enum fact is_open_ended; /* without members at the commit: its recipients get pairs */
    enum fact is_member;     /* now, of the audience */
    enum fact is_in_error_log;
    int retries; /* delivered */
    int relays;  /* to which the user is connected now; -1: unknown */
    struct user_gaps gaps;
    struct user_gap gap; /* covers the notification, unless has_gap is false */
    bool has_gap;
};

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

/* ---- whether a notification reached a user, from its trace and facts on the user */

#define WHY_JSON_MAX ((size_t)256 * 1024)
#define WHY_TEXT_MAX ((size_t)32 * 1024)

/* Adds the explanation, in sentences. The trace is of store_trace_of_user. */
MUST_CHECK enum rc why_write_text(const struct trace *trace, const char *user, struct buffer *out);

/* {"id":..,"user":..,"explanation":..,"addressed":..,"outcome":..,"delivered":[..],..} */
MUST_CHECK enum rc why_write_json(const struct trace *trace, const char *id, const char *user,
                                  struct buffer *out);

/* ---- removing a user */

/* Where the name remains, in entries that others need too. */
enum forget_place {
    FORGET_STREAM,   /* notifications that are also addressed to others, or that name the user */
    FORGET_ERRORS,   /* the same, in the error log */
    FORGET_RECEIPTS, /* until each sink has them, or they are trimmed */
    FORGET_CONTROL,  /* membership changes and ack events that relays may still read */
    FORGET_PLACES
};

struct forget_remainder {
    uint64_t entries;
    int64_t until_ms; /* Unix time: at the latest; 0: no entries */
    bool has_no_end;  /* an entry is pending for others, and does not expire */
};

struct store_forgotten {
    uint64_t pairs;         /* pending pairs that ended as forgotten */
    uint64_t notifications; /* stream entries that were deleted */
    uint64_t removed;       /* other keys, fields and entries that were removed or changed */
    uint64_t memberships;   /* in clairon.member, which is the application's */
    bool is_connected;      /* a relay has not ended the user's sessions */
    struct forget_remainder remain[FORGET_PLACES];
};

/*
 * Ends the sessions and pairs of a user, and removes the name from all shards, in many small steps.
 * After a failure, call it again: it removes what is left. RC_OK and RC_AGAIN have the same meaning
 * as in store.h. RC_IO: not all was removed.
 */
typedef void store_forget_done(void *ctx, enum rc rc, const struct store_forgotten *forgotten);
MUST_CHECK enum rc store_forget(struct store *store, const char *user, store_forget_done *done,
                                void *ctx);

/* Writes the result as a JSON object. */
MUST_CHECK enum rc store_forgotten_write(const struct store_forgotten *forgotten,
                                         struct buffer *out);

/*
 * ---- the acts of operators, in a stream of shard 0 (KEY_AUDIT)
 *
 * The stream contains hashes of names. The keys KEY_AUDIT_NAME contain the names, until
 * `clairon forget` removes them: a removed user is then named by the hash, also in older acts.
 */

#define AUDIT_QUEUE_MAX 1000 /* acts that wait for the store */
#define AUDIT_PAGE_MAX 1000  /* acts in a page */
#define AUDIT_PAGE_BYTES_MAX ((size_t)16 * 1024 * 1024)

#define AUDIT_HASH_TEXT 43 /* base64url characters of a SHA-256 */
void audit_hash(const char *name, char ret_hash[AUDIT_HASH_TEXT + 1]);

/*
 * Stores the acts of this process (log_audit_listen). While the store is down, up to
 * AUDIT_QUEUE_MAX acts wait; further ones are only in the log, and counted.
 */
struct audit;
struct audit *audit_open(struct ev_loop *loop, struct store *store, struct stats *stats);
/* Adds an act of another process. */
void audit_add(struct audit *audit, const struct log_act *act, int64_t at_us);
/* Call it before store_close. Accepts NULL. */
void audit_close(struct audit *audit);
void audit_free(struct audit *audit); /* call it after store_close; accepts NULL */

/*
 * Reads up to `limit` acts after the stream entry `after` ("": the oldest), oldest first. `json`:
 * an array; `next`: the last stream entry that was read. Valid during the callback. RC_OK and
 * RC_AGAIN have the same meaning as in store.h.
 */
typedef void store_audit_read_done(void *ctx, enum rc rc, struct buffer *json, const char *next);
MUST_CHECK enum rc store_audit_read(struct store *store, const char *after, unsigned limit,
                                    store_audit_read_done *done, void *ctx);

#endif
