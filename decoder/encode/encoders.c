/* encoders.c: the encoders of all types that values contain, one for each type. */
#include "encode/encode.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/typcache.h"

/* An estimate of the memory of an encoder, with its share of the list. */
#define ENCODER_BYTES (sizeof(struct encoder) + 32)

/* The same of a member, with an encoder and a name. */
#define MEMBER_BYTES (sizeof(struct encode_member) + NAMEDATALEN + ENCODER_BYTES)

#define SLOTS_MIN 16

/* Invalidations of tables in this process, from 1; 0: the callback is not registered. */
static uint64 invalidations;

static void
on_invalidation(Datum arg, Oid relid)
{
    invalidations++;
}

/*
 * PostgreSQL would lock the table of a row type to load it, and wait while its owner keeps the
 * table locked. So decoding loads row types as it loads the relations of changes: without a lock.
 * An invalidation discards them.
 */
TupleDesc
encoders_row_type(Oid type, int32 typmod, uint64 *ret_identifier)
{
    TypeCacheEntry *entry = lookup_type_cache(type, 0);

    if (entry->typtype == TYPTYPE_COMPOSITE && entry->tupDesc == NULL) {
        Relation table = RelationIdGetRelation(entry->typrelid);

        if (!RelationIsValid(table))
            elog(ERROR, "could not open relation with OID %u", entry->typrelid);
        entry->tupDesc = RelationGetDescr(table);
        entry->tupDesc->tdrefcount++;
        /* a new identifier */
        entry->tupDesc_identifier = assign_record_type_identifier(RECORDOID, -1);
        RelationClose(table);
    }
    *ret_identifier = assign_record_type_identifier(type, typmod);
    return lookup_rowtype_tupdesc(type, typmod);
}

struct encoders *
encoders_new(const struct encode_settings *settings, encode_limiter limiter, void *limiter_arg)
{
    struct encoders *encoders = palloc0(sizeof(*encoders));

    if (invalidations == 0) {
        CacheRegisterRelcacheCallback(on_invalidation, (Datum)0);
        invalidations = 1;
    }
    encoders->settings = settings;
    encoders->context = CurrentMemoryContext;
    encoders->values =
        AllocSetContextCreate(CurrentMemoryContext, "clairon value", ALLOCSET_SMALL_SIZES);
    encoders->texts =
        AllocSetContextCreate(CurrentMemoryContext, "clairon text", ALLOCSET_SMALL_SIZES);
    encoders->limiter = limiter;
    encoders->limiter_arg = limiter_arg;
    return encoders;
}

/* Returns the slot of the type, or the empty slot for it. */
static uint32 *
find_slot(const struct encoders *encoders, Oid type)
{
    for (uint32 at = murmurhash32(type);; at++) {
        uint32 *slot = &encoders->slots[at & (encoders->slot_count - 1)];

        if (*slot == 0 || encoders->list[*slot - 1]->type == type)
            return slot;
    }
}

/* At most half of the slots are used. */
static void
grow(struct encoders *encoders)
{
    struct encoder **list = encoders->list;

    if (2 * (uint32)encoders->count < encoders->slot_count)
        return;
    encoders->slot_count = Max(2 * encoders->slot_count, SLOTS_MIN);
    encoders->list =
        MemoryContextAlloc(encoders->context, sizeof(*list) * encoders->slot_count / 2);
    if (list != NULL) {
        memcpy(encoders->list, list, sizeof(*list) * encoders->count);
        pfree(list);
        pfree(encoders->slots);
    }
    encoders->slots =
        MemoryContextAllocZero(encoders->context, sizeof(uint32) * encoders->slot_count);
    for (int i = 0; i < encoders->count; i++)
        *find_slot(encoders, encoders->list[i]->type) = i + 1;
}

/* int2vector and oidvector have elements, but are not arrays. */
static Oid
element_of(Oid type)
{
    if (type == INT2VECTOROID)
        return INT2OID;
    return type == OIDVECTOROID ? OIDOID : get_element_type(type);
}

/*
 * Returns the type within domains, arrays, ranges and multiranges. Sets the number of arrays and
 * ranges, and whether one is a range. It is a loop, because they may be nested deeper than the
 * stack allows.
 */
static Oid
innermost(Oid type, int *ret_layers, bool *ret_is_range)
{
    *ret_is_range = false;
    for (*ret_layers = 0;; (*ret_layers)++) {
        Oid base = getBaseType(type);
        char kind = get_typtype(base);

        CHECK_FOR_INTERRUPTS();
        type = get_element_type(base);
        if (kind == TYPTYPE_RANGE)
            type = get_range_subtype(base);
        else if (kind == TYPTYPE_MULTIRANGE)
            type = get_multirange_range(base);
        *ret_is_range |= kind == TYPTYPE_RANGE;
        if (!OidIsValid(type))
            return base;
    }
}

static enum encode_risk
risk_of_scalar(Oid type)
{
    Oid output;
    bool is_varlena;

    if (encode_is_native(type))
        return RISK_NONE;
    getTypeOutputInfo(type, &output, &is_varlena);
    return output >= FirstNormalObjectId ? RISK_ALL : RISK_VALUE;
}

/* Does not look into nested composites. */
static enum encode_risk
risk_of_composite(Oid type)
{
    uint64 identifier;
    TupleDesc desc = encoders_row_type(type, -1, &identifier);
    enum encode_risk risk = RISK_VALUE;

    for (int i = 0; i < desc->natts; i++) {
        Oid inner;
        int layers;
        bool is_range;

        if (TupleDescAttr(desc, i)->attisdropped)
            continue;
        inner = innermost(TupleDescAttr(desc, i)->atttypid, &layers, &is_range);
        risk =
            Max(risk, get_typtype(inner) == TYPTYPE_COMPOSITE ? RISK_ALL : risk_of_scalar(inner));
    }
    ReleaseTupleDesc(desc);
    return risk;
}

static enum encode_risk
risk_of(Oid type)
{
    int layers;
    bool is_range;
    Oid inner = innermost(type, &layers, &is_range);
    /* Nesting may exceed the stack, and the output of a range may be too long. */
    enum encode_risk risk = layers > 1 || is_range ? RISK_VALUE : RISK_NONE;

    if (get_typtype(inner) != TYPTYPE_COMPOSITE)
        return Max(risk, risk_of_scalar(inner));
    /* In older versions a row type may contain itself through a range. */
    return is_range ? RISK_ALL : risk_of_composite(inner);
}

/* jsonpath contains numbers, and a short number may print long. */
static bool
is_deep(Oid type)
{
    char kind = get_typtype(type);
    Oid subtype;

    if (kind == TYPTYPE_MULTIRANGE)
        type = get_multirange_range(type);
    if (kind != TYPTYPE_RANGE && kind != TYPTYPE_MULTIRANGE)
        return kind == TYPTYPE_COMPOSITE || type == JSONPATHOID ||
               OidIsValid(get_element_type(type));
    subtype = getBaseType(get_range_subtype(type));
    kind = get_typtype(subtype);
    return kind == TYPTYPE_COMPOSITE || kind == TYPTYPE_RANGE || kind == TYPTYPE_MULTIRANGE ||
           OidIsValid(get_element_type(subtype));
}

static struct encoder *
encoder_new(struct encoders *encoders, Oid type)
{
    struct encoder *encoder = palloc0(sizeof(*encoder));
    Oid element = element_of(type);
    Oid output;
    bool is_varlena;

    encoder->settings = encoders->settings;
    encoder->encoders = encoders;
    encoder->type = type;
    encoder->write = encode_choose(type, element);
    encoders->has_row_types |= encoder->write == encode_composite;
    encoder->is_deep = is_deep(type);
    get_typlenbyvalalign(type, &encoder->typlen, &encoder->typbyval, &encoder->typalign);
    getTypeOutputInfo(type, &output, &is_varlena);
    encode_load_output(output, &encoder->output);
    if (encoder->write == encode_output && encoder->typlen == -1 &&
        encode_is_text(&encoder->output))
        encoder->write = encode_varlena_text;
    return encoder;
}

struct encoder *
encoders_get(struct encoders *encoders, Oid type)
{
    Oid base = getBaseType(type);
    MemoryContext old;
    uint32 *slot;

    grow(encoders);
    slot = find_slot(encoders, base);
    if (*slot == 0) {
        old = MemoryContextSwitchTo(encoders->context);
        encoders->list[encoders->count] = encoder_new(encoders, base);
        MemoryContextSwitchTo(old);
        *slot = ++encoders->count;
    }
    return encoders->list[*slot - 1];
}

struct encoder *
encoders_get_column(struct encoders *encoders, Oid type)
{
    struct encoder *encoder = encoders_get(encoders, type);
    Oid element = element_of(encoder->type);
    const struct encoder *inner = OidIsValid(element) ? encoders_get(encoders, element) : encoder;

    if (inner->write != encode_varlena_text)
        encoder->risk = risk_of(encoder->type);
    return encoder;
}

void
encoders_prepare_element(struct encoder *encoder)
{
    if (encoder->write == encode_multirange) {
        if (encoder->range == NULL)
            encoder->range = encoders_get(encoder->encoders, get_multirange_range(encoder->type));
    } else if (encoder->element == NULL) {
        Oid element = element_of(encoder->type);

        if (!OidIsValid(element) && encoder->is_deep)
            element = get_range_subtype(encoder->type);
        if (OidIsValid(element))
            encoder->element = encoders_get(encoder->encoders, element);
    }
}

void
encoders_load_members(struct encoder *encoder, TupleDesc desc, Oid type, int32 typmod,
                      uint64 identifier)
{
    struct encoders *encoders = encoder->encoders;
    MemoryContext old = MemoryContextSwitchTo(encoders->context);
    StringInfoData names;

    encoder->row_identifier = 0; /* until it is complete, in case of an error */
    encoder->member_count = 0;
    if (encoder->members != NULL) {
        pfree(encoder->members);
        pfree(encoder->names);
        encoder->members = NULL;
    }
    initStringInfo(&names);
    encoder->names = names.data;
    encoder->members = palloc(sizeof(struct encode_member) * Max(desc->natts, 1));
    for (int i = 0; i < desc->natts; i++) {
        Form_pg_attribute attribute = TupleDescAttr(desc, i);
        struct encode_member *member = &encoder->members[encoder->member_count];

        if (attribute->attisdropped)
            continue;
        member->name_at = names.len;
        encode_text(encoders->settings, &names, NameStr(attribute->attname),
                    strlen(NameStr(attribute->attname)));
        encode_literal(&names, ":");
        encoder->names = names.data;
        member->name_len = names.len - member->name_at;
        member->index = i;
        member->encoder = encoders_get(encoders, attribute->atttypid);
        encoder->member_count++;
    }
    encoder->names = repalloc(names.data, names.len + 1);
    encoder->row_type = type;
    encoder->row_typmod = typmod;
    encoder->row_identifier = identifier;
    MemoryContextSwitchTo(old);
}

static bool
prepare_members(struct encoder *encoder, encode_has_room has_room, void *arg)
{
    uint64 identifier;
    TupleDesc desc = encoders_row_type(encoder->type, -1, &identifier);
    bool fits = has_room == NULL || has_room(arg, desc->natts * MEMBER_BYTES);

    if (fits && (encoder->row_type != encoder->type || encoder->row_identifier != identifier))
        encoders_load_members(encoder, desc, encoder->type, -1, identifier);
    ReleaseTupleDesc(desc);
    return fits;
}

bool
encoders_prepare(struct encoders *encoders, encode_has_room has_room, void *arg)
{
    /* It is a loop, because types may be nested deeper than the stack allows. */
    for (; encoders->prepared < encoders->count; encoders->prepared++) {
        struct encoder *encoder = encoders->list[encoders->prepared];

        CHECK_FOR_INTERRUPTS();
        if (encoder->write == encode_composite && encoder->type != RECORDOID) {
            if (!prepare_members(encoder, has_room, arg))
                return false;
        } else {
            if (has_room != NULL && !has_room(arg, ENCODER_BYTES))
                return false;
            encoders_prepare_element(encoder);
        }
    }
    return true;
}

/* The members of an encoder may be in use, so those of an altered row type are replaced later. */
void
encoders_load_row_types(struct encoders *encoders)
{
    if (!encoders->has_row_types || encoders->loaded == invalidations)
        return;
    encoders->loaded = invalidations;
    for (int i = 0; i < encoders->count; i++) {
        struct encoder *encoder = encoders->list[i];
        uint64 identifier;
        TupleDesc desc;

        CHECK_FOR_INTERRUPTS();
        if (encoder->write != encode_composite || encoder->type == RECORDOID) {
            encoders_prepare_element(encoder);
            continue;
        }
        desc = encoders_row_type(encoder->type, -1, &identifier);
        for (int at = 0; at < desc->natts && encoder->row_identifier != identifier; at++)
            if (!TupleDescAttr(desc, at)->attisdropped)
                (void)encoders_get(encoders, TupleDescAttr(desc, at)->atttypid);
        ReleaseTupleDesc(desc);
    }
}
