/* rules.h: the rules of clairon.watch, as of a WAL position. */
#ifndef CLAIRON_RULES_H
#define CLAIRON_RULES_H

#include "postgres.h"

#include "access/htup.h"
#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/rel.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"

#include "base/notify_message.h"
#include "rules/rule.h"
#include "rules/writes.h"

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

/* The rules of one relation. */
struct relation_rules {
    Oid relid;             /* hash key */
    bool is_outdated;      /* other rules may apply in the current snapshot */
    bool is_own;           /* the current transaction wrote them */
    MemoryContext context; /* contains `rules`; NULL: they were read together with all others */
    List *rules;           /* struct rule, sorted by name */
};

/* All rules, and what else is read with them. */
struct rule_set {
    bool is_outdated; /* all rules must be read again */
    MemoryContext context;
    HTAB *relations;    /* struct relation_rules, by OID */
    long relations_max; /* with more, all rules are read again */
    Oid schema;         /* schema of the extension; InvalidOid: not installed */
    Oid member;
    Oid table; /* clairon.rule; InvalidOid: it cannot be read */
    Oid file;  /* of the table */
    int natts; /* of the table */
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
/* True if more transactions have committed in b's catalog state. */
extern bool rules_stamp_is_before(const struct snapshot_stamp *a, const struct snapshot_stamp *b);

/*
 * Reads all rules and the secret into the current memory context, and adds the transactions that
 * wrote the rows of the table. Returns `known` (may be NULL) unless it is outdated, or the secret
 * or the table is a different one.
 */
extern struct rule_set *rules_read(struct rule_set *known, struct rule_writes *writes);

/* Returns the rules of the relation, or NULL if it has none. */
extern struct relation_rules *rules_of(const struct rule_set *set, Oid relid);

/* The rules of the relation may have changed. InvalidOid: those of any relation. */
extern void rules_outdate(struct rule_set *set, Oid relid);

/* Reads the rules of one relation again. */
extern void rules_read_again(struct rule_set *set, struct relation_rules *relation);

/* Returns the relation of a row of clairon.rule; InvalidOid for an invalid row. */
extern Oid rules_relation_of(HeapTuple row, Relation table);

/* Returns a rule instead of the rules of the table, which are not read. */
extern struct rule *rules_unread(Oid relid);

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
