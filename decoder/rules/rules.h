/* rules.h: the rules of clairon.watch, as of a WAL position. */
#ifndef CLAIRON_RULES_H
#define CLAIRON_RULES_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/snapshot.h"
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
    RULE_LIVE,
    RULE_ATTRIBUTE_COUNT = RULE_LIVE
};

struct rule_set {
    List *rules; /* struct rule, sorted by name, then relation; each points into `rows` */
    List *rows;  /* list of HeapTuple, in the order of the scan */
    Oid schema;  /* schema of the extension; InvalidOid: not installed */
    Oid member;
    bool has_secret;
    uint8 secret[SECRET_BYTES];
};

/* Identifies the catalog state of a historic snapshot. Equal stamps mean equal states. */
struct snapshot_stamp {
    bool valid;
    TransactionId xmin;
    TransactionId xmax;
    uint32 committed;
    CommandId command;
    TransactionId own; /* the transaction of `command`, unless that is the first */
};

/* Returns the stamp of the current snapshot. Call it only inside a decoding callback. */
extern struct snapshot_stamp rules_stamp(TransactionId xid);
extern bool rules_stamp_equal(const struct snapshot_stamp *a, const struct snapshot_stamp *b);

/*
 * Reads all rules and the secret into the current memory context. Returns `known` (may be NULL)
 * when its contents are the same.
 */
extern struct rule_set *rules_read(struct rule_set *known);

/*
 * Reads the rules with this name under the snapshot, outside of decoding. `relid` is the relation
 * of the rules; InvalidOid: all relations. Allocated in the current memory context. `name` is in
 * the server's encoding.
 */
extern List *rules_find(Oid relid, const char *name, Snapshot snapshot);

/* Returns metadata.source of a table, in the server's encoding: its name for clients. */
extern const char *rule_source(const char *schema, const char *table);

/* Returns the rule of the option include_tables. */
extern struct rule *rules_ad_hoc(void);

/* Reads clairon.secret under the current snapshot. Returns false if the table has no row. */
extern bool rules_read_secret(Oid schema, uint8 ret_secret[SECRET_BYTES]);

#endif
