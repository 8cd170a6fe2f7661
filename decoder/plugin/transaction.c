/* transaction.c: the callbacks of a transaction, in their order. */
#include "plugin/transaction.h"

#include "catalog/namespace.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/notify_message.h"
#include "changes/changes.h"
#include "decoder.h"
#include "output/output.h"
#include "plan/plan.h"

/* A progress message is sent after this number of changes without a write. */
#define PROGRESS_EVERY 100

void
clairon_begin(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
    frames_begin_transaction(ctx, txn);
}

/* Sends a progress message when there was no write for a while. */
static void
report_progress(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;

    if (++decoder->skipped < PROGRESS_EVERY)
        return;
    decoder->skipped = 0;
    frames_flush(ctx);
#if PG_VERSION_NUM < 160000
    /* Since PostgreSQL 16 the server sends progress messages. */
    OutputPluginUpdateProgress(ctx, false);
#endif
}

static bool
has_own_name(Relation relation, const char *name)
{
    return strcmp(RelationGetRelationName(relation), name) == 0 &&
           RelationGetNamespace(relation) == get_namespace_oid("clairon", true);
}

/*
 * Handles changes of clairon.rule and clairon.reload, to which no rule applies. Each such row has a
 * new snapshot, so rules would be looked up once per row. Returns false for other tables.
 */
static bool
change_own_table(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
                 ReorderBufferChange *change)
{
    if (RelationIsUsedAsCatalogTable(relation)) {
        if (!has_own_name(relation, "rule"))
            return false;
        relation_rule_written(ctx->output_plugin_private, txn->xid, relation, change);
        return true;
    }
    if (!has_own_name(relation, "reload"))
        return false;
    reload_change(ctx, relation, change);
    return true;
}

void
clairon_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
               ReorderBufferChange *change)
{
    struct decoder *decoder = ctx->output_plugin_private;
    struct plan_set *set;
    MemoryContext old;

    decoder->change_number++;
    old = MemoryContextSwitchTo(decoder->change_context);
    if (!change_own_table(ctx, txn, relation, change)) {
        set = relation_look_up(decoder, relation, txn->xid);
        if (set != NULL && set->kind == RELATION_MEMBER)
            member_change(ctx, set, relation, change);
        else if (set != NULL)
            change_row(ctx, set, relation, change);
    }
    MemoryContextSwitchTo(old);
    MemoryContextReset(decoder->change_context);
    report_progress(ctx);
}

void
clairon_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count,
                 Relation relations[], ReorderBufferChange *change)
{
    struct decoder *decoder = ctx->output_plugin_private;
    MemoryContext old = MemoryContextSwitchTo(decoder->change_context);

    for (int i = 0; i < count; i++) {
        struct plan_set *set;

        /* Each table needs a separate change number. */
        decoder->change_number++;
        if (has_own_name(relations[i], "rule"))
            relation_forget_rules(decoder);
        set = relation_look_up(decoder, relations[i], txn->xid);
        if (set != NULL)
            change_truncate(ctx, set, relations[i], change);
    }
    MemoryContextSwitchTo(old);
    MemoryContextReset(decoder->change_context);
    report_progress(ctx);
}

void
clairon_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn,
                bool transactional, const char *prefix, Size size, const char *message)
{
    struct decoder *decoder = ctx->output_plugin_private;
    MemoryContext old;

    if (!transactional)
        return;
    decoder->change_number++;
    if (strcmp(prefix, MESSAGE_PREFIX) == 0) {
        old = MemoryContextSwitchTo(decoder->change_context);
        notify_write(ctx, txn, message, size);
        MemoryContextSwitchTo(old);
        MemoryContextReset(decoder->change_context);
    } else if (strcmp(prefix, MESSAGE_REPEAT_PREFIX) == 0 && decoder->options.framed) {
        notify_count_repeat(decoder);
    }
    report_progress(ctx);
}

void
clairon_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn)
{
    struct decoder *decoder = ctx->output_plugin_private;

    frames_end_transaction(ctx, txn);
    accounts_report(decoder->accounts, decoder->slot, false);
    OutputPluginUpdateProgress(ctx, !decoder->wrote);
}
