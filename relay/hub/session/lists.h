/* lists.h: the lists of rows that a client holds, and its requests for them. */
#ifndef CLAIRON_HUB_SESSION_LISTS_H
#define CLAIRON_HUB_SESSION_LISTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "rows/request.h"
#include "store/cursor.h"
#include "wire/bytes.h"

struct session;

#define SESSION_LIST_REQUESTS_MAX 256 /* waiting or sending */
#define SESSION_UNVERIFIED_LISTS_MAX 32

/*
 * The rows of the list may have changed without a notification: the memberships of the user
 * changed, or the table was truncated.
 *
 * NONE: no reload.
 * DUE: reload, unless a pending request returns the change.
 * CERTAIN: it must, because the change has no known transaction.
 */
enum list_reload { LIST_RELOAD_NONE, LIST_RELOAD_DUE, LIST_RELOAD_CERTAIN };

/* A live rule. */
struct list_name {
    struct bytes source;
    struct bytes rule;
};

/* A live rule whose rows the client requested, or has from elsewhere. */
struct session_list {
    struct session_list *prev;
    struct session_list *next;
    char *source;
    char *rule;
    char *audience;          /* of the last result; NULL: none yet, or denied */
    bool is_unverified;      /* the rule may not exist: the last request was denied, or none came */
    unsigned pending;        /* requests, until their last page is sent */
    enum list_reload reload; /* sent once no request waits */
};

/* One `rows` of a client. It waits for a result, then for its pages to be sent. */
struct list_request {
    struct list_request *prev; /* waiting, or sending */
    struct list_request *next;
    struct session *session;
    struct session_list *list;
    int64_t request_id;
    struct rows_request *request; /* NULL: it was rejected */
    bool has_cursor;
    struct cursor cursor; /* at the time of the request; the result contains everything before it */
    enum rows_status status;
    int64_t after_ms;
    const struct rows_result *result; /* sending, and ROWS_OK */
    size_t next_row;                  /* of the next page */
    size_t page_end;                  /* the first row after it */
};

/* Allocated with the first request. */
struct session_lists {
    struct session_list *lists; /* utlist; those of live rules, and a few unverified ones */
    unsigned request_count;
    bool has_frames;              /* perhaps: see lists_write_frame */
    struct list_request *waiting; /* utlist */
    struct list_request *sending; /* utlist, in the order of the replies */
};

/* Begins a request. NULL: too many of its replies wait. */
struct list_request *lists_request(struct session *session, const char *source, const char *rule,
                                   int64_t request_id);
/* Its result. Pages or an error are sent next. */
void lists_rows_received(struct list_request *request, enum rows_status status,
                         const struct rows_result *result, int64_t after_ms);

/*
 * The client has rows of this rule from elsewhere. It needs `reload` as well, even if the rule is
 * not live: its rows may depend on memberships.
 */
void lists_add_own(struct session *session, const char *source, const char *rule);

/*
 * The memberships in groups of this kind changed (NULL: of any kind). is_known: snapshots are
 * checked for the change.
 */
void lists_reload(struct session *session, const struct bytes *kind, bool is_known);

/* The rows of this rule changed. NULL: those of any rule may have changed. is_known: as above. */
void lists_reload_rule(struct session *session, const struct list_name *name, bool is_known);

/* True if a frame may be sent now; not before `connected`. */
bool lists_have_frames(const struct session *session);

/* True if the next frame is a `reload`. */
bool lists_have_reload(const struct session *session);

/*
 * Adds the next frame to `out`: `reload`, `err`, or a page of `rows`. False: there is none.
 * lists_frame_sent follows when it was sent; otherwise the next call adds the same frame.
 */
bool lists_write_frame(struct session *session, struct buffer *out);
void lists_frame_sent(struct session *session);

/* Ends all requests and frees the lists. */
void lists_free(struct session *session);

#endif
