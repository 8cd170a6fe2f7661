/* live_rows.h: the lists of rows that a client has. */
#ifndef CLAIRON_HUB_LIVE_ROWS_H
#define CLAIRON_HUB_LIVE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "hub/hub.h"
#include "rows/rows.h"
#include "store/entry.h"
#include "wire/bytes.h"

/* ---- lists */

#define SESSION_LIST_REQUESTS_MAX 256 /* maximum requests that wait or are being sent */

/*
 * Whether the rows of the list may have changed without a notification: the memberships of the user
 * changed, or the table was truncated.
 *
 * NONE: no reload is needed. DUE: send a reload, unless a pending request returns the change.
 * CERTAIN: always send a reload, because the transaction of the change is unknown.
 */
enum list_reload { LIST_RELOAD_NONE, LIST_RELOAD_DUE, LIST_RELOAD_CERTAIN };

/* A live rule. */
struct list_name {
    struct bytes source;
    struct bytes rule;
};

/* A live rule whose rows the client has requested, or has read elsewhere. */
struct session_list {
    struct session_list *prev;
    struct session_list *next;
    char *source;
    char *rule;
    char *audience; /* audience of the last result; NULL: no result yet, or denied */
    /* the rule may not exist: the last request was denied, or no request was sent */
    bool is_unverified;
    bool is_denied; /* the last request was denied */
    /* a request had conditions, so one result does not replace all rows that the client has */
    bool is_partial;
    unsigned pending;        /* number of requests whose last page was not sent */
    enum list_reload reload; /* sent now, and again once no request waits */
    /* the same for changes of the rule or its table, which a denied user must not learn of */
    enum list_reload rule_reload;
    bool is_announced; /* the reload was sent while requests wait */
};

/* One `rows` request of a client. The request waits for a result, then until its pages are sent. */
struct list_request {
    struct list_request *prev; /* links of `waiting` or `sending` */
    struct list_request *next;
    struct session *session;
    struct session_list *list;
    int64_t request_id;
    struct rows_request *request; /* NULL: the request was rejected */
    bool has_cursor;
    struct cursor cursor; /* cursor when requested; the result contains all earlier changes */
    enum rows_status status;
    int64_t after_ms;
    const struct rows_result *result; /* used while sending; NULL: none */
    size_t next_row;                  /* first row of the next page */
    size_t page_end;                  /* end of the next page */
};

/* Allocated with the first request. */
struct session_lists {
    struct session *session;
    struct session_lists *prev; /* links of hub->lists */
    struct session_lists *next;
    struct session_list *lists; /* utlist; lists of live rules, and a few unverified lists */
    unsigned request_count;
    bool has_frames;              /* frames may be ready (lists_write_frame) */
    struct list_request *waiting; /* utlist */
    struct list_request *sending; /* utlist, in the order of the results */
};

/* Starts a request. NULL: too many replies are queued. */
struct list_request *lists_request(struct session *session, const char *source, const char *rule,
                                   int64_t request_id);
/*
 * Call it when the result of the request `ctx` has arrived. Pages or an error are sent next.
 */
void lists_rows_received(void *ctx, enum rows_status status, const struct rows_result *result,
                         int64_t after_ms);

/*
 * Memberships in groups of this kind changed (NULL: of any kind). is_known: snapshots are checked
 * for the change.
 */
void lists_reload(struct session *session, const struct bytes *kind, bool is_known);

/*
 * The rows of this rule changed; if its name is empty, of all rules of the source. NULL: the rows
 * of any rule may have changed. is_known: as for lists_reload.
 */
void lists_reload_rule(struct session *session, const struct list_name *name, bool is_known);

/* True if a frame can be sent now; never before `connected`. */
bool lists_have_frames(const struct session *session);

/* True if the next frame is a `reload`. */
bool lists_have_reload(const struct session *session);

/*
 * Adds the next frame to `out`: `reload`, `err`, or a page of `rows`. Returns false if no frame is
 * due. Call lists_frame_sent after sending it; otherwise the next call adds the same frame.
 */
bool lists_write_frame(struct session *session, struct buffer *out);
void lists_frame_sent(struct session *session);

/* Ends all requests and frees the lists. */
void lists_free(struct session *session);

#endif
