/*
 * query_key.h: builds a string key from all values that select the rows of a request. Requests with
 * equal keys may share one query.
 */
#ifndef CLAIRON_ROWS_QUERY_KEY_H
#define CLAIRON_ROWS_QUERY_KEY_H

#include "rows/known_rules.h"
#include "rows/request.h"

struct query_key {
    struct buffer text; /* the source, the rule, and all values that select the rows */
    bool is_known;      /* the audience of the rule is known */
    bool is_of_user;    /* the key contains the user and the groups of the token */
};

/* The caller frees `text`. */
struct query_key query_key_new(const struct rows_wanted *wanted, const struct rows_events *events,
                               void *ctx, const struct known_rule *rules);

/*
 * True if the query selected the rows by the groups in the key. The query reads the requester's
 * groups from the database, which may be ahead of this relay. If false, the result must not be
 * shared: users of other requests with this key might not be members of the same groups.
 */
bool query_key_has_groups(const char *key, size_t len, const struct rows_header *header);

#endif
