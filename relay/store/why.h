/* why.h: explains whether a notification reached a user, from its trace and facts on the user. */
#ifndef CLAIRON_STORE_WHY_H
#define CLAIRON_STORE_WHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/rc.h"
#include "store/store.h"

struct redisReply;
struct trace;

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

/* What the store knows of a notification and a user (user_facts.lua). */
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

/* Reads the facts in a reply of trace.lua; NULL, or without facts: none. */
void user_facts_read(const struct redisReply *reply, struct user_facts *ret_facts);

/*
 * Finds the gap that covers the notification. If the store does not have the notification any more,
 * the time in its id is compared: then the trace is not empty. `shard`: of the notification;
 * `own`: of the user.
 */
void user_facts_find_gap(struct trace *trace, const char *id, unsigned shard, unsigned own);

#define WHY_JSON_MAX ((size_t)256 * 1024)
#define WHY_TEXT_MAX ((size_t)32 * 1024)

/* Adds the explanation, in sentences. The trace is of store_trace_of_user. */
MUST_CHECK enum rc why_write_text(const struct trace *trace, const char *user, struct buffer *out);

/* {"id":..,"user":..,"explanation":..,"addressed":..,"outcome":..,"delivered":[..],..} */
MUST_CHECK enum rc why_write_json(const struct trace *trace, const char *id, const char *user,
                                  struct buffer *out);

#endif
