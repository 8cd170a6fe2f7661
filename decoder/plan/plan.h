/* plan.h: the rules of a relation, prepared: column indexes, encoders, and all constant JSON. */
#ifndef CLAIRON_PLAN_H
#define CLAIRON_PLAN_H

#include "postgres.h"

#include "utils/rel.h"

#include "base/fragment.h"
#include "base/image.h"
#include "encode/encode.h"
#include "output/frames.h"
#include "output/spool.h"
#include "protocol/limits.h"
#include "rules/rule.h"

struct condition;

/* Whether a plan's targets, or its emitter, are read from columns, and if not, why. */
#define TARGET_COLUMNS 0
#define TARGET_NONE (-1)
#define TARGET_DROPPED (-2)
#define TARGET_JSON (-3) /* json or jsonb, which clairon.watch rejects for targets */

/* One column in a rule's payload. */
struct column {
    int index;            /* attribute number - 1 in the decoded relation */
    bool is_key;          /* the column is in the replica identity */
    struct fragment name; /* as JSON, with the colon */
    uint8 state;          /* COLUMN_*, for the change that is rendered */
    int rendered_at;      /* offset of the last rendered name and value in the output buffer */
    int rendered_len;
    int16 typlen;
    bool typbyval;
    struct encoder *encoder;
};

#define COLUMN_UNCHANGED 0x01
#define COLUMN_TRUNCATED 0x02
#define COLUMN_CHANGED 0x04
#define COLUMN_UNDECODABLE 0x08

/* A column that a rule reads for its targets or its emitter. */
struct bound_column {
    int index; /* attribute number - 1 in the decoded relation; TARGET_NONE: none */
    bool is_key;
    struct encoder *encoder;
};

/* One part of a target: a column, or a constant. */
struct target_part {
    struct bound_column column;
    struct fragment constant; /* UTF-8; used if there is no column */
};

/* A rule, prepared for one relation. */
struct plan {
    const struct rule *rule;
    const char *label; /* description in the log */
    uint32 sub;        /* the rule's first sub-ordinal */
    uint64 seed;
    int column_count;
    struct column *columns;
    int target_state; /* TARGET_* */
    int part_count;   /* number of parts of a target; above 1 for a composite audience */
    struct target_part parts[LIMIT_PARTS];
    int emitter_state;              /* TARGET_COLUMNS, _DROPPED or _NONE */
    struct bound_column emitter;    /* valid with TARGET_COLUMNS */
    struct fragment metadata_start; /* with an emitter column: the JSON before the emitter */
    struct condition *condition;    /* NULL: none */
    struct fragment
        metadata[FRAME_OPERATION_NOTIFY]; /* metadata, from "priority" to the timestamp */
    struct fragment routing;              /* from the payload's end to the targets */
    struct fragment retry;                /* from the targets' end to the end of the line */
    struct fragment topic;                /* UTF-8 */
    struct fragment live_rule;            /* its name, UTF-8; empty unless it is live */
    struct fragment source;               /* metadata.source, UTF-8 */
    struct template_mark *mark;
};

/* Each rule has four sub-ordinals, one for each PART_*. Ids are hashes that include PART_*. */
#define SUBS_PER_RULE 4
#define PART_MAIN 0
#define PART_LOSERS 1
#define PART_GAINERS 2
#define PART_RELOAD 3 /* not a notification */

enum relation_kind { RELATION_ORDINARY, RELATION_MEMBER };

/* The plans of a relation; valid until its rules or its definition change. */
struct relation_entry {
    Oid relid; /* hash key */
    bool valid;
    bool has_ancestors;
    enum relation_kind kind;
    MemoryContext context;
    int plan_count;
    struct plan *plans;
    bool has_key; /* the replica identity is a key */
    struct {
        int index; /* -1: clairon.member lacks the column */
        struct encoder *encoder;
    } members[MEMBER_FIELDS];
    struct image old;
    struct image new;
};

/* Fills the cache entry with plans for all rules of the relation and its ancestors. */
extern void plan_relation(struct decoder *decoder, struct relation_entry *entry, Relation relation);

/* False for a column that is dropped, or not in the WAL. */
extern bool plan_can_read(Form_pg_attribute attribute);

/*
 * Prepares a live rule for reading rows of its relation, outside of decoding: columns, targets and
 * condition. Rows of partitions and child tables must have the relation's row type. `plan` must be
 * zeroed.
 */
extern void plan_live(struct decoder *decoder, struct plan *plan, const struct rule *rule,
                      Relation relation);

/*
 * Drops the plans of relations that have conditions of this owner, except `except` (which may be
 * NULL). The plans are prepared again at the next change of their relation. Returns false when no
 * such plans exist.
 */
extern bool plan_release(struct decoder *decoder, const struct relation_entry *except, Oid owner);

#endif
