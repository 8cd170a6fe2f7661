/* rules.h: the rules of clairon.watch, as of a WAL position, and the ancestors of tables. */
#ifndef CLAIRON_RULES_H
#define CLAIRON_RULES_H

#include "postgres.h"

#include "access/htup.h"
#include "nodes/pg_list.h"
#include "utils/array.h"
#include "utils/hsearch.h"
#include "utils/rel.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"

#include "base/data.h"
#include "protocol/frame_format.h"

/*
 * Identifies what a prepared object was made from.
 *
 * Objects with equal digests were made from equal input. The seeds are random: an owner who could
 * compute digests could make two different inputs with the same digest.
 */
struct digest {
    uint64 halves[2];
};

/* Adds bytes to the digest, which starts as zeros. The order matters. */
extern void digest_add(struct digest *digest, const void *bytes, Size len);

#define digest_add_value(digest, value) digest_add(digest, &(value), sizeof(value))

static inline bool
digest_equal(const struct digest *a, const struct digest *b)
{
    return a->halves[0] == b->halves[0] && a->halves[1] == b->halves[1];
}

/* Bits of rule.operations, by enum frame_operation. */
#define RULE_OPERATION(operation) (1 << (operation))

/* How a notification is delivered: values that its frame contains. */
struct delivery {
    enum frame_type type;
    enum frame_priority priority;
    enum frame_backoff backoff;
    bool ack_required;
    uint16 retry_limit;
    uint32 ack_timeout; /* in ms; 0: the relay's setting */
    enum frame_receipts receipts;
    uint32 escalations[FRAME_ESCALATIONS]; /* in ms after the commit; 0: none */
};

/* Members of the text of a Web Push, in the order of clairon_internal.web_push_members. */
enum web_push_member {
    WEB_PUSH_TITLE,
    WEB_PUSH_BODY,
    WEB_PUSH_URL,
    WEB_PUSH_ICON,
    WEB_PUSH_BADGE,
    WEB_PUSH_LANG,
    WEB_PUSH_DIR,
    WEB_PUSH_APP_BADGE,
    WEB_PUSH_COLLAPSE,
    WEB_PUSH_MEMBERS
};

/* A member is a literal, a column, or absent. */
struct web_push_template {
    const char *literal; /* UTF-8; "": none */
    int16 column;        /* attribute number; 0: none */
};

struct rule {
    struct digest digest; /* of its rows: rules with equal digests are equal */
    Oid relid;            /* InvalidOid: the ad hoc rule of include_tables */
    char *name;
    char *audience;
    bool to_all;
    int16 target_column;        /* attribute number; 0: `literal` or all users */
    struct target_list literal; /* constant targets */
    int part_count;             /* above 0 only for a composite audience with target columns */
    int16 *target_columns;      /* by part, attribute number; 0: the next string of `literal` */
    struct delivery delivery;
    int operations;
    int column_count; /* -1: all */
    int16 *columns;   /* attribute numbers, sorted, without duplicates */
    char *emitter;
    int16 emitter_column;               /* attribute number; 0: none */
    struct web_push_template *web_push; /* by member; NULL: no Web Push */
    char *topic;                        /* NULL: prefix and source */
    Interval *ttl;
    bool live; /* clients may read its rows, and receive its name */
    int filter_count;
    int16 *filter_columns; /* attribute numbers that lists may name */
    char *only_when;       /* the stored form of condition.h; NULL: always */
    int16 part;            /* used only while rules are read; then 0 */
    bool is_unread; /* instead of all rules of the table, which the owner lacks time to read */
    /* $n in only_when is column numbers[i] where origins[i] is n */
    int origin_count;
    int16 *origins;
    int16 *numbers;
};

/* True when each number is a valid value of its enum. */
static inline bool
frame_values_are_valid(int type, int priority, int backoff)
{
    return type >= FRAME_TYPE_REALTIME && type <= FRAME_TYPE_SYSTEM &&
           priority >= FRAME_PRIORITY_HIGH && priority <= FRAME_PRIORITY_LOW &&
           backoff >= FRAME_BACKOFF_EXPONENTIAL && backoff <= FRAME_BACKOFF_FIXED;
}

static inline bool
delivery_has_receipts(const struct delivery *delivery)
{
    return delivery->receipts != FRAME_RECEIPTS_NONE || delivery->escalations[0] != 0;
}

/* The frame flags that the rule determines. */
static inline uint16
rule_flags(const struct rule *rule)
{
    const uint16 flags = rule->live ? FRAME_LIVE : 0;

    if (!rule->delivery.ack_required)
        return flags;
    return flags | FRAME_ACK_REQUIRED | FRAME_RETRY_ENABLED |
           (rule->delivery.ack_timeout != 0 ? FRAME_ACK_TIMED : 0) |
           (delivery_has_receipts(&rule->delivery) ? FRAME_RECEIPTS : 0);
}

#define SECRET_BYTES 32 /* length of clairon.secret */

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
    RULE_RECEIPTS,
    RULE_ESCALATIONS,
    RULE_WEB_PUSH,
    RULE_WEB_PUSH_COLUMNS,
    RULE_FILTER_COLUMNS,
    RULE_ATTRIBUTE_COUNT = RULE_FILTER_COLUMNS
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
    Oid receipt; /* of the tables in the schema, rules may apply to this one */
    Oid table;   /* clairon.rule; InvalidOid: it cannot be read */
    Oid file;    /* of the table */
    int natts;   /* of the table */
    bool has_secret;
    uint8 secret[SECRET_BYTES];
};

/*
 * The transactions that wrote rules.
 *
 * Reading all rules takes milliseconds, and each command that changes a catalog creates a new
 * snapshot. So the rules of a relation are read again only if a transaction that wrote them is
 * visible in the new snapshot and was not in the last one, or the other way round.
 *
 * The list is complete: the rules are first read after the start of the session, when the table
 * contains all rows of transactions that were confirmed before. The session decodes all others, and
 * receives their changes of the table before any snapshot includes the transaction.
 */
struct rule_write {
    TransactionId xid; /* a transaction or subtransaction */
    Oid relid;         /* whose rules it wrote; InvalidOid: of any relation */
    bool is_visible;   /* in the last snapshot */
};

struct rule_writes {
    MemoryContext context;
    TransactionId horizon; /* all snapshots include the committed transactions before it */
    int count;
    int room;
    struct rule_write *writes; /* sorted by xid as a number, then relid; without duplicates */
};

/* `writes` must be zeroed, except for its context and horizon. */
extern void rule_writes_add(struct rule_writes *writes, TransactionId xid, Oid relid);

/*
 * Calls `changed`, unless it is NULL, for each write whose visibility in the snapshot differs from
 * that in the last one. Forgets the transactions before the horizon.
 */
extern void rule_writes_look(struct rule_writes *writes, Snapshot snapshot,
                             void (*changed)(void *arg, Oid relid), void *arg);

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

/* Reads an array of up to FRAME_ESCALATIONS times in ms. Further values are ignored. */
extern void rule_read_escalations(struct delivery *delivery, ArrayType *array);

/* Reads clairon.secret under the current snapshot. Returns false if the table has no row. */
extern bool rules_read_secret(Oid schema, uint8 ret_secret[SECRET_BYTES]);

/*
 * Partitioned tables and inheritance parents.
 *
 * The rules of all ancestors of a table apply to its rows. A table may have many ancestors, and
 * each catalog change may have changed them, so the parents of each table are remembered. The
 * parents as of a catalog state are right. Those of an earlier state are right unless an
 * invalidation was lost, which releases of PostgreSQL before May 2025 do during a transaction that
 * overlaps with DDL. The caller reads them again as far as the owner of a table has time for it.
 */
struct inheritance;

extern struct inheritance *inheritance_new(MemoryContext context);

/*
 * The relation may have other parents. InvalidOid: any relation. Returns true when the relation is
 * a known parent.
 */
extern bool inheritance_outdate(struct inheritance *inheritance, Oid relid);

/* Forgets all relations when there are too many. Returns false otherwise. */
extern bool inheritance_limit(struct inheritance *inheritance);

/* ancestors_of returns at most one more. */
#define ANCESTORS_MAX 1000

/*
 * Returns the OIDs of all tables of which the relation is a partition or child, nearest first.
 * Outdated parents are read for the catalog state `state`, with `again` also those that were read
 * for another one.
 */
extern List *ancestors_of(struct inheritance *inheritance, Oid relid, uint64 state, bool again);

/* True when the relation may be cached as of another catalog state: once for each `number`. */
extern bool inheritance_is_past(struct inheritance *inheritance, Oid relid, uint64 number);

#endif
