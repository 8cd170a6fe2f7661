/* denial.c: deny changes when an account of the owner is used up. */
#include "changes/denial.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "changes/reload.h"
#include "decoder.h"
#include "output/output.h"

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

void
denial_count(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan,
             enum account_kind kind)
{
    struct decoder *decoder = ctx->output_plugin_private;

    account_count_denied(decoder->accounts, plan->account, kind);
    log_denial(decoder, plan->account, kind);
    if (plan->rule->live)
        reload_lists(ctx, set, plan);
}
