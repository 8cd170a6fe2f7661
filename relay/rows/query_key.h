/*
 * query_key.h: builds the key of the rows that a request addresses. Requests with equal keys may
 * share a query.
 */
#ifndef CLAIRON_ROWS_QUERY_KEY_H
#define CLAIRON_ROWS_QUERY_KEY_H

#include "rows/known_rules.h"
#include "rows/request.h"

struct query_key {
    struct buffer text; /* the source, the rule, and all values that select the rows */
    bool is_known;      /* the audience of the rule is known */
    bool is_of_user;    /* the key names a user and the groups of the token */
};

/* The caller frees `text`. */
struct query_key query_key_new(const struct rows_wanted *wanted, const struct rows_events *events,
                               void *ctx, const struct known_rule *rules);

/*
 * The query read the requester's groups from the database, which may be ahead of this relay. False:
 * the rows may belong to a group of which the users of other requests with this key are not
 * members.
 */
bool query_key_has_groups(const char *key, size_t len, const struct rows_header *header);

#endif
