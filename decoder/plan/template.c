/* template.c: write and read the common parts of a plan's notifications. */
#include "plan/template.h"

/* The order of the strings. */
enum piece {
    PIECE_AUDIENCE = FRAME_OPERATION_NOTIFY, /* after metadata, one for each operation */
    PIECE_TOPIC,
    PIECE_FRONT,
    PIECE_ROUTING,
    PIECE_RETRY,
    PIECE_LIVE_RULE,
    PIECE_COUNT
};

struct stored_plan {
    uint64 seed;
    Interval ttl;
    uint32 sub;
    int target_count;
    int lengths[PIECE_COUNT];
    uint32 ack_timeout;
    Oid limited_owner;
    uint16 retry_limit;
    uint8 priority;
    uint8 type;
    uint8 backoff;
    bool ack_required;
    bool has_ttl;
};

static void
put_template(StringInfo out, const struct plan *plan)
{
    const struct rule *rule = plan->rule;
    const struct target_list *literal = &rule->literal;
    struct stored_plan stored = {.seed = plan->seed,
                                 .sub = plan->sub,
                                 .target_count = literal->count,
                                 .ack_timeout = rule->ack_timeout,
                                 .limited_owner = plan_limited_owner(plan),
                                 .retry_limit = rule->retry_limit,
                                 .priority = rule->priority,
                                 .type = rule->type,
                                 .backoff = rule->backoff,
                                 .ack_required = rule->ack_required,
                                 .has_ttl = rule->ttl != NULL};
    struct fragment pieces[PIECE_COUNT] = {
        [PIECE_AUDIENCE] = {rule->audience, strlen(rule->audience)},
        [PIECE_TOPIC] = plan->topic,
        [PIECE_FRONT] = plan->metadata_start,
        [PIECE_ROUTING] = plan->routing,
        [PIECE_RETRY] = plan->retry,
        [PIECE_LIVE_RULE] = plan->live_rule};

    if (rule->ttl != NULL)
        stored.ttl = *rule->ttl;
    memcpy(pieces, plan->metadata, sizeof(plan->metadata));
    for (int i = 0; i < PIECE_COUNT; i++)
        stored.lengths[i] = pieces[i].len;
    encode_raw(out, (const char *)&stored, sizeof(stored));
    if (literal->count > 0) /* without targets `lengths` is NULL */
        encode_raw(out, (const char *)literal->lengths, sizeof(int) * literal->count);
    for (int i = 0; i < PIECE_COUNT; i++)
        encode_raw(out, pieces[i].bytes, pieces[i].len);
    for (int i = 0; i < literal->count; i++)
        encode_raw(out, literal->texts[i], literal->lengths[i]);
}

uint32
spool_template(struct decoder *decoder, const struct plan *plan)
{
    if (!spool_has_template(decoder, plan->mark)) {
        struct spool_record record;
        StringInfo out = spool_open_template(decoder, &record);

        put_template(out, plan);
        spool_close_template(decoder, &record, plan->mark);
    }
    return plan->mark->number;
}

/* Returns a zero-terminated copy. */
static char *
copy_text(const char **at, int len)
{
    char *text = palloc(len + 1);

    memcpy(text, *at, len);
    text[len] = '\0';
    *at += len;
    return text;
}

static void
get_literal(struct target_list *list, const char *lengths, const char *texts)
{
    target_list_reserve(list, list->count);
    memcpy(list->lengths, lengths, sizeof(int) * list->count);
    for (int i = 0; i < list->count; i++)
        list->texts[i] = copy_text(&texts, list->lengths[i]);
}

struct plan *
spool_get_template(const char *body)
{
    struct plan *plan = palloc0(sizeof(*plan));
    struct rule *rule = palloc0(sizeof(*rule));
    struct fragment pieces[PIECE_COUNT] = {{NULL, 0}};
    const char *lengths = body + sizeof(struct stored_plan);
    const char *at;
    struct stored_plan stored;

    memcpy(&stored, body, sizeof(stored));
    at = lengths + sizeof(int) * stored.target_count;
    for (int i = 0; i < PIECE_COUNT; i++)
        pieces[i] = (struct fragment){copy_text(&at, stored.lengths[i]), stored.lengths[i]};
    rule->audience = (char *)pieces[PIECE_AUDIENCE].bytes;
    rule->type = stored.type;
    rule->priority = stored.priority;
    rule->backoff = stored.backoff;
    rule->ack_required = stored.ack_required;
    rule->ack_timeout = stored.ack_timeout;
    rule->retry_limit = stored.retry_limit;
    if (stored.has_ttl) {
        rule->ttl = palloc(sizeof(*rule->ttl));
        *rule->ttl = stored.ttl;
    }
    rule->literal.count = stored.target_count;
    get_literal(&rule->literal, lengths, at);
    plan->rule = rule;
    plan->has_texts = true;
    plan->sub = stored.sub;
    plan->seed = stored.seed;
    plan->limited_owner = stored.limited_owner;
    memcpy(plan->metadata, pieces, sizeof(plan->metadata));
    plan->topic = pieces[PIECE_TOPIC];
    plan->metadata_start = pieces[PIECE_FRONT];
    plan->routing = pieces[PIECE_ROUTING];
    plan->retry = pieces[PIECE_RETRY];
    plan->live_rule = pieces[PIECE_LIVE_RULE];
    return plan;
}
