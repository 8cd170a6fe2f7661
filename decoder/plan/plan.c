/*
 * plan.c: prepare the rules of a relation: columns, encoders, and all constant JSON; write it to a
 * spool, and read it from there.
 */
#include "plan/plan.h"

#include "access/sysattr.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "utils/lsyscache.h"

#include "base/sandbox.h"
#include "decoder.h"
#include "encode/encode.h"
#include "rules/condition.h"

static int
find_attribute(TupleDesc desc, const char *name)
{
    for (int i = 0; i < desc->natts; i++) {
        Form_pg_attribute attribute = TupleDescAttr(desc, i);

        if (!attribute->attisdropped && strcmp(NameStr(attribute->attname), name) == 0)
            return i;
    }
    return -1;
}

bool
plan_can_read(Form_pg_attribute attribute)
{
#ifdef ATTRIBUTE_GENERATED_VIRTUAL
    if (attribute->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
        return false;
#endif
    return !attribute->attisdropped;
}

/* The limits of nested output functions are those of conditions. */
struct printing {
    struct sandbox *sandbox;
    Oid owner;
};

static bool
print_limited(void *arg, void (*work)(void *work_arg), void *work_arg, char **ret_reason)
{
    const struct printing *printing = arg;

    return sandbox_run(printing->sandbox, printing->owner, SANDBOX_EVALUATE, work, work_arg,
                       ret_reason);
}

static void
load_columns(struct decoder *decoder, struct source *source, Relation relation, Relation decoded,
             const Bitmapset *key)
{
    TupleDesc desc = RelationGetDescr(relation);

    for (int i = 0; i < desc->natts; i++) {
        struct column *column = &source->columns[i];
        Form_pg_attribute attribute = TupleDescAttr(desc, i);

        column->index = -1;
        if (plan_can_read(attribute))
            column->index = relation == decoded ? i
                                                : find_attribute(RelationGetDescr(decoded),
                                                                 NameStr(attribute->attname));
        source->map[i] = column->index;
        if (column->index < 0)
            continue;
        attribute = TupleDescAttr(RelationGetDescr(decoded), column->index);
        column->is_key = bms_is_member(attribute->attnum - FirstLowInvalidHeapAttributeNumber, key);
        column->name.bytes =
            encode_name(&decoder->settings, NameStr(attribute->attname), &column->name.len);
        column->typlen = attribute->attlen;
        column->typbyval = attribute->attbyval;
        column->encoder = encoders_get_column(source->encoders, attribute->atttypid);
        source->readable[source->readable_count++] = i;
    }
}

bool
source_columns(struct decoder *decoder, struct source *source, Relation relation, Relation decoded,
               const Bitmapset *key, encode_has_room has_room, void *arg)
{
    int natts = RelationGetDescr(relation)->natts;
    int room = Max(natts, 1);
    struct printing *printing = palloc(sizeof(*printing));
    MemoryContext old;

    *printing = (struct printing){decoder->sandbox, relation->rd_rel->relowner};
    source->encoders = encoders_new(&decoder->settings, print_limited, printing);
    old = MemoryContextSwitchTo(source->context);
    source->natts = natts;
    source->columns = palloc0(sizeof(struct column) * room);
    source->map = palloc(sizeof(int) * room);
    source->readable = palloc(sizeof(int16) * room);
    load_columns(decoder, source, relation, decoded, key);
    if (!encoders_prepare(source->encoders, has_room, arg))
        source->columns = NULL;
    MemoryContextSwitchTo(old);
    return source->columns != NULL;
}

/* A rule for all columns shares the list of the source. */
static void
plan_columns(struct plan *plan, const struct source *source)
{
    const struct rule *rule = plan->rule;
    int16 *picks;

    plan->columns = source->columns;
    plan->picks = source->readable;
    plan->pick_count = source->readable_count;
    if (rule->column_count < 0)
        return;
    picks = palloc(sizeof(int16) * Max(rule->column_count, 1));
    plan->pick_count = 0;
    for (int i = 0; i < rule->column_count; i++) {
        int at = rule->columns[i] - 1;

        if (at >= 0 && at < source->natts && source->columns[at].index >= 0)
            picks[plan->pick_count++] = at;
    }
    plan->picks = picks;
}

/* Looks inside domains and arrays too, as target_column in SQL does. */
static bool
contains_json(Oid type)
{
    Oid element;

    for (;;) {
        type = getBaseType(type);
        element = get_element_type(type);
        if (!OidIsValid(element))
            return type == JSONOID || type == JSONBOID;
        type = element;
    }
}

/* Returns TARGET_COLUMNS, or the reason why the column cannot be read. */
static int
bind_column(const struct source *source, int number, struct bound_column *ret_column)
{
    const struct column *column;

    if (number < 1 || number > source->natts || source->columns[number - 1].index < 0)
        return TARGET_DROPPED;
    column = &source->columns[number - 1];
    *ret_column = (struct bound_column){column->index, column->is_key, column->encoder};
    return contains_json(column->encoder->type) ? TARGET_JSON : TARGET_COLUMNS;
}

static struct fragment
constant_part(const struct rule *rule, int nth)
{
    if (nth >= rule->literal.count)
        return (struct fragment){"", 0}; /* not created by clairon.watch */
    return (struct fragment){rule->literal.texts[nth], rule->literal.lengths[nth]};
}

static void
plan_targets(struct plan *plan, const struct source *source)
{
    const struct rule *rule = plan->rule;
    const int16 *numbers = rule->part_count > 0 ? rule->target_columns : &rule->target_column;

    plan->target_state = TARGET_NONE;
    if (rule->part_count == 0 && rule->target_column == 0)
        return;
    plan->target_state = TARGET_COLUMNS;
    plan->part_count = Max(rule->part_count, 1);
    for (int i = 0; i < plan->part_count && plan->target_state == TARGET_COLUMNS; i++) {
        struct target_part *part = &plan->parts[i];

        part->column.index = TARGET_NONE;
        if (numbers[i] != 0)
            plan->target_state = bind_column(source, numbers[i], &part->column);
    }
}

void
plan_bind_rule(struct plan *plan, const struct rule *rule)
{
    int constants = 0;

    plan->rule = rule;
    for (int i = 0; i < plan->part_count; i++)
        if (plan->parts[i].column.index == TARGET_NONE)
            plan->parts[i].constant = constant_part(rule, constants++);
}

/* Copies to the exact size, since plans are long-lived. */
static struct fragment
fragment_of(StringInfo text)
{
    struct fragment fragment = {.bytes = pnstrdup(text->data, text->len), .len = text->len};

    pfree(text->data);
    return fragment;
}

static struct fragment
web_push_literal(enum web_push_member member, const char *literal)
{
    const struct encode_settings settings = {.limit = PG_INT32_MAX};
    StringInfoData text;

    if (member == WEB_PUSH_APP_BADGE || literal[0] == '\0')
        return (struct fragment){literal, strlen(literal)};
    initStringInfo(&text);
    encode_utf8_text(&settings, &text, literal, strlen(literal));
    return fragment_of(&text);
}

/* All types are allowed: a member whose value cannot be output is absent. */
static void
plan_web_push(struct plan *plan, const struct source *source)
{
    static const char *const NAMES[WEB_PUSH_MEMBERS] = {
        "\"title\":", "\"body\":", "\"url\":",       "\"icon\":",    "\"badge\":",
        "\"lang\":",  "\"dir\":",  "\"app_badge\":", "\"collapse\":"};
    const struct web_push_template *template = plan->rule->web_push;

    if (template == NULL)
        return;
    plan->web_push = palloc0(sizeof(*plan->web_push) * WEB_PUSH_MEMBERS);
    for (int i = 0; i < WEB_PUSH_MEMBERS; i++) {
        struct web_push_part *part = &plan->web_push[i];

        part->literal = web_push_literal(i, template[i].literal);
        if (template[i].column == 0 && part->literal.len == 0)
            continue;
        part->name = (struct fragment){NAMES[i], strlen(NAMES[i])};
        if (template[i].column == 0)
            continue;
        part->state = bind_column(source, template[i].column, &part->column);
        if (part->state == TARGET_JSON)
            part->state = TARGET_COLUMNS;
    }
}

/* All types are allowed: a value that cannot be output is replaced. */
static void
plan_emitter(struct plan *plan, const struct source *source)
{
    plan->emitter_state = TARGET_NONE;
    if (plan->rule->emitter_column == 0)
        return;
    plan->emitter_state = bind_column(source, plan->rule->emitter_column, &plan->emitter);
    if (plan->emitter_state == TARGET_JSON)
        plan->emitter_state = TARGET_COLUMNS;
}

static const char *
utf8_name(const char *name)
{
    int len;
    char *utf8 = encode_to_utf8(pstrdup(name), strlen(name), &len);

    return pnstrdup(utf8, len);
}

static void
plan_topic(struct decoder *decoder, struct plan *plan, const char *source)
{
    StringInfoData text;
    int len;

    if (plan->rule->topic != NULL) {
        plan->topic = (struct fragment){pstrdup(plan->rule->topic), strlen(plan->rule->topic)};
        return;
    }
    initStringInfo(&text);
    if (decoder->options.topic_prefix[0] != '\0')
        appendStringInfo(&text, "%s.", decoder->options.topic_prefix);
    appendStringInfoString(&text, source);
    plan->topic.bytes = encode_to_utf8(text.data, text.len, &len);
    plan->topic.len = len;
}

/* A superuser may insert a longer name, which clairon.watch would reject. */
static void
plan_rule_name(struct plan *plan)
{
    const char *name = utf8_name(plan->rule->name);
    size_t len = strlen(name);

    plan->rule_name = (struct fragment){name, len > LIMIT_RULE ? 0 : len};
}

/* The envelope fields that are the same for all rows of the plan. */
static struct envelope
plan_envelope(const struct plan *plan, const char *source, enum frame_operation operation)
{
    const struct rule *rule = plan->rule;
    uint16 flags = rule_flags(rule);

    return (struct envelope){.priority = rule->delivery.priority,
                             .type = rule->delivery.type,
                             .operation = operation,
                             .backoff = rule->delivery.backoff,
                             .emitter = {rule->emitter, strlen(rule->emitter)},
                             .source = {source, strlen(source)},
                             .topic = {plan->topic.bytes, plan->topic.len},
                             .audience = {rule->audience, strlen(rule->audience)},
                             .ack_required = (flags & FRAME_ACK_REQUIRED) != 0,
                             .retry_enabled = (flags & FRAME_RETRY_ENABLED) != 0,
                             .retry_limit = rule->delivery.retry_limit};
}

/* Renders the text between id and emitter, for rules with an emitter column. */
static void
plan_metadata_start(struct decoder *decoder, struct plan *plan, const char *source)
{
    struct envelope envelope = plan_envelope(plan, source, FRAME_OPERATION_CREATE);
    StringInfoData front;

    initStringInfo(&front);
    if (plan->emitter_state != TARGET_NONE) {
        encode_literal(&front, "\"");
        encode_envelope(&decoder->settings, &front, &envelope, ENVELOPE_PRIORITY, ENVELOPE_TYPE);
        encode_literal(&front, ENVELOPE_EMITTER_TEXT);
    }
    plan->metadata_start = fragment_of(&front);
}

static void
plan_metadata(struct decoder *decoder, struct plan *plan, const char *source)
{
    for (int operation = 0; operation < FRAME_OPERATION_NOTIFY; operation++) {
        struct envelope envelope = plan_envelope(plan, source, operation);
        StringInfoData head;

        initStringInfo(&head);
        if (plan->emitter_state == TARGET_NONE) {
            encode_literal(&head, "\"");
            encode_envelope(&decoder->settings, &head, &envelope, ENVELOPE_PRIORITY,
                            ENVELOPE_EMITTER);
        }
        encode_envelope(&decoder->settings, &head, &envelope, ENVELOPE_SOURCE, ENVELOPE_OPERATION);
        encode_literal(&head, ENVELOPE_TIMESTAMP_TEXT "\"");
        plan->metadata[operation] = fragment_of(&head);
    }
}

static void
plan_routing(struct decoder *decoder, struct plan *plan)
{
    struct envelope envelope = plan_envelope(plan, "", FRAME_OPERATION_CREATE);
    StringInfoData text;

    initStringInfo(&text);
    encode_literal(&text, "}"); /* closes the payload */
    encode_envelope(&decoder->settings, &text, &envelope, ENVELOPE_AUDIENCE, ENVELOPE_TARGETS);
    plan->routing = fragment_of(&text);
    initStringInfo(&text);
    encode_envelope(&decoder->settings, &text, &envelope, ENVELOPE_ACK_REQUIRED, ENVELOPE_END);
    plan->retry = fragment_of(&text);
}

void
plan_render_texts(struct decoder *decoder, struct plan *plan)
{
    const char *source;

    plan_topic(decoder, plan, plan->source_plan->name);
    plan_rule_name(plan);
    source = utf8_name(plan->source_plan->name);
    plan->source = (struct fragment){source, strlen(source)};
    plan_metadata_start(decoder, plan, source);
    plan_metadata(decoder, plan, source);
    plan_routing(decoder, plan);
    plan->has_texts = true;
}

void
plan_name(struct plan *plan, const struct rule *rule, struct source *source)
{
    plan->rule = rule;
    plan->source_plan = source;
    plan->account = source->account;
    plan->label = psprintf("rule \"%s\" on \"%s\"", rule->name, source->name);
    plan->seed = hash_bytes_extended((const unsigned char *)rule->name, strlen(rule->name),
                                     (uint64)rule->relid);
    plan->mark = palloc0(sizeof(*plan->mark));
}

void
plan_row(struct plan *plan, const struct source *source)
{
    plan_columns(plan, source);
    plan_targets(plan, source);
    plan_bind_rule(plan, plan->rule);
    plan_emitter(plan, source);
    plan_web_push(plan, source);
}

void
plan_live(struct decoder *decoder, struct plan *plan, const struct rule *rule, Relation relation)
{
    struct source *source = palloc0(sizeof(*source));

    source->relid = RelationGetRelid(relation);
    source->name = rule_source(get_namespace_name(RelationGetNamespace(relation)),
                               RelationGetRelationName(relation));
    source->context = CurrentMemoryContext;
    (void)source_columns(decoder, source, relation, relation, NULL, NULL, NULL);
    plan_name(plan, rule, source);
    plan_row(plan, source);
    if (rule->only_when != NULL)
        plan->condition =
            condition_new(decoder->sandbox, rule, source->map, source->natts, relation,
                          condition_row_new(relation),
                          account_of(decoder->accounts, relation->rd_rel->relowner), NULL);
}

/* The common parts of a plan's notifications in a spool. */

/* The order of the strings. */
enum piece {
    PIECE_AUDIENCE = FRAME_OPERATION_NOTIFY, /* after metadata, one for each operation */
    PIECE_TOPIC,
    PIECE_FRONT,
    PIECE_ROUTING,
    PIECE_RETRY,
    PIECE_RULE_NAME,
    PIECE_COUNT
};

struct stored_plan {
    uint64 seed;
    Interval ttl;
    uint32 sub;
    int target_count;
    int lengths[PIECE_COUNT];
    struct delivery delivery;
    Oid limited_owner;
    bool live;
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
                                 .delivery = rule->delivery,
                                 .limited_owner = plan_limited_owner(plan),
                                 .live = rule->live,
                                 .has_ttl = rule->ttl != NULL};
    struct fragment pieces[PIECE_COUNT] = {
        [PIECE_AUDIENCE] = {rule->audience, strlen(rule->audience)},
        [PIECE_TOPIC] = plan->topic,
        [PIECE_FRONT] = plan->metadata_start,
        [PIECE_ROUTING] = plan->routing,
        [PIECE_RETRY] = plan->retry,
        [PIECE_RULE_NAME] = plan->rule_name};

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
    rule->delivery = stored.delivery;
    rule->live = stored.live;
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
    plan->rule_name = pieces[PIECE_RULE_NAME];
    return plan;
}
