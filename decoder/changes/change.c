/* change.c: apply the rules of a relation to one change. */
#include "changes/changes.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/datum.h"

#include "base/data.h"
#include "decoder.h"
#include "output/output.h"
#include "rules/condition.h"
#include "rules/rules.h"

static const struct target_list no_targets = {0};

/* A row change with both images. */
struct row_change {
    LogicalDecodingContext *ctx;
    struct decoder *decoder;
    struct plan_set *set;
    Relation relation;
    enum frame_operation operation;
    struct image *old; /* NULL: no old value is known */
    struct image *new;
    bool whole; /* the old row is complete */
};

static const char *const reasons[] = {
    [ACCOUNT_TIME] = "denied: the decoding time of the owner's rules is used up (owner_time)",
    [ACCOUNT_MEMORY] = "denied: plans and conditions of the owner's rules exceed owner_memory",
    [ACCOUNT_BYTES] = ("denied: notifications of the owner's tables exceed owner_bytes a minute, "
                       "and owner_wal_factor times their WAL"),
    [ACCOUNT_TARGETS] = NULL, /* row_audience.c logs these changes by rule */
    [ACCOUNT_ROWS] = NULL,    /* warning_count has logged these changes by rule */
};

/* Counts a denied change, logs it at powers of ten, and reloads the lists of a live rule. */
static void
denial_count(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan,
             enum account_kind kind)
{
    struct decoder *decoder = ctx->output_plugin_private;
    const struct account *account = plan->account;

    account_count_denied(decoder->accounts, plan->account, kind);
    if (reasons[kind] != NULL) {
        char *name = GetUserNameFromId(account->owner, true);

        warning_count_now(decoder, account->owner,
                          psprintf("owner \"%s\"", name == NULL ? "?" : name), reasons[kind]);
    }
    if (plan->rule->live)
        reload_lists(ctx, set, plan);
}

/* Counts a change that the rule cannot evaluate. */
static void
denial_count_row(struct decoder *decoder, const struct plan *plan)
{
    account_count_denied(decoder->accounts, plan->account, ACCOUNT_ROWS);
}

/* Returns true, after counting the denial, when the rule may not process the change. */
static bool
denial_is_due(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan)
{
    struct decoder *decoder = ctx->output_plugin_private;
    enum account_kind kind;

    if (unlikely(plan->is_denied))
        kind = plan->denied;
    else if (!account_is_used_up(decoder->accounts, plan->account, &kind))
        return false;
    denial_count(ctx, set, plan, kind);
    return true;
}

static bool
includes_operation(const struct plan *plan, enum frame_operation operation)
{
    return (plan->rule->operations & RULE_OPERATION(operation)) != 0;
}

static void
warn(const struct row_change *change, struct plan *plan, const char *what)
{
    warning_count(change->decoder, plan->seed, plan->label, what);
}

static void
send_notification(const struct row_change *change, struct plan *plan,
                  enum frame_operation operation, uint32 part, const struct target_list *targets)
{
    struct notification notification = {
        .plan = plan, .operation = operation, .part = part, .targets = targets};

    if (!includes_operation(plan, operation) || (targets->count == 0 && !plan->rule->to_all))
        return;
    if (!plan_texts(change->decoder, change->set, plan)) {
        denial_count(change->ctx, change->set, plan, ACCOUNT_MEMORY);
        return;
    }
    if (plan->emitter_state != TARGET_NONE)
        notification.emitter =
            emitter_of_row(change->decoder, plan,
                           change->operation == FRAME_OPERATION_DELETE ? change->old : change->new);
    if (plan->web_push != NULL && change->decoder->options.framed)
        notification.web_push = web_push_of_row(
            change->decoder, plan, operation == FRAME_OPERATION_DELETE ? change->old : change->new);
    if (operation != FRAME_OPERATION_CREATE && change->old->present)
        notification.before = change->old;
    if (operation != FRAME_OPERATION_DELETE)
        notification.after = change->new;
    notification_write(change->ctx, &notification);
}

static bool
old_has_target(const struct row_change *change, struct plan *plan)
{
    bool has_target = change->old->present;

    for (int i = 0; i < plan->part_count && has_target && !change->whole; i++)
        has_target = plan->parts[i].column.index < 0 || plan->parts[i].column.is_key;
    return has_target;
}

/* The first slice to detoast and compare; each further slice is 16 times as long. */
#define FIRST_LOOK_BYTES (64 * 1024)

/* Returns the stored value. The reorder buffer replaces TOAST pointers by indirect pointers. */
static struct varlena *
follow(Datum value)
{
    struct varlena *varlena = (struct varlena *)DatumGetPointer(value);
    struct varatt_indirect indirect;

    if (!VARATT_IS_EXTERNAL_INDIRECT(varlena))
        return varlena;
    VARATT_EXTERNAL_GET_POINTER(indirect, varlena);
    return indirect.pointer;
}

static bool
equal_prefix(struct varlena *a, struct varlena *b, int32 len)
{
    struct varlena *left = detoast_attr_slice(a, 0, len);
    struct varlena *right = detoast_attr_slice(b, 0, len);
    bool same = VARSIZE_ANY_EXHDR(left) == VARSIZE_ANY_EXHDR(right) &&
                memcmp(VARDATA_ANY(left), VARDATA_ANY(right), VARSIZE_ANY_EXHDR(left)) == 0;

    pfree(left);
    pfree(right);
    return same;
}

/*
 * True when two varlena values have the same bytes. At least one value is compressed, or is an
 * indirect pointer from the reorder buffer; neither value is an on-disk TOAST pointer.
 */
static bool
datum_equal_packed(Datum a, Datum b)
{
    int64 len = toast_raw_datum_size(a) - VARHDRSZ;
    struct varlena *left = follow(a);
    struct varlena *right = follow(b);

    if (toast_raw_datum_size(b) - VARHDRSZ != len)
        return false;
    if (!VARATT_IS_COMPRESSED(left) && !VARATT_IS_COMPRESSED(right))
        return memcmp(VARDATA_ANY(left), VARDATA_ANY(right), len) == 0;
    /* Equal input compresses to equal bytes; the header contains the compression method. */
    if (VARSIZE_ANY(left) == VARSIZE_ANY(right) && memcmp(left, right, VARSIZE_ANY(left)) == 0)
        return true;
    for (int64 look = FIRST_LOOK_BYTES; look < len; look *= 16)
        if (!equal_prefix(left, right, look))
            return false;
    return equal_prefix(left, right, len);
}

static inline bool
is_packed(Datum value)
{
    return VARATT_IS_COMPRESSED(DatumGetPointer(value)) ||
           VARATT_IS_EXTERNAL(DatumGetPointer(value));
}

/* Neither value is an on-disk TOAST pointer. */
static bool
values_equal(const struct image *old, const struct image *new, int at, bool typbyval, int16 typlen)
{
    if (old->nulls[at] || new->nulls[at])
        return old->nulls[at] == new->nulls[at];
    if (old->values[at] == new->values[at])
        return true;
    if (typlen == -1 && (is_packed(old->values[at]) || is_packed(new->values[at])))
        return datum_equal_packed(old->values[at], new->values[at]);
    return !typbyval && datum_image_eq(old->values[at], new->values[at], false, typlen);
}

/* Marks changed columns. Returns false when provably no column of the rule changed. */
static bool
compare_images(const struct row_change *change, struct plan *plan)
{
    bool touched = false;

    for (int i = 0; i < plan->pick_count; i++) {
        struct column *column = &plan->columns[plan->picks[i]];
        bool known = change->old->present && (change->whole || column->is_key);
        bool same;

        column->state = 0;
        if (image_lacks(change->new, column->index, column->typlen))
            continue;
        same = known && values_equal(change->old, change->new, column->index, column->typbyval,
                                     column->typlen);
        if (known && !same)
            column->state = COLUMN_CHANGED;
        touched |= !same;
    }
    return touched;
}

static bool
targets_equal(const struct row_change *change, struct plan *plan)
{
    for (int i = 0; i < plan->part_count; i++) {
        const struct bound_column *column = &plan->parts[i].column;

        if (column->index >= 0 && !values_equal(change->old, change->new, column->index,
                                                column->encoder->typbyval, column->encoder->typlen))
            return false;
    }
    return true;
}

/* A user in several groups may lose a row in one group and still be addressed by another group. */
static bool
has_live_groups(const struct rule *rule)
{
    return rule->live && strcmp(rule->audience, "USER") != 0;
}

/*
 * Returns false when the row is denied. Sets *too_many for a row with too many targets; then the
 * caller calls count_too_many after the change's notifications, because a reload follows them.
 */
static bool
read_targets(const struct row_change *change, struct plan *plan, const struct image *image,
             struct target_list **ret_targets, bool *too_many)
{
    bool is_over = false;
    bool is_read = audience_read_targets(change->decoder, plan, image, ret_targets, &is_over);

    if (!is_read)
        denial_count_row(change->decoder, plan);
    *too_many |= is_over;
    return is_read;
}

static void
count_too_many(const struct row_change *change, struct plan *plan, bool too_many)
{
    if (too_many)
        denial_count(change->ctx, change->set, plan, ACCOUNT_TARGETS);
}

/* Sends an update for a rule that reads its targets from columns. */
static void
update_column_targets(const struct row_change *change, struct plan *plan, bool touched,
                      bool *too_many)
{
    struct target_list *gained;
    struct target_list *lost;
    struct target_list *losers;

    if (!read_targets(change, plan, change->new, &gained, too_many))
        return;
    if (!old_has_target(change, plan)) {
        warn(change, plan,
             "old targets unknown: the WAL contains only the new ones (REPLICA IDENTITY FULL logs "
             "both)");
        if (touched)
            send_notification(change, plan, FRAME_OPERATION_UPDATE, PART_MAIN, gained);
        return;
    }
    if (targets_equal(change, plan)) {
        if (touched)
            send_notification(change, plan, FRAME_OPERATION_UPDATE, PART_MAIN, gained);
        return;
    }
    if (!read_targets(change, plan, change->old, &lost, too_many))
        return;
    /* The delete is sent first: a user in two groups may lose the row in only one group. */
    losers = audience_difference(lost, gained);
    send_notification(change, plan, FRAME_OPERATION_DELETE, PART_LOSERS, losers);
    if (touched || (losers->count > 0 && has_live_groups(plan->rule)))
        send_notification(change, plan, FRAME_OPERATION_UPDATE, PART_MAIN,
                          audience_intersection(gained, lost));
    send_notification(change, plan, FRAME_OPERATION_CREATE, PART_GAINERS,
                      audience_difference(gained, lost));
}

static void
apply_to_update(const struct row_change *change, struct plan *plan)
{
    bool touched = compare_images(change, plan) || plan->rule->column_count < 0;
    bool too_many = false;

    if (plan->target_state == TARGET_COLUMNS)
        update_column_targets(change, plan, touched, &too_many);
    else if (touched)
        send_notification(change, plan, FRAME_OPERATION_UPDATE, PART_MAIN, &plan->rule->literal);
    count_too_many(change, plan, too_many);
}

/* Sends a create or delete: of the row itself, or because only_when became true or false. */
static void
apply_to_image(const struct row_change *change, struct plan *plan, enum frame_operation operation,
               uint32 part)
{
    bool leaves = operation == FRAME_OPERATION_DELETE;
    bool too_many = false;
    struct target_list *targets;

    if (!includes_operation(plan, operation))
        return;
    if (plan->target_state == TARGET_NONE) {
        send_notification(change, plan, operation, part, &plan->rule->literal);
    } else if (leaves && !old_has_target(change, plan)) {
        warn(change, plan, "denied: the WAL does not contain the target column");
        denial_count_row(change->decoder, plan);
    } else if (read_targets(change, plan, leaves ? change->old : change->new, &targets,
                            &too_many)) {
        send_notification(change, plan, operation, part, targets);
    }
    count_too_many(change, plan, too_many);
}

/* Evaluates only_when for the image. Returns false when the row is denied. */
static bool
meets_condition(const struct row_change *change, struct plan *plan, const struct image *image,
                bool *ret_met)
{
    enum account_kind kind;

    encoders_load_row_types(plan->source_plan->encoders);
    if (!plan_condition(change->decoder, change->set, plan, change->relation, &kind)) {
        denial_count(change->ctx, change->set, plan, kind);
        /* Also logs the reason. */
        (void)audience_meets_condition(change->decoder, plan, image, ret_met);
        return false;
    }
    if (audience_meets_condition(change->decoder, plan, image, ret_met))
        return true;
    if (condition_is_over(plan->condition, &kind))
        denial_count(change->ctx, change->set, plan, kind);
    else
        denial_count_row(change->decoder, plan);
    return false;
}

static void
apply_to_conditional_update(const struct row_change *change, struct plan *plan)
{
    bool before;
    bool after;

    if (!meets_condition(change, plan, change->new, &after))
        return;
    if (condition_evaluate(plan->condition, change->old) == CONDITION_UNKNOWN) {
        warn(change, plan,
             "old row unknown: only_when is evaluated for the new row only (REPLICA IDENTITY FULL "
             "logs both)");
        before = after;
    } else if (!meets_condition(change, plan, change->old, &before)) {
        return;
    }
    if (before && after)
        apply_to_update(change, plan);
    else if (after)
        apply_to_image(change, plan, FRAME_OPERATION_CREATE, PART_GAINERS);
    else if (before)
        apply_to_image(change, plan, FRAME_OPERATION_DELETE, PART_LOSERS);
}

static void
apply_rule(const struct row_change *change, struct plan *plan)
{
    bool conditional = plan->rule->only_when != NULL;
    bool met = true;

    if (denial_is_due(change->ctx, change->set, plan))
        return;
    if (audience_is_denied(change->decoder, plan)) {
        denial_count_row(change->decoder, plan);
        return;
    }
    if (change->operation == FRAME_OPERATION_UPDATE) {
        if (conditional)
            apply_to_conditional_update(change, plan);
        else
            apply_to_update(change, plan);
    } else {
        const struct image *image =
            change->operation == FRAME_OPERATION_DELETE ? change->old : change->new;

        if (!conditional || (meets_condition(change, plan, image, &met) && met))
            apply_to_image(change, plan, change->operation, PART_MAIN);
    }
}

static void
deform(struct image *image, HeapTuple tuple, TupleDesc desc, bool whole)
{
    image->present = tuple != NULL;
    image->whole = whole;
    if (tuple != NULL)
        heap_deform_tuple(tuple, desc, image->values, image->nulls);
}

/* This is cheaper than deforming the tuple again. */
static void
copy_image(struct image *to, const struct image *from, TupleDesc desc)
{
    to->present = true;
    to->whole = false;
    memcpy(to->values, from->values, sizeof(Datum) * desc->natts);
    memcpy(to->nulls, from->nulls, sizeof(bool) * desc->natts);
}

/*
 * Copies unchanged TOASTed values from the old row to the new row: all such values under FULL,
 * otherwise only key columns. In an old key all other columns are null.
 */
static void
fill_from_old(struct row_change *row, TupleDesc desc)
{
    for (int i = 0; i < desc->natts; i++)
        if (!row->old->nulls[i] && image_lacks(row->new, i, TupleDescAttr(desc, i)->attlen)) {
            row->new->values[i] = row->old->values[i];
            row->new->nulls[i] = row->old->nulls[i];
        }
}

/* An update without an old tuple did not change the key, so the new row contains the old key. */
static void
load_images(struct row_change *row, HeapTuple old, HeapTuple new)
{
    TupleDesc desc = RelationGetDescr(row->relation);
    char identity = row->relation->rd_rel->relreplident;

    row->old = &row->set->old;
    row->new = &row->set->new;
    row->whole = identity == REPLICA_IDENTITY_FULL && old != NULL;
    deform(row->new, new, desc, true);
    if (old == NULL && row->operation == FRAME_OPERATION_UPDATE && row->set->has_key) {
        copy_image(row->old, row->new, desc);
        return;
    }
    deform(row->old, old, desc, row->whole);
    if (old != NULL && new != NULL && HeapTupleHasExternal(new))
        fill_from_old(row, desc);
}

/* The bytes of the tuple in the WAL, with its compressed values that are stored out of line. */
static Size
wal_bytes(HeapTuple tuple, const struct image *image, TupleDesc desc)
{
    Size bytes;

    if (tuple == NULL)
        return 0;
    bytes = tuple->t_len;
    if (!HeapTupleHasExternal(tuple))
        return bytes;
    for (int i = 0; i < desc->natts; i++) {
        struct varlena *value = (struct varlena *)DatumGetPointer(image->values[i]);
        struct varatt_indirect indirect;

        if (TupleDescAttr(desc, i)->attlen != -1 || image->nulls[i] ||
            !VARATT_IS_EXTERNAL_INDIRECT(value))
            continue;
        VARATT_EXTERNAL_GET_POINTER(indirect, value);
        bytes += VARSIZE_ANY(indirect.pointer);
    }
    return bytes;
}

/*
 * What a change has in the WAL besides its tuples: headers, entries of indexes, its share of the
 * commit. Such a row in a transaction of its own takes about as much.
 */
#define CHANGE_WAL_BYTES 512

/* Each owner of a source earns the bytes in the WAL. */
static void
earn(struct decoder *decoder, const struct plan_set *set, TimestampTz now, Size bytes)
{
    account_earn(decoder->accounts, set->account, now, decoder->commit_time, bytes);
    for (int i = 0; i < set->source_count; i++) {
        struct account *other = set->sources[i].account;

        if (other != NULL && other != set->account)
            account_earn(decoder->accounts, other, now, decoder->commit_time, bytes);
    }
}

/*
 * Denies a change for all rules together when their owner's account is used up. So a denied change
 * costs as little as any, however many rules apply. In a transaction, lists are reloaded once.
 */
static bool
deny_all(LogicalDecodingContext *ctx, struct plan_set *set, enum frame_operation operation)
{
    struct decoder *decoder = ctx->output_plugin_private;
    enum account_kind kind;
    uint64 others;

    if (!set->has_one_owner || !account_is_used_up(decoder->accounts, set->account, &kind))
        return false;
    if (set->applied[operation] == 0)
        return true;
    if (set->has_live_rules && set->denied_transaction != decoder->transaction_number) {
        set->denied_transaction = decoder->transaction_number;
        for (int i = 0; i < set->plan_count; i++)
            if (plan_applies(&set->plans[i], operation))
                denial_count(ctx, set, &set->plans[i], kind);
        return true;
    }
    others = set->applied[operation] - 1;
    denial_count(ctx, set, &set->plans[0], kind);
    set->account->denied[kind].count += others;
    return true;
}

/* Charges each owner the time of its rules. Between rules, because further ones may be denied. */
static void
apply_rules(const struct row_change *row, TimestampTz start)
{
    struct accounts *accounts = row->decoder->accounts;
    struct account *account = row->set->account;

    for (int i = 0; i < row->set->plan_count; i++) {
        struct plan *plan = &row->set->plans[i];

        if (!plan_applies(plan, row->operation))
            continue;
        if (i > 0)
            start = account_spend(accounts, account, start);
        account = plan->account;
        apply_rule(row, plan);
    }
    (void)account_spend(accounts, account, start);
}

void
change_row(LogicalDecodingContext *ctx, struct plan_set *set, Relation relation,
           ReorderBufferChange *change)
{
    struct row_change row = {
        .ctx = ctx, .decoder = ctx->output_plugin_private, .set = set, .relation = relation};
    HeapTuple old = compat_old_tuple(change);
    HeapTuple new = compat_new_tuple(change);
    TupleDesc desc = RelationGetDescr(relation);
    TimestampTz start;

    switch (change->action) {
    case REORDER_BUFFER_CHANGE_INSERT:
        row.operation = FRAME_OPERATION_CREATE;
        break;
    case REORDER_BUFFER_CHANGE_UPDATE:
        row.operation = FRAME_OPERATION_UPDATE;
        break;
    case REORDER_BUFFER_CHANGE_DELETE:
        row.operation = FRAME_OPERATION_DELETE;
        break;
    default:
        elog(ERROR, "unexpected row change %d", (int)change->action);
    }
    /* Changes of members of clairon_app have no account. */
    if (set->account->is_trusted && set->source_count == 1) {
        load_images(&row, old, new);
        for (int i = 0; i < set->plan_count; i++)
            if (plan_applies(&set->plans[i], row.operation))
                apply_rule(&row, &set->plans[i]);
        return;
    }
    start = account_start_clock(row.decoder->accounts);
    load_images(&row, old, new);
    earn(row.decoder, set, start,
         CHANGE_WAL_BYTES + wal_bytes(old, row.old, desc) + wal_bytes(new, row.new, desc));
    if (deny_all(ctx, set, row.operation))
        (void)account_spend(row.decoder->accounts, set->account, start);
    else
        apply_rules(&row, start);
}

static bool
is_listed(const ReorderBufferChange *change, Oid relid)
{
    for (Size i = 0; i < change->data.truncate.nrelids; i++)
        if (change->data.truncate.relids[i] == relid)
            return true;
    return false;
}

/*
 * TRUNCATE lists the named table and its descendants. A rule is applied only once: to the topmost
 * of the listed tables that it covers. Returns the tables whose rules are applied above `relid`:
 * its ancestors that are listed, and the ancestors of those.
 */
static List *
tables_applied_above(struct decoder *decoder, Oid relid, const ReorderBufferChange *change)
{
    struct inheritance *inheritance = decoder->inheritance;
    List *applied = NIL;
    ListCell *cell;

    if (change->data.truncate.nrelids == 1)
        return NIL;
    foreach (cell, ancestors_of(inheritance, relid, decoder->catalog_number, false)) {
        Oid other = lfirst_oid(cell);

        if (!is_listed(change, other) || list_member_oid(applied, other))
            continue;
        applied = list_concat_unique_oid(
            lappend_oid(applied, other),
            ancestors_of(inheritance, other, decoder->catalog_number, false));
    }
    return applied;
}

/* Returns, for each source of the set, whether its rules are applied above `relid`; NULL: none. */
static const bool *
sources_applied_above(struct decoder *decoder, const struct plan_set *set, Oid relid,
                      const ReorderBufferChange *change)
{
    List *applied = tables_applied_above(decoder, relid, change);
    bool *is_above;

    if (applied == NIL)
        return NULL;
    is_above = palloc(sizeof(bool) * set->source_count);
    for (int i = 0; i < set->source_count; i++)
        is_above[i] = list_member_oid(applied, set->sources[i].relid);
    return is_above;
}

/* Returns false when the rule does not send the TRUNCATE. */
static bool
send_truncate(LogicalDecodingContext *ctx, struct plan *plan, Oid relid)
{
    struct decoder *decoder = ctx->output_plugin_private;
    struct notification notification = {.plan = plan,
                                        .operation = FRAME_OPERATION_TRUNCATE,
                                        .part = PART_MAIN,
                                        .targets = plan->rule->to_all ? &no_targets
                                                                      : &plan->rule->literal};
    const char *denied = NULL;

    if (!includes_operation(plan, FRAME_OPERATION_TRUNCATE))
        return false;
    if (plan->emitter_state != TARGET_NONE)
        notification.emitter = emitter_of_row(decoder, plan, NULL);
    if (plan->target_state != TARGET_NONE)
        denied = "denied: TRUNCATE has no rows to read targets from";
    else if (plan->emitter_state == TARGET_DROPPED)
        denied = "denied: the emitter column was dropped";
    else if (plan->rule->relid != relid)
        /* A truncate of the rule's table would make clients remove rows that still exist. */
        denied = "denied: only a partition or child table was truncated";
    if (denied != NULL) {
        warning_count(decoder, plan->seed, plan->label, denied);
        denial_count_row(decoder, plan);
    }
    if (denied != NULL || (!plan->rule->to_all && notification.targets->count == 0))
        return false;
    notification_write(ctx, &notification);
    return true;
}

/* TRUNCATE ONLY keeps the rows of child tables. Partitions are always truncated. */
static bool
may_keep_rows(Relation relation)
{
    return relation->rd_rel->relkind == RELKIND_RELATION && relation->rd_rel->relhassubclass;
}

/* Applies one rule to a truncated table. */
static void
apply_truncate(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan,
               Relation relation)
{
    if (denial_is_due(ctx, set, plan))
        return;
    if (!plan_texts(ctx->output_plugin_private, set, plan)) {
        denial_count(ctx, set, plan, ACCOUNT_MEMORY);
        return;
    }
    if ((!send_truncate(ctx, plan, RelationGetRelid(relation)) || may_keep_rows(relation)) &&
        plan->rule->live)
        reload_lists(ctx, set, plan);
}

static void
truncate_rules(LogicalDecodingContext *ctx, struct plan_set *set, Relation relation,
               const ReorderBufferChange *change)
{
    const bool *is_above =
        sources_applied_above(ctx->output_plugin_private, set, RelationGetRelid(relation), change);

    for (int i = 0; i < set->plan_count; i++) {
        struct plan *plan = &set->plans[i];

        if (plan_applies(plan, FRAME_OPERATION_TRUNCATE) &&
            (is_above == NULL || !is_above[plan->source_plan - set->sources]))
            apply_truncate(ctx, set, plan, relation);
    }
}

void
change_truncate(LogicalDecodingContext *ctx, struct plan_set *set, Relation relation,
                const ReorderBufferChange *change)
{
    struct decoder *decoder = ctx->output_plugin_private;
    TimestampTz start = account_start_clock(decoder->accounts);

    earn(decoder, set, start, CHANGE_WAL_BYTES);
    if (!deny_all(ctx, set, FRAME_OPERATION_TRUNCATE))
        truncate_rules(ctx, set, relation, change);
    (void)account_spend(decoder->accounts, set->account, start);
}
