/* rule.h: one rule of clairon.watch. */
#ifndef CLAIRON_RULE_H
#define CLAIRON_RULE_H

#include "postgres.h"

#include "utils/timestamp.h"

#include "base/data.h"
#include "base/digest.h"
#include "protocol/frame.h"

/* Bits of rule.operations, by enum frame_operation. */
#define RULE_OPERATION(operation) (1 << (operation))

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
    enum frame_type type;
    enum frame_priority priority;
    int operations;
    int column_count; /* -1: all */
    int16 *columns;   /* attribute numbers, sorted, without duplicates */
    char *emitter;
    int16 emitter_column; /* attribute number; 0: none */
    char *topic;          /* NULL: prefix and source */
    Interval *ttl;
    bool ack_required;
    uint16 retry_limit;
    enum frame_backoff backoff;
    uint32 ack_timeout; /* in ms; 0: the relay's setting */
    bool live;          /* clients may read its rows; frames contain its name */
    char *only_when;    /* the stored form of condition.h; NULL: always */
    int16 part;         /* used only while rules are read; then 0 */
    bool is_unread;     /* instead of all rules of the table, which the owner lacks time to read */
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

/* The frame flags that the rule determines. */
static inline uint16
rule_flags(const struct rule *rule)
{
    if (!rule->ack_required)
        return 0;
    return FRAME_ACK_REQUIRED | FRAME_RETRY_ENABLED |
           (rule->ack_timeout != 0 ? FRAME_ACK_TIMED : 0);
}

#endif
