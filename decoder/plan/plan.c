/* plan.c: prepare the rules of a relation: columns, encoders, and all constant JSON. */
#include "plan/plan.h"

#include "access/sysattr.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/relcache.h"

#include "condition/condition.h"
#include "condition/sandbox.h"
#include "decoder.h"
#include "encode/envelope_json.h"
#include "output/warning_throttle.h"
#include "rules/inheritance.h"

/* A relation with rules: the decoded relation or an ancestor. */
struct source {
    Oid relid;
    Relation relation;
    char *schema;
    int *map; /* from its attribute number - 1 to an index in the decoded relation; -1: none */
};

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

static void
source_open(struct source *source, Oid relid, Relation decoded)
{
    TupleDesc desc;

    source->relid = relid;
    source->relation = RelationIdGetRelation(relid);
    if (!RelationIsValid(source->relation))
        elog(ERROR, "could not open relation with OID %u", relid);
    source->schema = get_namespace_name(RelationGetNamespace(source->relation));
    desc = RelationGetDescr(source->relation);
    source->map = palloc(sizeof(int) * Max(desc->natts, 1));
    for (int i = 0; i < desc->natts; i++) {
        Form_pg_attribute attribute = TupleDescAttr(desc, i);

        if (!plan_can_read(attribute))
            source->map[i] = -1;
        else if (relid == RelationGetRelid(decoded))
            source->map[i] = i;
        else
            source->map[i] = find_attribute(RelationGetDescr(decoded), NameStr(attribute->attname));
    }
}

static bool
rule_includes(const struct rule *rule, int attribute_number)
{
    if (rule->column_count < 0)
        return true;
    for (int i = 0; i < rule->column_count; i++)
        if (rule->columns[i] == attribute_number)
            return true;
    return false;
}

static void
plan_columns(struct decoder *decoder, struct plan *plan, const struct source *source,
             TupleDesc decoded, const Bitmapset *key)
{
    TupleDesc desc = RelationGetDescr(source->relation);

    plan->columns = palloc0(sizeof(struct column) * Max(desc->natts, 1));
    for (int i = 0; i < desc->natts; i++) {
        struct column *column = &plan->columns[plan->column_count];
        Form_pg_attribute attribute;

        if (source->map[i] < 0 || !rule_includes(plan->rule, i + 1))
            continue;
        attribute = TupleDescAttr(decoded, source->map[i]);
        column->index = source->map[i];
        column->is_key = bms_is_member(attribute->attnum - FirstLowInvalidHeapAttributeNumber, key);
        column->name.bytes =
            encode_name(&decoder->settings, NameStr(attribute->attname), &column->name.len);
        column->typlen = attribute->attlen;
        column->typbyval = attribute->attbyval;
        column->encoder = encode_new(&decoder->settings, attribute->atttypid);
        plan->column_count++;
    }
}

/* Looks inside domains and arrays too, as clairon.target_column does. */
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
bind_column(struct decoder *decoder, const struct source *source, TupleDesc decoded,
            const Bitmapset *key, int number, struct bound_column *ret_column)
{
    Form_pg_attribute attribute;

    if (number > RelationGetDescr(source->relation)->natts || source->map[number - 1] < 0)
        return TARGET_DROPPED;
    attribute = TupleDescAttr(decoded, source->map[number - 1]);
    ret_column->index = source->map[number - 1];
    ret_column->is_key = bms_is_member(attribute->attnum - FirstLowInvalidHeapAttributeNumber, key);
    ret_column->encoder = encode_new(&decoder->settings, attribute->atttypid);
    return contains_json(attribute->atttypid) ? TARGET_JSON : TARGET_COLUMNS;
}

static struct fragment
constant_part(const struct rule *rule, int nth)
{
    if (nth >= rule->literal.count)
        return (struct fragment){"", 0}; /* not created by clairon.watch */
    return (struct fragment){rule->literal.texts[nth], rule->literal.lengths[nth]};
}

static void
plan_targets(struct decoder *decoder, struct plan *plan, const struct source *source,
             TupleDesc decoded, const Bitmapset *key)
{
    const struct rule *rule = plan->rule;
    const int16 *numbers = rule->part_count > 0 ? rule->target_columns : &rule->target_column;
    int constants = 0;

    plan->target_state = TARGET_NONE;
    if (rule->part_count == 0 && rule->target_column == 0)
        return;
    plan->target_state = TARGET_COLUMNS;
    plan->part_count = Max(rule->part_count, 1);
    for (int i = 0; i < plan->part_count && plan->target_state == TARGET_COLUMNS; i++) {
        struct target_part *part = &plan->parts[i];

        part->column.index = TARGET_NONE;
        if (numbers[i] == 0)
            part->constant = constant_part(rule, constants++);
        else
            plan->target_state =
                bind_column(decoder, source, decoded, key, numbers[i], &part->column);
    }
}

/* All types are allowed: a value that cannot be output is replaced. */
static void
plan_emitter(struct decoder *decoder, struct plan *plan, const struct source *source,
             TupleDesc decoded, const Bitmapset *key)
{
    plan->emitter_state = TARGET_NONE;
    if (plan->rule->emitter_column == 0)
        return;
    plan->emitter_state =
        bind_column(decoder, source, decoded, key, plan->rule->emitter_column, &plan->emitter);
    if (plan->emitter_state == TARGET_JSON)
        plan->emitter_state = TARGET_COLUMNS;
}

/* Copies to the exact size, since plans are long-lived. */
static struct fragment
fragment_of(StringInfo text)
{
    struct fragment fragment = {.bytes = pnstrdup(text->data, text->len), .len = text->len};

    pfree(text->data);
    return fragment;
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
        plan->topic = (struct fragment){plan->rule->topic, strlen(plan->rule->topic)};
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
plan_live_rule(struct plan *plan)
{
    const char *name = plan->rule->live ? utf8_name(plan->rule->name) : "";
    size_t len = strlen(name);

    plan->live_rule = (struct fragment){name, len > LIMIT_RULE ? 0 : len};
}

/* The envelope fields that are the same for all rows of the plan. */
static struct envelope
plan_envelope(const struct plan *plan, const char *source, enum frame_operation operation)
{
    const struct rule *rule = plan->rule;
    uint16 flags = rule_flags(rule);

    return (struct envelope){.priority = rule->priority,
                             .type = rule->type,
                             .operation = operation,
                             .backoff = rule->backoff,
                             .emitter = {rule->emitter, strlen(rule->emitter)},
                             .source = {source, strlen(source)},
                             .topic = {plan->topic.bytes, plan->topic.len},
                             .audience = {rule->audience, strlen(rule->audience)},
                             .ack_required = (flags & FRAME_ACK_REQUIRED) != 0,
                             .retry_enabled = (flags & FRAME_RETRY_ENABLED) != 0,
                             .retry_limit = rule->retry_limit};
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

static bool
has_condition_of(const struct relation_entry *entry, Oid owner)
{
    for (int i = 0; i < entry->plan_count; i++)
        if (entry->plans[i].condition != NULL &&
            condition_owner(entry->plans[i].condition) == owner)
            return true;
    return false;
}

bool
plan_release(struct decoder *decoder, const struct relation_entry *except, Oid owner)
{
    HASH_SEQ_STATUS sequence;
    struct relation_entry *entry;
    bool found = false;

    hash_seq_init(&sequence, decoder->relations);
    while ((entry = hash_seq_search(&sequence)) != NULL) {
        if (entry == except || !has_condition_of(entry, owner))
            continue;
        entry->valid = false;
        entry->plan_count = 0;
        MemoryContextReset(entry->context);
        found = true;
    }
    return found;
}

/*
 * When the owner's conditions exceed their memory limit, conditions of other relations are freed.
 */
static struct condition *
plan_condition(struct decoder *decoder, const struct relation_entry *entry, const struct rule *rule,
               Relation source, const int *map, Relation decoded)
{
    Oid owner = source->rd_rel->relowner;
    int natts = RelationGetDescr(source)->natts;
    struct condition *condition;

    do {
        condition = condition_new(decoder->sandbox, rule, map, natts, decoded, owner);
    } while (sandbox_over_budget_owner(decoder->sandbox) == owner &&
             plan_release(decoder, entry, owner));
    return condition;
}

static const char *
name_of_source(const struct source *source)
{
    return rule_source(source->schema, RelationGetRelationName(source->relation));
}

/* Prepares the members that do not depend on the options of a slot, except the condition. */
static void
plan_row(struct decoder *decoder, struct plan *plan, const struct rule *rule,
         const struct source *source, TupleDesc decoded, const Bitmapset *key)
{
    plan->rule = rule;
    plan->label = psprintf("rule \"%s\" on \"%s\"", rule->name, name_of_source(source));
    plan->seed = hash_bytes_extended((const unsigned char *)rule->name, strlen(rule->name),
                                     (uint64)rule->relid);
    plan_columns(decoder, plan, source, decoded, key);
    plan_targets(decoder, plan, source, decoded, key);
    plan_emitter(decoder, plan, source, decoded, key);
}

static void
plan_rule(struct decoder *decoder, struct relation_entry *entry, const struct rule *rule,
          const struct source *source, Relation decoded, const Bitmapset *key)
{
    struct plan *plan = &entry->plans[entry->plan_count];
    const char *name = name_of_source(source);
    const char *source_name;

    plan->mark = palloc0(sizeof(*plan->mark));
    plan_row(decoder, plan, rule, source, RelationGetDescr(decoded), key);
    if (rule->only_when != NULL)
        plan->condition =
            plan_condition(decoder, entry, rule, source->relation, source->map, decoded);
    plan_topic(decoder, plan, name);
    plan_live_rule(plan);
    source_name = utf8_name(name);
    plan->source = (struct fragment){source_name, strlen(source_name)};
    plan_metadata_start(decoder, plan, source_name);
    plan_metadata(decoder, plan, source_name);
    plan_routing(decoder, plan);
    entry->plan_count++;
}

void
plan_live(struct decoder *decoder, struct plan *plan, const struct rule *rule, Relation relation)
{
    struct source source;

    source_open(&source, RelationGetRelid(relation), relation);
    plan_row(decoder, plan, rule, &source, RelationGetDescr(relation), NULL);
    if (rule->only_when != NULL)
        plan->condition =
            condition_new(decoder->sandbox, rule, source.map, RelationGetDescr(relation)->natts,
                          relation, relation->rd_rel->relowner);
    RelationClose(source.relation);
}

/*
 * Patterns match a partition by its name or by an ancestor's name, and a child table by its name.
 */
static int
count_names(const struct source *sources, int count)
{
    return sources[0].relation->rd_rel->relispartition ? count : 1;
}

/*
 * Returns the source of the ad hoc rule: the relation, else the first ancestor that matches; -1: no
 * match. The WAL also contains changes of materialized views, which are not watched.
 */
static int
match_ad_hoc(const struct options *options, const struct source *sources, int count)
{
    if (sources[0].relation->rd_rel->relkind == RELKIND_MATVIEW)
        return -1;
    for (int i = 0; i < count; i++)
        if (options_match(options->include_tables, sources[i].schema,
                          RelationGetRelationName(sources[i].relation)))
            return i;
    return -1;
}

static bool
is_excluded(const struct options *options, const struct source *sources, int count)
{
    for (int i = 0; i < count; i++)
        if (options_match(options->exclude_tables, sources[i].schema,
                          RelationGetRelationName(sources[i].relation)))
            return true;
    return false;
}

static int
count_rules(const List *rules, const struct source *sources, int count)
{
    ListCell *cell;
    int found = 0;

    foreach (cell, rules)
        for (int i = 0; i < count; i++)
            found += ((struct rule *)lfirst(cell))->relid == sources[i].relid;
    return found;
}

static void
plan_sources(struct decoder *decoder, struct relation_entry *entry, const struct source *sources,
             int count, Relation decoded)
{
    List *rules = decoder->rules->rules;
    const Bitmapset *key = RelationGetIdentityKeyBitmap(decoded);
    int names = count_names(sources, count);
    int ad_hoc = match_ad_hoc(&decoder->options, sources, names);
    uint32 sub = 0;
    ListCell *cell;

    entry->has_key = key != NULL;
    if (is_excluded(&decoder->options, sources, names))
        return;
    entry->plans = palloc0(sizeof(struct plan) * (count_rules(rules, sources, count) + 1));
    if (ad_hoc >= 0)
        plan_rule(decoder, entry, rules_ad_hoc(), &sources[ad_hoc], decoded, key);
    foreach (cell, rules) {
        const struct rule *rule = lfirst(cell);

        for (int i = 0; i < count; i++) {
            if (rule->relid != sources[i].relid)
                continue;
            sub += SUBS_PER_RULE;
            if (sub > FRAME_SUB_MAX) {
                warning_count(decoder, 0, "rules",
                              "ignored: more than 16383 rules on a table and its ancestors");
                return;
            }
            if (is_excluded(&decoder->options, &sources[i], 1))
                continue;
            entry->plans[entry->plan_count].sub = sub;
            plan_rule(decoder, entry, rule, &sources[i], decoded, key);
        }
    }
}

static void
plan_images(struct relation_entry *entry, TupleDesc desc)
{
    int natts = Max(desc->natts, 1);

    entry->old.values = palloc(sizeof(Datum) * natts);
    entry->old.nulls = palloc(sizeof(bool) * natts);
    entry->new.values = palloc(sizeof(Datum) * natts);
    entry->new.nulls = palloc(sizeof(bool) * natts);
}

/*
 * True when a rule or a pattern may apply to the relation. This check is cheap, because most
 * relations have no rule.
 */
static bool
has_rules(struct decoder *decoder, const List *relids)
{
    ListCell *cell;

    if (decoder->options.include_tables != NIL)
        return true;
    foreach (cell, decoder->rules->rules)
        if (list_member_oid(relids, ((struct rule *)lfirst(cell))->relid))
            return true;
    return false;
}

static const char *const member_columns[MEMBER_FIELDS] = {"audience", "target", "user_id"};

static void
plan_member(struct decoder *decoder, struct relation_entry *entry, Relation relation)
{
    TupleDesc desc = RelationGetDescr(relation);

    entry->has_key = RelationGetIdentityKeyBitmap(relation) != NULL;
    for (int field = 0; field < MEMBER_FIELDS; field++) {
        entry->members[field].index = -1;
        for (int i = 0; i < desc->natts; i++)
            if (strcmp(NameStr(TupleDescAttr(desc, i)->attname), member_columns[field]) == 0 &&
                TupleDescAttr(desc, i)->atttypid == TEXTOID)
                entry->members[field].index = i;
        entry->members[field].encoder = encode_new(&decoder->settings, TEXTOID);
    }
}

void
plan_relation(struct decoder *decoder, struct relation_entry *entry, Relation relation)
{
    MemoryContext old = MemoryContextSwitchTo(entry->context);
    List *relids = list_make1_oid(RelationGetRelid(relation));
    struct source *sources;
    ListCell *cell;
    int count = 0;

    entry->plan_count = 0;
    entry->kind = RELATION_ORDINARY;
    relids = list_concat(relids, ancestors_of(RelationGetRelid(relation)));
    entry->has_ancestors = list_length(relids) > 1;
    if (RelationGetNamespace(relation) == decoder->rules->schema) {
        if (RelationGetRelid(relation) == decoder->rules->member && decoder->options.framed) {
            entry->kind = RELATION_MEMBER;
            plan_images(entry, RelationGetDescr(relation));
            plan_member(decoder, entry, relation);
        }
    } else if (has_rules(decoder, relids)) {
        sources = palloc0(sizeof(*sources) * list_length(relids));
        foreach (cell, relids)
            source_open(&sources[count++], lfirst_oid(cell), relation);
        plan_images(entry, RelationGetDescr(relation));
        plan_sources(decoder, entry, sources, count, relation);
        for (int i = 0; i < count; i++)
            RelationClose(sources[i].relation);
    }
    MemoryContextSwitchTo(old);
}
