/* denial.c: deny changes when an account of the owner is used up, and reload live lists. */
#include "changes/denial.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "changes/reload.h"
#include "decoder.h"
#include "output/warning_throttle.h"

/* Reloads of one owner within a second of commit time. Each makes all readers query the rows. */
#define RELOADS_PER_SECOND 100

/* Rules that may wait for a reload at a time. */
#define WAITING_MAX 4096

/* A live rule with a denied change. Outlives its plan. */
struct denied_rule {
    uint64 seed; /* hash key: the seed of its plan */
    struct account *account;
    uint64 transaction; /* that wrote the last reload */
    bool is_waiting;    /* a change was denied after the last reload */
    struct fragment source;
    struct fragment rule;
};

void
denial_setup(struct decoder *decoder)
{
    HASHCTL control = {.keysize = sizeof(uint64),
                       .entrysize = sizeof(struct denied_rule),
                       .hcxt = decoder->context};

    decoder->denied_rules =
        hash_create("clairon denials", 16, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

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

static struct fragment
copy(MemoryContext context, const struct fragment *text)
{
    char *bytes = MemoryContextAlloc(context, text->len + 1);

    memcpy(bytes, text->bytes, text->len);
    return (struct fragment){bytes, text->len};
}

static struct denied_rule *
find_rule(struct decoder *decoder, const struct plan *plan)
{
    struct denied_rule *denied = hash_search(decoder->denied_rules, &plan->seed, HASH_FIND, NULL);
    bool found;

    if (denied != NULL || hash_get_num_entries(decoder->denied_rules) >= WAITING_MAX)
        return denied;
    denied = hash_search(decoder->denied_rules, &plan->seed, HASH_ENTER, &found);
    denied->account = plan->account;
    denied->transaction = 0;
    denied->is_waiting = false;
    denied->source = copy(decoder->context, &plan->source);
    denied->rule = copy(decoder->context, &plan->live_rule);
    return denied;
}

static void
reload(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan)
{
    struct decoder *decoder = ctx->output_plugin_private;
    struct denied_rule *denied;

    if (!plan_texts(decoder, set, plan) || plan->live_rule.len == 0 ||
        (denied = find_rule(decoder, plan)) == NULL ||
        denied->transaction == decoder->transaction_number)
        return;
    denied->is_waiting = !may_reload(decoder, plan->account);
    if (denied->is_waiting) {
        decoder->has_waiting_reloads = true;
        return;
    }
    denied->transaction = decoder->transaction_number;
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

/* The reloads follow the changes of the transaction, with a separate change number. */
void
denial_end_transaction(LogicalDecodingContext *ctx)
{
    struct decoder *decoder = ctx->output_plugin_private;
    HASH_SEQ_STATUS sequence;
    struct denied_rule *denied;
    uint32 sub = 0;

    if (!decoder->has_waiting_reloads)
        return;
    decoder->has_waiting_reloads = false;
    decoder->change_number++;
    hash_seq_init(&sequence, decoder->denied_rules);
    while ((denied = hash_seq_search(&sequence)) != NULL) {
        bool is_written = denied->is_waiting && may_reload(decoder, denied->account);

        if (is_written)
            reload_write(ctx, sub++, &denied->source, &denied->rule);
        denied->is_waiting &= !is_written;
        decoder->has_waiting_reloads |= denied->is_waiting;
        if (!denied->is_waiting && denied->transaction != decoder->transaction_number) {
            pfree((char *)denied->source.bytes);
            pfree((char *)denied->rule.bytes);
            (void)hash_search(decoder->denied_rules, &denied->seed, HASH_REMOVE, NULL);
        }
    }
}
