/* plan.h: the rules of a relation, prepared: columns, encoders, conditions and constant JSON. */
#ifndef CLAIRON_PLAN_H
#define CLAIRON_PLAN_H

#include "postgres.h"

#include "lib/ilist.h"
#include "replication/reorderbuffer.h"
#include "utils/rel.h"

#include "base/account.h"
#include "base/data.h"
#include "encode/encode.h"
#include "output/output.h"
#include "protocol/limits.h"
#include "rules/rules.h"

struct condition;
struct condition_row;
struct objects;
struct tracked_memory;

/*
 * Whether a plan's targets, its emitter, or members of its Web Push are read from columns, and if
 * not, why.
 */
#define TARGET_COLUMNS 0
#define TARGET_NONE (-1)
#define TARGET_DROPPED (-2)
#define TARGET_JSON (-3) /* json or jsonb, which clairon.watch rejects for targets */

/* A column of a source, as it is in the decoded relation. Shared by all rules of the source. */
struct column {
    int index;   /* attribute number - 1 in the decoded relation; -1: cannot be read */
    bool is_key; /* the column is in the replica identity */
    bool typbyval;
    uint8 state; /* COLUMN_*, for the change that is rendered */
    int16 typlen;
    int rendered_at; /* offset of the last rendered name and value in the output buffer */
    int rendered_len;
    struct fragment name; /* as JSON, with the colon */
    struct encoder *encoder;
};

#define COLUMN_UNCHANGED 0x01
#define COLUMN_TRUNCATED 0x02
#define COLUMN_CHANGED 0x04
#define COLUMN_UNDECODABLE 0x08
#define COLUMN_DROPPED 0x10 /* null in this image, because the row is too long */

/* A relation whose rules apply: the decoded relation or an ancestor. */
struct source {
    Oid relid;
    const char *name;        /* metadata.source in the server's encoding */
    struct account *account; /* of its owner; NULL outside of decoding */
    MemoryContext context;   /* contains the members below, and the texts of the plans */
    int natts;
    struct encoders *encoders;
    bool is_denied; /* preparing the columns would exceed the account `denied` */
    enum account_kind denied;
    struct column *columns; /* by attribute number - 1; NULL: not prepared */
    int *map;               /* by attribute number - 1, the index in `columns` */
    int16 *readable;        /* the attribute numbers - 1 of all columns that can be read */
    int readable_count;
    uint64 reloaded; /* the transaction that last reloaded all its lists */
};

/* A column that a rule reads for its targets, its emitter or its Web Push. */
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

/* A member of the text of a Web Push. */
struct web_push_part {
    struct fragment name;       /* as JSON, with the colon; empty: the member is absent */
    struct fragment literal;    /* as JSON; empty: the member is a column */
    int state;                  /* TARGET_COLUMNS or _DROPPED */
    struct bound_column column; /* valid with TARGET_COLUMNS */
};

/* A rule, prepared for the relations of a set. */
struct plan {
    const struct rule *rule;
    struct source *source_plan;
    struct account *account; /* of the source's owner; NULL outside of decoding */
    Oid limited_owner;       /* of a template (plan_limited_owner) */
    const char *label;       /* description in the log */
    uint32 sub;              /* the rule's first sub-ordinal */
    uint64 reloaded;         /* the transaction that last reloaded its lists */
    bool is_denied;          /* preparing the rule would exceed the account `denied` */
    enum account_kind denied;
    uint64 seed;
    struct column *columns; /* of the source */
    const int16 *picks;     /* the indexes in `columns` of the rule's columns */
    int pick_count;
    int target_state; /* TARGET_* */
    int part_count;   /* number of parts of a target; above 1 for a composite audience */
    struct target_part parts[LIMIT_PARTS];
    int emitter_state;              /* TARGET_COLUMNS, _DROPPED or _NONE */
    struct bound_column emitter;    /* valid with TARGET_COLUMNS */
    struct web_push_part *web_push; /* by member; NULL: no Web Push */
    struct condition *condition;    /* NULL: none, or not prepared yet */
    uint64 condition_number;        /* the catalog state in which it was prepared */
    struct template_mark *mark;
    /* Constant JSON and names, which plan_texts fills in before the rule's first notification. */
    bool has_texts;
    struct fragment metadata_start; /* with an emitter column: the JSON before the emitter */
    struct fragment
        metadata[FRAME_OPERATION_NOTIFY]; /* metadata, from "priority" to the timestamp */
    struct fragment routing;              /* from the payload's end to the targets */
    struct fragment retry;                /* from the targets' end to the end of the line */
    struct fragment topic;                /* UTF-8 */
    struct fragment rule_name;            /* UTF-8 */
    struct fragment source;               /* metadata.source, UTF-8 */
};

/* Returns the owner of the table if the owner's bytes and pairs are limited; else 0. */
static inline Oid
plan_limited_owner(const struct plan *plan)
{
    if (plan->account == NULL)
        return plan->limited_owner;
    return plan->account->is_trusted ? InvalidOid : plan->account->owner;
}

/* True when the rule sends a notification, or its lists are reloaded, for this kind of change. */
static inline bool
plan_applies(const struct plan *plan, enum frame_operation operation)
{
    const int rows = RULE_OPERATION(FRAME_OPERATION_CREATE) |
                     RULE_OPERATION(FRAME_OPERATION_UPDATE) |
                     RULE_OPERATION(FRAME_OPERATION_DELETE);

    if (operation == FRAME_OPERATION_UPDATE)
        return (plan->rule->operations & rows) != 0;
    return (plan->rule->operations & RULE_OPERATION(operation)) != 0 ||
           (operation == FRAME_OPERATION_TRUNCATE && plan->rule->live);
}

/* Each rule has four sub-ordinals, one for each PART_*. Ids are hashes that include PART_*. */
#define SUBS_PER_RULE 4
#define PART_MAIN 0
#define PART_LOSERS 1
#define PART_GAINERS 2
#define PART_RELOAD 3 /* not a notification */

enum relation_kind { RELATION_ORDINARY, RELATION_MEMBER };

/*
 * The plans of all relations that are alike: partitions with the same columns share a set. The
 * digest and the objects cover everything that the plans depend on, so that plans survive changes
 * of catalogs and rules that do not concern them.
 */
struct plan_set {
    struct digest digest; /* hash key */
    dlist_node used;      /* in decoder->plan_sets_used */
    bool is_kept;         /* found by its digest */
    bool lacks_time;      /* not prepared: the owner has no time left */
    int entry_count;      /* relations that use the set */
    uint64 bound;         /* the catalog state of `rule` in the plans */
    MemoryContext context;
    struct tracked_memory *kept;
    struct account *account; /* of the owner of the first rule; NULL: clairon.member */
    enum relation_kind kind;
    bool has_key; /* the replica identity is a key */
    int source_count;
    struct source *sources; /* the decoded relation, and its ancestors */
    int plan_count;
    struct plan *plans;
    bool has_one_owner;                        /* all plans have the account `account` */
    bool has_live_rules;                       /* one of the plans is of a live rule */
    int applied[FRAME_OPERATION_TRUNCATE + 1]; /* number of plans to which the operation applies */
    uint64 denied_transaction;                 /* the last that was denied for all live rules */
    struct objects *objects;                   /* from which the plans were prepared */
    struct tracked_memory *objects_kept;
    struct condition_row *row; /* for all conditions; NULL: none was prepared */
    struct {
        int index; /* -1: clairon.member lacks the column */
        struct encoder *encoder;
    } members[MEMBER_FIELDS];
    struct image old;
    struct image new;
};

/* An entry of decoder->plan_sets. */
struct plan_set_entry {
    struct digest digest; /* hash key */
    struct plan_set *set;
};

/* An entry of decoder->relations. */
struct relation_entry {
    Oid relid;            /* hash key */
    uint64 checked;       /* the catalog state for which `set` is right; 0: none */
    struct plan_set *set; /* NULL: no rule applies */
};

/* Returns the set of the relation as of now, prepared if necessary; NULL: no rule applies. */
extern struct plan_set *plan_relation(struct decoder *decoder, Relation relation);

/* Drops an entry's reference to its set. */
extern void plan_set_release(struct decoder *decoder, struct plan_set *set);

/* Fills in the texts of the plan. Returns false when the owner's memory is used up. */
extern bool plan_texts(struct decoder *decoder, struct plan_set *set, struct plan *plan);

/*
 * Prepares the plan's condition unless it is prepared and still valid. Returns false when an
 * account of the owner is used up.
 */
extern bool plan_condition(struct decoder *decoder, struct plan_set *set, struct plan *plan,
                           Relation decoded, enum account_kind *ret_kind);

/*
 * Prepares all columns of the source, in the source's memory context, and their encoders in the
 * current one. Asks `has_room` before each type, unless it is NULL. Returns false, and sets no
 * columns, when has_room() does.
 */
extern bool source_columns(struct decoder *decoder, struct source *source, Relation relation,
                           Relation decoded, const Bitmapset *key, encode_has_room has_room,
                           void *arg);

/*
 * The steps of a plan: the members that do not depend on columns, those that do, and the texts. The
 * memory is that of the current context.
 */
extern void plan_name(struct plan *plan, const struct rule *rule, struct source *source);
extern void plan_row(struct plan *plan, const struct source *source);
extern void plan_render_texts(struct decoder *decoder, struct plan *plan);

/* Sets the rule again, which is allocated with all rules. Those are read again after changes. */
extern void plan_bind_rule(struct plan *plan, const struct rule *rule);

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
 * Drops the least recently used set of the owner, except `except` (which may be NULL). It is
 * prepared again at the next change of its relations. Returns false when no such set exists.
 */
extern bool plan_release(struct decoder *decoder, const struct plan_set *except,
                         const struct account *account);

/* relation.c: the cache of relations and their plans. */

/* Creates the cache and registers the invalidation callbacks. */
extern void relation_setup(struct decoder *decoder);

/* Determines which rules differ in the current catalog snapshot. */
extern void relation_refresh_rules(struct decoder *decoder, TransactionId xid);

/* Call it for each change of clairon.rule, with its top-level transaction. */
extern void relation_rule_written(struct decoder *decoder, TransactionId xid, Relation table,
                                  const ReorderBufferChange *change);

/* All rules will be read again. */
extern void relation_forget_rules(struct decoder *decoder);

/* Returns the plans of the relation; NULL: no rule applies. */
extern struct plan_set *relation_look_up(struct decoder *decoder, Relation relation,
                                         TransactionId xid);

/* The parts of a plan that a spooled notification needs at its commit. */

/* Returns the plan's template number. Writes the template unless the spool contains it. */
extern uint32 spool_template(struct decoder *decoder, const struct plan *plan);

/* Creates a plan with the members that notification_write needs, in the current memory context. */
extern struct plan *spool_get_template(const char *body);

#endif
