/* recipient.h: the user who reads rows of a live rule, and the targets that address this user. */
#ifndef CLAIRON_RECIPIENT_H
#define CLAIRON_RECIPIENT_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "base/data.h"
#include "protocol/limits.h"
#include "rules/rules.h"

/* The targets of one part of an audience that address the user. */
struct recipient_part {
    const char *kind; /* "STRUCTURE"; "" for a user */
    int count;
    char **plain;           /* targets in the server's encoding */
    struct fragment *texts; /* targets in UTF-8, sorted */
};

struct recipient {
    int part_count; /* parts of the audience; 0 for ALL */
    struct recipient_part parts[LIMIT_PARTS];
};

/*
 * Finds the targets of the rule's audience that address the user: the user's id, or the user's
 * groups in clairon.member and in `groups`, {"STRUCTURE":["s1"]}. Reads memberships under the
 * active snapshot, with the privileges of the current user. Requires a connection to SPI. All
 * memory is in the current memory context.
 */
extern void recipient_load(struct recipient *recipient, const struct rule *rule,
                           const char *user_id, Jsonb *groups);

/* True when one of the targets, in the form of a notification, addresses the user. */
extern bool recipient_is_addressed(const struct recipient *recipient,
                                   const struct target_list *targets);

#endif
