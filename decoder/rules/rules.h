/* rules.h: the rules of clairon.watch, as of one place in the WAL. */
#ifndef CLAIRON_RULES_H
#define CLAIRON_RULES_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/timestamp.h"

#include "base/notify_message.h"
#include "rules/rule.h"

/* Attributes of clairon.rule, in the order of its CREATE TABLE. */
enum rule_attribute {
    RULE_RELATION = 1,
    RULE_NAME,
    RULE_AUDIENCE,
    RULE_TARGET_COLUMN,
    RULE_TARGET_LIST,
    RULE_TYPE,
    RULE_PRIORITY,
    RULE_OPERATIONS,
    RULE_COLUMNS,
    RULE_EMITTER,
    RULE_TOPIC,
    RULE_TTL,
    RULE_ACK_REQUIRED,
    RULE_RETRY_LIMIT,
    RULE_BACKOFF,
    RULE_ONLY_WHEN,
    RULE_PART,
    RULE_COLUMN_ORIGINS,
    RULE_COLUMN_NUMBERS,
    RULE_ACK_TIMEOUT,
    RULE_EMITTER_COLUMN,
    RULE_TARGET_COLUMNS,
    RULE_ATTRIBUTE_COUNT = RULE_TARGET_COLUMNS
};

struct rule_set {
    List *rules; /* of struct rule, by name, then relation; they point into the rows */
    List *rows;  /* of HeapTuple: what was read, in its order */
    Oid schema;  /* clairon's; InvalidOid where the extension is not */
    Oid member;
    bool has_secret;
    uint8 secret[SECRET_BYTES];
};

/* Which catalog a historic snapshot shows; two equal stamps show the same. */
struct snapshot_stamp {
    bool valid;
    TransactionId xmin;
    TransactionId xmax;
    uint32 committed;
    CommandId command;
    TransactionId own; /* whose commands, when command is not the first */
};

/* The stamp of the snapshot now in force; only inside a decoding callback. */
extern struct snapshot_stamp rules_stamp(TransactionId xid);
extern bool rules_stamp_equal(const struct snapshot_stamp *a, const struct snapshot_stamp *b);

/*
 * Reads all rules and the secret, by heap scan, into the current memory context; or returns `known`
 * when that holds the same (NULL: nothing is known).
 */
extern struct rule_set *rules_read(struct rule_set *known);

/* The rule that include_tables stands for. */
extern struct rule *rules_ad_hoc(void);

/* Reads clairon.secret under the snapshot in force; false where there is none. */
extern bool rules_read_secret(Oid schema, uint8 ret_secret[SECRET_BYTES]);

#endif
