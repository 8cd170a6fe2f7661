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

/*
 * Only a rule for ALL has a key without the user. The groups of clairon.member, and literal
 * targets, are those of the query's snapshot. The relay cannot compare two users by them: what it
 * has read from the WAL may be older. The caller frees `text`.
 */
struct query_key query_key_new(const struct rows_wanted *wanted, const struct known_rule *rules);

#endif
