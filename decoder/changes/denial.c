/* denial.c: deny changes when an account of the owner is used up, and reload live lists. */
#include "changes/denial.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "changes/reload.h"
#include "decoder.h"
#include "output/warning_throttle.h"

/* Reloads of single rules of one owner, in a second of commit time. */
#define RELOADS_PER_SECOND 100

static const char *const reasons[] = {
    [ACCOUNT_TIME] = "denied: the decoding time of the owner's rules is used up (owner_time)",
    [ACCOUNT_MEMORY] = "denied: plans and conditions of the owner's rules exceed owner_memory",
    [ACCOUNT_BYTES] =
        "denied: notifications of the owner's tables exceed owner_bytes a minute, and "
        "owner_wal_factor times their WAL",
    [ACCOUNT_TARGETS] = NULL, /* audience.c logs these changes by rule */
};

static void
log_denial(struct decoder *decoder, const struct account *account, enum account_kind kind)
{
    char *name = GetUserNameFromId(account->owner, true);

    if (reasons[kind] == NULL)
        return;
    warning_count_now(decoder, account->owner, psprintf("owner \"%s\"", name == NULL ? "?" : name),
                      reasons[kind]);
}

bool
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

/* Refills the reloads at each second of commit time. Returns false when they are used up. */
static bool
may_reload(struct decoder *decoder, struct account *account)
{
    int64 second = decoder->commit_time / USECS_PER_SEC;

    if (account->reload_second != second) {
        account->reload_second = second;
        account->reloads = 0;
    }
    return account->reloads++ < RELOADS_PER_SECOND;
}

/* Reloads the lists of all live rules of the table. */
static void
reload_source(LogicalDecodingContext *ctx, struct plan *plan)
{
    struct decoder *decoder = ctx->output_plugin_private;
    struct source *source = plan->source_plan;
    struct fragment name = {.bytes = pstrdup(source->name)};
    int len;

    name.bytes = encode_to_utf8((char *)name.bytes, strlen(name.bytes), &len);
    name.len = len;
    source->reloaded = decoder->transaction_number;
    reload_write(ctx, plan->sub + PART_RELOAD, &name, &(struct fragment){"", 0});
}

/*
 * A reload that waited for a later transaction would be lost with the connection. So the reload of
 * each denied change is in its transaction, and above the limit a table has one for all its rules.
 */
static void
reload(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan)
{
    struct decoder *decoder = ctx->output_plugin_private;

    if (plan->reloaded == decoder->transaction_number ||
        plan->source_plan->reloaded == decoder->transaction_number)
        return;
    if (plan->rule->is_unread || !may_reload(decoder, plan->account) ||
        !plan_texts(decoder, set, plan)) {
        reload_source(ctx, plan);
        return;
    }
    plan->reloaded = decoder->transaction_number;
    if (plan->live_rule.len > 0)
        reload_write(ctx, plan->sub + PART_RELOAD, &plan->source, &plan->live_rule);
}

void
denial_count(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan,
             enum account_kind kind)
{
    struct decoder *decoder = ctx->output_plugin_private;

    account_count_denied(decoder->accounts, plan->account, kind);
    log_denial(decoder, plan->account, kind);
    if (plan->rule->live && decoder->options.framed)
        reload(ctx, set, plan);
}
