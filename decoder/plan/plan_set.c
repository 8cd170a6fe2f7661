/* plan_set.c: plans of relations that are alike: found by a digest, shared, limited, evicted. */
#include "plan/plan.h"

#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/relcache.h"

#include "base/sandbox.h"
#include "decoder.h"
#include "output/output.h"
#include "rules/condition.h"
#include "rules/objects.h"
#include "rules/rules.h"

/* A source while its rules are prepared. */
struct open_source {
    Oid relid;
    Relation relation;
    const char *schema;
    bool has_rules;
    bool is_unread; /* its rules may have changed, and the owner has no time to read them */
};

/* A rule that applies to the relation, and its source. */
struct applied_rule {
    const struct rule *rule;
    int source;
    uint32 sub;
};

/* The preparation of a relation. */
struct planning {
    struct decoder *decoder;
    Relation relation;
    int source_count;
    struct open_source *sources;
    int rule_count;
    struct applied_rule *rules;
    bool is_ad_hoc; /* the first rule is that of include_tables */
    bool is_unread; /* the rules of a source are unread */
};

/* An estimate of the texts of a plan, apart from strings that are known. */
#define TEXTS_BYTES 2048

/* Drops other sets of the owner until there is memory. Returns false if that is not enough. */
static bool
make_room(struct decoder *decoder, const struct plan_set *set, const struct account *account,
          Size more)
{
    while (account->memory_bytes + (int64)more > decoder->accounts->limits.memory_bytes)
        if (!plan_release(decoder, set, account))
            return false;
    return true;
}

bool
plan_texts(struct decoder *decoder, struct plan_set *set, struct plan *plan)
{
    const struct rule *rule = plan->rule;
    MemoryContext old;

    if (plan->has_texts)
        return true;
    if (!make_room(decoder, set, set->account,
                   TEXTS_BYTES + 4 * (strlen(rule->emitter) +
                                      (rule->topic == NULL ? 0 : strlen(rule->topic)))))
        return false;
    old = MemoryContextSwitchTo(set->context);
    plan_render_texts(decoder, plan);
    MemoryContextSwitchTo(old);
    (void)sandbox_recount(set->kept);
    return true;
}

static bool
condition_is_valid(const struct decoder *decoder, const struct plan *plan)
{
    enum account_kind kind;

    if (plan->condition == NULL)
        return false;
    if (condition_is_lasting(plan->condition))
        return true;
    /* Without time nothing was tried. */
    return plan->condition_number == decoder->catalog_number &&
           !(condition_is_over(plan->condition, &kind) && kind == ACCOUNT_TIME);
}

/*
 * New objects of a condition are known after it was prepared. If there were invalidations
 * meanwhile, it may be older than its objects, so it is prepared again.
 *
 * When the owner's conditions and plans exceed the memory of its account, those of other relations
 * are freed.
 */
bool
plan_condition(struct decoder *decoder, struct plan_set *set, struct plan *plan, Relation decoded,
               enum account_kind *ret_kind)
{
    const struct source *source = plan->source_plan;
    uint64 number;
    long known;
    MemoryContext old;

    if (condition_is_valid(decoder, plan))
        return !condition_is_over(plan->condition, ret_kind);
    old = MemoryContextSwitchTo(set->context);
    if (set->row == NULL)
        set->row = condition_row_new(decoded);
    do {
        if (plan->condition != NULL)
            condition_free(plan->condition);
        plan->condition = NULL;
        number = decoder->catalog_number;
        known = objects_count(set->objects);
        plan->condition = condition_new(decoder->sandbox, plan->rule, source->map, source->natts,
                                        decoded, set->row, plan->account, set->objects);
        (void)sandbox_recount(set->objects_kept);
    } while ((sandbox_over_budget_owner(decoder->sandbox) == plan->account->owner &&
              plan_release(decoder, set, plan->account)) ||
             (number != decoder->catalog_number && objects_count(set->objects) != known));
    plan->condition_number = number;
    MemoryContextSwitchTo(old);
    return !condition_is_over(plan->condition, ret_kind);
}

/*
 * Patterns match a partition by its name or by an ancestor's name, and a child table by its name.
 */
static int
count_names(const struct planning *planning)
{
    return planning->relation->rd_rel->relispartition ? planning->source_count : 1;
}

/* As of the change: the catalogs are read with its snapshot. */
static bool
may_select(const struct planning *planning, Relation relation)
{
    if (pg_class_aclcheck(RelationGetRelid(relation), GetUserId(), ACL_SELECT) == ACLCHECK_OK)
        return true;
    warning_count(planning->decoder, 0, "include_tables",
                  "not shown: the role of the connection may not SELECT from the table");
    return false;
}

/*
 * Returns the source of the ad hoc rule: the relation, else the first ancestor that matches and may
 * be read; -1: none. Materialized views and clairon's own tables have none.
 */
static int
match_ad_hoc(const struct planning *planning)
{
    const struct options *options = &planning->decoder->options;

    if (planning->relation->rd_rel->relkind == RELKIND_MATVIEW ||
        RelationGetNamespace(planning->relation) == planning->decoder->rules->schema)
        return -1;
    for (int i = 0; i < count_names(planning); i++)
        if (options_match(options->include_tables, planning->sources[i].schema,
                          RelationGetRelationName(planning->sources[i].relation)) &&
            may_select(planning, planning->sources[i].relation))
            return i;
    return -1;
}

static bool
is_excluded(const struct planning *planning, int first, int count)
{
    for (int i = first; i < first + count; i++)
        if (options_match(planning->decoder->options.exclude_tables, planning->sources[i].schema,
                          RelationGetRelationName(planning->sources[i].relation)))
            return true;
    return false;
}

static void
apply_rule_of(struct planning *planning, const struct rule *rule, int source, uint32 sub)
{
    planning->sources[source].has_rules = true;
    planning->rules[planning->rule_count++] = (struct applied_rule){rule, source, sub};
}

/* A rule that applies to the source. */
struct source_rule {
    const struct rule *rule;
    int source;
};

/* Sorts by name, then relation. */
static int
compare_source_rules(const void *a, const void *b)
{
    const struct rule *left = ((const struct source_rule *)a)->rule;
    const struct rule *right = ((const struct source_rule *)b)->rule;
    int order = strcmp(left->name, right->name);

    return order != 0 ? order : (left->relid > right->relid) - (left->relid < right->relid);
}

/*
 * A rule instead of unread ones comes first: the set belongs to the account that lacks time.
 */
static struct source_rule *
collect_rules(const struct planning *planning, int *ret_count)
{
    const struct rule_set *set = planning->decoder->rules;
    struct source_rule *rules;
    int room = 0;
    int count = 0;
    ListCell *cell;

    for (int i = 0; i < planning->source_count; i++) {
        const struct relation_rules *of_source = rules_of(set, planning->sources[i].relid);

        room += 1 + (of_source == NULL ? 0 : list_length(of_source->rules));
    }
    rules = palloc(sizeof(*rules) * (Size)room);
    for (int i = 0; i < planning->source_count; i++)
        if (planning->sources[i].is_unread)
            rules[count++] = (struct source_rule){rules_unread(planning->sources[i].relid), i};
    *ret_count = count;
    for (int i = 0; i < planning->source_count; i++) {
        const struct relation_rules *of_source = rules_of(set, planning->sources[i].relid);

        if (of_source == NULL || planning->sources[i].is_unread)
            continue;
        foreach (cell, of_source->rules)
            rules[(*ret_count)++] = (struct source_rule){lfirst(cell), i};
    }
    qsort(rules + count, *ret_count - count, sizeof(*rules), compare_source_rules);
    return rules;
}

/* Lists the rules that apply, with their sub-ordinals. */
static void
list_rules(struct planning *planning)
{
    int ad_hoc = match_ad_hoc(planning);
    struct source_rule *rules;
    uint32 sub = 0;
    int count;

    if (is_excluded(planning, 0, count_names(planning)))
        return;
    rules = collect_rules(planning, &count);
    planning->rules = palloc(sizeof(struct applied_rule) * (count + (Size)1));
    planning->is_ad_hoc = ad_hoc >= 0 && !planning->is_unread;
    if (planning->is_ad_hoc)
        apply_rule_of(planning, rules_ad_hoc(), ad_hoc, 0);
    for (int i = 0; i < count; i++) {
        sub += SUBS_PER_RULE;
        if (sub > FRAME_SUB_MAX) {
            warning_count(planning->decoder, 0, "rules",
                          "ignored: more than 16383 rules on a table and its ancestors");
            return;
        }
        if (!is_excluded(planning, rules[i].source, 1))
            apply_rule_of(planning, rules[i].rule, rules[i].source, sub);
    }
}

static void
digest_columns(struct digest *digest, TupleDesc desc)
{
    StringInfoData text;

    initStringInfo(&text);
    for (int i = 0; i < desc->natts; i++) {
        Form_pg_attribute attribute = TupleDescAttr(desc, i);
        const struct {
            Oid type;
            Oid collation;
            int32 typmod;
            int16 len;
            bool byval;
            bool readable;
        } column = {.type = attribute->atttypid,
                    .collation = attribute->attcollation,
                    .typmod = attribute->atttypmod,
                    .len = attribute->attlen,
                    .byval = attribute->attbyval,
                    .readable = plan_can_read(attribute)};

        appendBinaryStringInfo(&text, (const char *)&column, sizeof(column));
        appendBinaryStringInfo(&text, NameStr(attribute->attname),
                               strlen(NameStr(attribute->attname)) + 1);
    }
    digest_add(digest, text.data, text.len);
    digest_add_value(digest, desc->natts);
    pfree(text.data);
}

/* Covers all input of the plans of plan_set_new, except their objects. */
static struct digest
digest_of(const struct planning *planning)
{
    struct digest digest = {{0, 0}};
    const Bitmapset *key = RelationGetIdentityKeyBitmap(planning->relation);
    int member = -1;

    digest_add_value(&digest, planning->is_ad_hoc);
    digest_columns(&digest, RelationGetDescr(planning->relation));
    while ((member = bms_next_member(key, member)) >= 0)
        digest_add_value(&digest, member);
    for (int i = 0; i < planning->source_count; i++) {
        const struct open_source *source = &planning->sources[i];

        if (!source->has_rules)
            continue;
        digest_add_value(&digest, i);
        digest_add_value(&digest, source->relid);
        digest_add_value(&digest, source->relation->rd_rel->relowner);
        digest_add(&digest, source->schema, strlen(source->schema));
        digest_add(&digest, RelationGetRelationName(source->relation),
                   strlen(RelationGetRelationName(source->relation)));
        if (source->relation != planning->relation)
            digest_columns(&digest, RelationGetDescr(source->relation));
    }
    for (int i = 0; i < planning->rule_count; i++) {
        const struct applied_rule *applied = &planning->rules[i];

        digest_add_value(&digest, applied->rule->digest);
        digest_add_value(&digest, applied->source);
        digest_add_value(&digest, applied->sub);
    }
    return digest;
}

static void
plan_images(struct plan_set *set, TupleDesc desc)
{
    int natts = Max(desc->natts, 1);

    set->old.values = palloc(sizeof(Datum) * natts);
    set->old.nulls = palloc(sizeof(bool) * natts);
    set->new.values = palloc(sizeof(Datum) * natts);
    set->new.nulls = palloc(sizeof(bool) * natts);
}

/* Counts what the denial of all plans together needs. */
static void
count_plan(struct plan_set *set, const struct plan *plan)
{
    set->has_one_owner &= plan->account == set->account;
    set->has_live_rules |= plan->rule->live;
    for (int operation = 0; operation < (int)lengthof(set->applied); operation++)
        set->applied[operation] += plan_applies(plan, operation);
}

/* An estimate of the memory of a column of a source. */
#define COLUMN_BYTES (sizeof(struct column) + sizeof(int) + 64)

/* The CPU time for the encoders of a source: the account is charged only afterwards. */
#define ENCODERS_US_MAX (250 * 1000)

/* The encoders of a source while they are prepared. */
struct encoders_room {
    struct decoder *decoder;
    const struct plan_set *set;
    struct source *source;
    struct tracked_memory *kept;
    int64 until_us; /* of CPU time */
};

static bool
has_encoders_room(void *arg, Size more)
{
    const struct encoders_room *room = arg;
    struct source *source = room->source;

    (void)sandbox_recount(room->kept);
    source->denied = account_cpu_us() > room->until_us && !source->account->is_trusted
                         ? ACCOUNT_TIME
                         : ACCOUNT_MEMORY;
    source->is_denied = source->denied == ACCOUNT_TIME ||
                        !make_room(room->decoder, room->set, source->account, more);
    return !source->is_denied;
}

/* Frees encoders that do not fit, since the set remains until the next catalog state. */
static void
prepare_source(struct decoder *decoder, struct plan_set *set, struct source *source,
               Relation relation, Relation decoded)
{
    struct encoders_room room = {.decoder = decoder, .set = set, .source = source};
    const uint64 number = decoder->catalog_number;
    TupleDesc desc = RelationGetDescr(decoded);
    long known;
    MemoryContext encoders;
    MemoryContext old;

    source->denied = ACCOUNT_MEMORY;
    source->is_denied =
        !make_room(decoder, set, source->account, RelationGetDescr(relation)->natts * COLUMN_BYTES);
    if (source->is_denied)
        return;
    for (int i = 0; i < desc->natts; i++)
        objects_add_type(set->objects, TupleDescAttr(desc, i)->atttypid);
    known = objects_count(set->objects);
    encoders = AllocSetContextCreate(set->context, "clairon encoders", ALLOCSET_SMALL_SIZES);
    room.kept = sandbox_track(decoder->sandbox, source->account, encoders, true);
    room.until_us = account_cpu_us() + ENCODERS_US_MAX;
    old = MemoryContextSwitchTo(encoders);
    if (source_columns(decoder, source, relation, decoded, RelationGetIdentityKeyBitmap(decoded),
                       has_encoders_room, &room)) {
        (void)sandbox_recount(room.kept);
        objects_add_encoders(set->objects, source->encoders);
        (void)sandbox_recount(set->objects_kept);
        /* The encoders of the members of row types may be older than these objects. */
        if (number != decoder->catalog_number && objects_count(set->objects) != known)
            objects_outdate(set->objects);
    }
    MemoryContextSwitchTo(old);
    if (source->is_denied)
        MemoryContextDelete(encoders);
}

static void
plan_set_rules(struct plan_set *set, struct planning *planning)
{
    struct decoder *decoder = planning->decoder;

    set->has_key = RelationGetIdentityKeyBitmap(planning->relation) != NULL;
    set->has_one_owner = true;
    set->plans = palloc0(sizeof(struct plan) * planning->rule_count);
    for (int i = 0; i < planning->rule_count; i++) {
        const struct applied_rule *applied = &planning->rules[i];
        const struct open_source *open = &planning->sources[applied->source];
        struct source *source = &set->sources[applied->source];
        struct plan *plan = &set->plans[set->plan_count++];
        const struct rule *rule = applied->rule;

        if (planning->is_ad_hoc && i == 0)
            rule = rules_ad_hoc();
        else if (rule->is_unread)
            rule = rules_unread(rule->relid);
        plan_name(plan, rule, source);
        plan->sub = applied->sub;
        count_plan(set, plan);
        if (set->lacks_time) {
            plan->is_denied = true;
            plan->denied = ACCOUNT_TIME;
            continue;
        }
        if (source->columns == NULL && !source->is_denied)
            prepare_source(decoder, set, source, open->relation, planning->relation);
        if (source->is_denied) {
            plan->is_denied = true;
            plan->denied = source->denied;
            continue;
        }
        plan_row(plan, source);
        (void)sandbox_recount(set->kept);
    }
}

static void
plan_set_sources(struct plan_set *set, const struct planning *planning)
{
    set->source_count = planning->source_count;
    set->sources = palloc0(sizeof(struct source) * planning->source_count);
    for (int i = 0; i < planning->source_count; i++) {
        const struct open_source *open = &planning->sources[i];
        struct source *source = &set->sources[i];

        source->relid = open->relid;
        source->context = set->context;
        if (!open->has_rules)
            continue;
        source->name = rule_source(pstrdup(open->schema), RelationGetRelationName(open->relation));
        source->name = pstrdup(source->name);
        source->account = account_of(planning->decoder->accounts, open->relation->rd_rel->relowner);
        account_refresh(source->account);
    }
}

static struct plan_set *
plan_set_new(struct decoder *decoder)
{
    MemoryContext context =
        AllocSetContextCreate(decoder->context, "clairon plans", ALLOCSET_SMALL_SIZES);
    struct plan_set *set = MemoryContextAllocZero(context, sizeof(*set));

    set->context = context;
    set->bound = decoder->catalog_number;
    dlist_push_head(&decoder->plan_sets_used, &set->used);
    return set;
}

static void
plan_set_delete(struct decoder *decoder, struct plan_set *set)
{
    if (set->is_kept)
        (void)hash_search(decoder->plan_sets, &set->digest, HASH_REMOVE, NULL);
    dlist_delete(&set->used);
    MemoryContextDelete(set->context);
}

void
plan_set_release(struct decoder *decoder, struct plan_set *set)
{
    if (--set->entry_count == 0)
        plan_set_delete(decoder, set);
}

bool
plan_release(struct decoder *decoder, const struct plan_set *except, const struct account *account)
{
    struct plan_set *found = NULL;
    HASH_SEQ_STATUS sequence;
    struct relation_entry *entry;
    dlist_iter iter;

    dlist_foreach(iter, &decoder->plan_sets_used)
    {
        struct plan_set *set = dlist_container(struct plan_set, used, iter.cur);

        if (set != except && set->account == account)
            found = set;
    }
    if (found == NULL)
        return false;
    hash_seq_init(&sequence, decoder->relations);
    while ((entry = hash_seq_search(&sequence)) != NULL)
        if (entry->set == found) {
            entry->set = NULL;
            entry->checked = 0;
        }
    plan_set_delete(decoder, found);
    return true;
}

/* Reads the rules of the set again, if they were read for another catalog state than `number`. */
static void
plan_set_bind(struct plan_set *set, const struct planning *planning, uint64 number)
{
    if (set->bound == number)
        return;
    for (int i = 0; i < set->plan_count; i++)
        if (!(planning->is_ad_hoc && i == 0))
            plan_bind_rule(&set->plans[i], planning->rules[i].rule);
    set->bound = number;
}

/* A set that lacks time or memory is prepared again at the next change. */
static bool
is_complete(const struct plan_set *set)
{
    for (int i = 0; i < set->plan_count; i++)
        if (set->plans[i].is_denied)
            return false;
    return true;
}

static bool
has_rules(const struct decoder *decoder, Oid relid)
{
    const struct relation_rules *rules = rules_of(decoder->rules, relid);

    return rules != NULL && (rules->rules != NIL || rules->is_outdated);
}

/*
 * Returns the relation and its ancestors, without patterns only those with rules; NIL: no rule and
 * no pattern may apply. The owner of the relation is charged the time, of which half remains for
 * changes: with less, known parents are not read again.
 */
static List *
list_sources(struct decoder *decoder, Relation relation)
{
    const struct options *options = &decoder->options;
    Oid relid = RelationGetRelid(relation);
    struct account *account = account_of(decoder->accounts, relation->rd_rel->relowner);
    int64 start_us = account_cpu_us();
    List *above = ancestors_of(decoder->inheritance, relid, decoder->catalog_number,
                               account_has_half_time(decoder->accounts, account));
    List *sources = list_make1_oid(relid);
    bool has_patterns = options->include_tables != NIL || options->exclude_tables != NIL;
    bool applies = options->include_tables != NIL || has_rules(decoder, relid);
    ListCell *cell;

    if (list_length(above) > ANCESTORS_MAX) {
        warning_count(decoder, 0, "rules", "ignored: more than 1000 ancestors of a table");
        above = list_truncate(above, ANCESTORS_MAX);
    }
    foreach (cell, above) {
        bool is_ruled = has_rules(decoder, lfirst_oid(cell));

        applies |= is_ruled;
        if (is_ruled || has_patterns)
            sources = lappend_oid(sources, lfirst_oid(cell));
    }
    account_charge_time(account, account_cpu_us() - start_us);
    return applies ? sources : NIL;
}

static const char *const member_columns[MEMBER_FIELDS] = {"audience", "target", "user_id"};

/* The set of clairon.member, prepared again for each catalog state. */
static struct plan_set *
plan_member(struct decoder *decoder, Relation relation)
{
    TupleDesc desc = RelationGetDescr(relation);
    struct plan_set *set = plan_set_new(decoder);
    MemoryContext old = MemoryContextSwitchTo(set->context);
    struct encoders *encoders = encoders_new(&decoder->settings, NULL, NULL);

    set->kind = RELATION_MEMBER;
    set->has_key = RelationGetIdentityKeyBitmap(relation) != NULL;
    plan_images(set, desc);
    for (int field = 0; field < MEMBER_FIELDS; field++) {
        set->members[field].index = -1;
        for (int i = 0; i < desc->natts; i++)
            if (strcmp(NameStr(TupleDescAttr(desc, i)->attname), member_columns[field]) == 0 &&
                TupleDescAttr(desc, i)->atttypid == TEXTOID)
                set->members[field].index = i;
        set->members[field].encoder = encoders_get(encoders, TEXTOID);
    }
    MemoryContextSwitchTo(old);
    return set;
}

static struct plan_set *
plan_set_build(struct planning *planning, const struct digest *digest, struct account *account)
{
    struct decoder *decoder = planning->decoder;
    struct plan_set *set = plan_set_new(decoder);
    MemoryContext old = MemoryContextSwitchTo(set->context);
    MemoryContext objects;

    account_refresh(account);
    set->lacks_time = planning->is_unread || !account_may_prepare(decoder->accounts, account);
    set->objects = objects_new(&objects);
    set->objects_kept = sandbox_track(decoder->sandbox, account, objects, true);
    set->digest = *digest;
    set->account = account;
    set->kept = sandbox_track(decoder->sandbox, account, set->context, false);
    plan_images(set, RelationGetDescr(planning->relation));
    plan_set_sources(set, planning);
    plan_set_rules(set, planning);
    MemoryContextSwitchTo(old);
    (void)sandbox_recount(set->kept);
    if (!set->lacks_time) {
        struct plan_set_entry *entry =
            hash_search(decoder->plan_sets, &set->digest, HASH_ENTER, NULL);

        entry->set = set;
        set->is_kept = true;
    }
    return set;
}

/* Returns false for a set of another catalog state that differs in this one, or lacks memory. */
static bool
is_current(const struct decoder *decoder, const struct plan_set *set)
{
    return set->bound == decoder->catalog_number ||
           (is_complete(set) && !objects_changed(set->objects));
}

/*
 * Finds the set by its digest, or prepares it. An invalidation while objects are compared begins
 * another catalog state.
 */
static struct plan_set *
plan_set_look_up(struct planning *planning, struct account *account, bool *ret_is_new)
{
    struct decoder *decoder = planning->decoder;
    const uint64 number = decoder->catalog_number;
    struct digest digest = digest_of(planning);
    struct plan_set_entry *entry = hash_search(decoder->plan_sets, &digest, HASH_FIND, NULL);
    struct plan_set *set = entry == NULL ? NULL : entry->set;

    if (set != NULL && !is_current(decoder, set)) {
        (void)hash_search(decoder->plan_sets, &digest, HASH_REMOVE, NULL);
        set->is_kept = false;
        set = NULL;
    }
    *ret_is_new = set == NULL;
    if (set == NULL)
        return plan_set_build(planning, &digest, account);
    for (int i = 0; i < set->source_count; i++)
        if (set->sources[i].account != NULL)
            account_refresh(set->sources[i].account);
    plan_set_bind(set, planning, number);
    dlist_move_head(&decoder->plan_sets_used, &set->used);
    return set;
}

/* Trusted owners prepare free of charge. */
static void
charge_preparation(struct account *account, int64 start_us, int64 free_us)
{
    int64 us = account_cpu_us() - start_us - free_us;

    if (us > 0 && !account->is_trusted)
        account_charge_time(account, us);
}

/* Reads rules that may have changed. Their owner is charged the time. */
static void
read_rules(struct planning *planning)
{
    struct decoder *decoder = planning->decoder;

    for (int i = 0; i < planning->source_count; i++) {
        struct open_source *source = &planning->sources[i];
        struct relation_rules *rules = rules_of(decoder->rules, source->relid);
        struct account *account;
        int64 start_us;

        if (rules == NULL || !rules->is_outdated)
            continue;
        account = account_of(decoder->accounts, source->relation->rd_rel->relowner);
        source->is_unread = !account_may_prepare(decoder->accounts, account);
        planning->is_unread |= source->is_unread;
        if (source->is_unread)
            continue;
        start_us = account_cpu_us();
        rules_read_again(decoder->rules, rules);
        charge_preparation(account, start_us, 0);
    }
}

/*
 * The CPU time for finding plans that are as before, of which the owner is not charged: changes of
 * others are the reason.
 */
#define LOOK_UP_FREE_US 200

/* The owner is charged the whole time of the preparation. */
static struct plan_set *
plan_sources(struct planning *planning)
{
    struct decoder *decoder = planning->decoder;
    struct plan_set *set = NULL;
    int64 start_us;

    read_rules(planning);
    start_us = account_cpu_us();
    list_rules(planning);
    if (planning->rule_count > 0) {
        Oid owner = planning->sources[planning->rules[0].source].relation->rd_rel->relowner;
        struct account *account = account_of(decoder->accounts, owner);
        bool is_new;

        set = plan_set_look_up(planning, account, &is_new);
        charge_preparation(account, start_us, is_new ? 0 : LOOK_UP_FREE_US);
    }
    return set;
}

/*
 * Opens the sources. An ancestor may be cached as of another catalog state: the owner of
 * the relation is charged the time to load it again, as far as half of the time remains.
 */
static void
open_sources(struct planning *planning, const List *relids)
{
    struct decoder *decoder = planning->decoder;
    struct account *account = account_of(decoder->accounts, planning->relation->rd_rel->relowner);
    bool has_time = account_has_half_time(decoder->accounts, account);
    int64 start_us = account_cpu_us();
    ListCell *cell;

    planning->sources = palloc0(sizeof(*planning->sources) * list_length(relids));
    foreach (cell, relids) {
        struct open_source *source = &planning->sources[planning->source_count++];

        source->relid = lfirst_oid(cell);
        source->relation = planning->relation;
        if (source->relid != RelationGetRelid(planning->relation)) {
            if (has_time &&
                inheritance_is_past(decoder->inheritance, source->relid, decoder->past_number))
                RelationCacheInvalidateEntry(source->relid);
            source->relation = RelationIdGetRelation(source->relid);
        }
        if (!RelationIsValid(source->relation))
            elog(ERROR, "could not open relation with OID %u", source->relid);
        source->schema = get_namespace_name(RelationGetNamespace(source->relation));
    }
    account_charge_time(account, account_cpu_us() - start_us);
}

struct plan_set *
plan_relation(struct decoder *decoder, Relation relation)
{
    struct planning planning = {.decoder = decoder, .relation = relation};
    struct plan_set *set = NULL;
    List *relids;

    /* Of clairon's own tables, rules apply only to clairon.receipt. */
    if (RelationGetNamespace(relation) == decoder->rules->schema &&
        RelationGetRelid(relation) != decoder->rules->receipt) {
        if (RelationGetRelid(relation) == decoder->rules->member && decoder->options.framed)
            set = plan_member(decoder, relation);
        return set;
    }
    relids = list_sources(decoder, relation);
    if (relids == NIL)
        return NULL;
    open_sources(&planning, relids);
    set = plan_sources(&planning);
    for (int i = 1; i < planning.source_count; i++)
        RelationClose(planning.sources[i].relation);
    return set;
}
