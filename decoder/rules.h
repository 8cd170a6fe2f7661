/* rules.h: the rules of clairon.watch, as of one place in the WAL. */
#ifndef CLAIRON_RULES_H
#define CLAIRON_RULES_H

#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "utils/timestamp.h"

#include "protocol/frame.h"
#include "protocol/limits.h"

#define SECRET_BYTES 32

/* Where parts are arrays: more combinations than these are refused. */
#define COMBINATIONS_MAX 10000

/* More targets than these of one notification are refused. */
#define TARGETS_MAX 100000

/* A column as large as this holds more, or one too long. */
#define TARGETS_RAW_BYTES_MAX (32 * 1024 * 1024)

/* Bits of rule.operations, by enum frame_operation. */
#define RULE_OPERATION(operation) (1 << (operation))

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

struct target_list {
    int count;
    char **texts; /* UTF-8, not zero-terminated */
    int *lengths;
    bool too_many;
    char *fault; /* why they cannot be read; NULL: they can */
};

/* Makes room for so many, in the current memory context; `count` is the caller's to set. */
static inline void
target_list_reserve(struct target_list *list, int count)
{
    list->texts = palloc(sizeof(char *) * Max(count, 1));
    list->lengths = palloc(sizeof(int) * Max(count, 1));
}

struct rule {
    Oid relid; /* InvalidOid: the ad hoc rule of include_tables */
    char *name;
    char *audience;
    bool to_all;
    int16 target_column; /* attribute number; 0: target_list or all */
    struct target_list literal;
    int part_count;        /* of composite targets by columns; 0: none */
    int16 *target_columns; /* then: 0 is the next of `literal`, the same for all rows */
    enum frame_type type;
    enum frame_priority priority;
    int operations;
    int column_count; /* -1: all */
    int16 *columns;
    char *emitter;
    int16 emitter_column; /* attribute number; 0: none */
    char *topic;          /* NULL: prefix and source */
    Interval *ttl;
    bool ack_required;
    uint16 retry_limit;
    enum frame_backoff backoff;
    uint32 ack_timeout; /* in ms; 0: the relay's setting */
    char *only_when;    /* the stored form of condition.h; NULL: always */
    int16 part;         /* 0, but while rules are read */
    /* $n in only_when is column numbers[i] where origins[i] is n */
    int origin_count;
    int16 *origins;
    int16 *numbers;
};

/* True when each number is one of its enum. */
static inline bool
frame_knows(int type, int priority, int backoff)
{
    return type >= FRAME_TYPE_REALTIME && type <= FRAME_TYPE_SYSTEM &&
           priority >= FRAME_PRIORITY_HIGH && priority <= FRAME_PRIORITY_LOW &&
           backoff >= FRAME_BACKOFF_EXPONENTIAL && backoff <= FRAME_BACKOFF_FIXED;
}

/* Those of a frame that the rule decides. */
static inline uint16
rule_flags(const struct rule *rule)
{
    if (!rule->ack_required)
        return 0;
    return FRAME_ACK_REQUIRED | FRAME_RETRY_ENABLED |
           (rule->ack_timeout != 0 ? FRAME_ACK_TIMED : 0);
}

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
