/*
 * encoders.c: the encoders of all types that values contain, one for each type; values that contain
 * others; output functions, which may raise errors.
 */
#include "encode/encode.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "access/tupmacs.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/multirangetypes.h"
#include "utils/numeric.h"
#include "utils/rangetypes.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/typcache.h"

#include "base/data.h"
#include "base/sandbox.h"
#include "encode/json.h"

/* Output functions, which may raise errors. */

/* Replaces an output function that could not be loaded; fn_extra is the error message. */
static Datum
raise_load_error(PG_FUNCTION_ARGS)
{
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                    errmsg("%s", (const char *)fcinfo->flinfo->fn_extra)));
}

Size
encode_raw_size(const struct encoder *encoder, Datum value)
{
    struct varlena *varlena = (struct varlena *)DatumGetPointer(value);

    if (encoder->typlen != -1)
        return 0;
    if (!VARATT_IS_EXTENDED(varlena))
        return VARSIZE(varlena) - VARHDRSZ;
    return toast_raw_datum_size(value) - VARHDRSZ;
}

struct print_args {
    struct encoder *encoder;
    Datum value;
    MemoryContext caller;
    char *text;
};

/* Frees all memory except the text: also what the function keeps for its next call. */
static void
print(void *arg)
{
    struct print_args *args = arg;
    MemoryContext context =
        AllocSetContextCreate(args->caller, "clairon output", ALLOCSET_DEFAULT_SIZES);
    MemoryContext old = MemoryContextSwitchTo(context);
    FmgrInfo output = args->encoder->output;

    output.fn_extra = NULL;
    output.fn_mcxt = context;
    PG_TRY();
    {
        args->text = MemoryContextStrdup(args->caller, OutputFunctionCall(&output, args->value));
    }
    PG_FINALLY();
    {
        MemoryContextSwitchTo(old);
        MemoryContextDelete(context);
    }
    PG_END_TRY();
}

char *
encode_print(struct encoder *encoder, Datum value)
{
    /* A nested value contains at most one OID in four bytes. */
    Size oids = encoder->is_deep ? encode_raw_size(encoder, value) / sizeof(Oid) : 0;
    struct print_args args = {encoder, value, CurrentMemoryContext, NULL};
    const struct encoders *encoders = encoder->encoders;
    char *reason;

    guard_catalog_caches(1 + oids);
    if (!encoder->is_deep || encoders->limiter == NULL)
        return OutputFunctionCall(&encoder->output, value);
    if (!encoders->limiter(encoders->limiter_arg, print, &args, &reason))
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("%s", reason)));
    return args.text;
}

struct load_args {
    Oid function;
    FmgrInfo *info;
};

static void
load(void *arg)
{
    struct load_args *load_args = arg;

    fmgr_info(load_args->function, load_args->info);
}

/* Like fmgr_info, but if the function cannot be loaded, calling *ret_info raises the error. */
static void
encode_load_output(Oid function, FmgrInfo *ret_info)
{
    struct load_args load_args = {function, ret_info};
    char *reason;

    if (function < FirstNormalObjectId) {
        fmgr_info(function, ret_info);
    } else if (!guard_run(load, &load_args, &reason)) {
        MemSet(ret_info, 0, sizeof(*ret_info));
        ret_info->fn_addr = raise_load_error;
        ret_info->fn_oid = function;
        ret_info->fn_nargs = 1;
        ret_info->fn_strict = true;
        ret_info->fn_extra = reason;
        ret_info->fn_mcxt = CurrentMemoryContext;
    }
}

bool
encode_is_loaded(const FmgrInfo *output)
{
    return output->fn_addr != raise_load_error;
}

bool
encode_try(const struct encoder *encoder, void (*work)(void *arg), void *arg, char **ret_fault)
{
    return encoder->risk == RISK_ALL ? guard_run(work, arg, ret_fault)
                                     : guard_try(work, arg, ret_fault);
}

struct write_args {
    struct encoder *encoder;
    StringInfo out;
    Datum value;
};

static void
write_value(void *arg)
{
    struct write_args *write_args = arg;

    write_args->encoder->write(write_args->encoder, write_args->out, write_args->value);
}

bool
encode_guarded(struct encoder *encoder, StringInfo out, Datum value)
{
    struct write_args write_args = {encoder, out, value};
    int start = out->len;

    if (encode_try(encoder, write_value, &write_args, &encoder->fault))
        return true;
    MemoryContextReset(encoder->encoders->texts);
    out->len = start;
    encode_literal(out, "null");
    return false;
}

/* The encoders of all types that values contain, one for each type. */

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
    /* Types such as citext share the output function of text. */
    if (encoder->write == encode_output && encoder->typlen == -1 &&
        encoder->output.fn_addr == textout)
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

/* Prepares the element of an array, or the range of a multirange. */
static void
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

/* Prepares the members for the row type. Frees those of another row type. */
static void
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

/* Arrays, composites, multiranges, json and jsonb. */

/* The state of an iteration over the elements of an array. */
struct array_walk {
    char *data;
    bits8 *nulls;
    int index;
    int dims;
    int *sizes;
};

static void
write_element(struct encoder *element, StringInfo out, struct array_walk *walk)
{
    bool is_null =
        walk->nulls != NULL && (walk->nulls[walk->index / 8] & (1 << walk->index % 8)) == 0;
    Datum value;

    walk->index++;
    if (is_null) {
        encode_literal(out, "null");
        return;
    }
    value = fetch_att(walk->data, element->typbyval, element->typlen);
    walk->data = att_addlength_pointer(walk->data, element->typlen, walk->data);
    walk->data = (char *)att_align_nominal(walk->data, element->typalign);
    element->write(element, out, value);
}

static void
write_dimension(struct encoder *element, StringInfo out, struct array_walk *walk, int dim)
{
    encode_literal(out, "[");
    for (int i = 0; i < walk->sizes[dim] && !encode_is_over(element, out); i++) {
        if (i > 0)
            encode_literal(out, ",");
        if (dim + 1 < walk->dims)
            write_dimension(element, out, walk, dim + 1);
        else
            write_element(element, out, walk);
    }
    encode_literal(out, "]");
}

void
encode_array(struct encoder *encoder, StringInfo out, Datum value)
{
    ArrayType *array = DatumGetArrayTypeP(value);
    struct array_walk walk = {.data = ARR_DATA_PTR(array),
                              .nulls = ARR_NULLBITMAP(array),
                              .dims = ARR_NDIM(array),
                              .sizes = ARR_DIMS(array)};

    check_stack_depth();
    encoders_prepare_element(encoder);
    if (walk.dims == 0)
        encode_literal(out, "[]");
    else
        write_dimension(encoder->element, out, &walk, 0);
    encode_free_copy(array, value);
}

/* Prints one range after the other, since all together may be very long. */
void
encode_multirange(struct encoder *encoder, StringInfo out, Datum value)
{
    MemoryContext texts = encoder->encoders->texts;
    MultirangeType *multirange = DatumGetMultirangeTypeP(value);
    RangeType **ranges;
    int32 count;

    encoders_prepare_element(encoder);
    encoders_load_row_types(encoder->encoders);
    multirange_deserialize(lookup_type_cache(encoder->range->type, TYPECACHE_RANGE_INFO),
                           multirange, &count, &ranges);
    encode_literal(out, "\"{");
    for (int i = 0; i < count && !encode_is_over(encoder, out); i++) {
        MemoryContext old = MemoryContextSwitchTo(texts);
        char *text = encode_print(encoder->range, RangeTypePGetDatum(ranges[i]));

        if (i > 0)
            encode_literal(out, ",");
        encode_text_part(encoder->settings, out, text, strlen(text));
        MemoryContextSwitchTo(old);
        MemoryContextReset(texts);
        pfree(ranges[i]);
    }
    encode_literal(out, "}\"");
    if (count > 0)
        pfree(ranges);
    encode_free_copy(multirange, value);
}

static void
write_members(struct encoder *encoder, StringInfo out, const Datum *values, const bool *nulls)
{
    encode_literal(out, "{");
    for (int i = 0; i < encoder->member_count && !encode_is_over(encoder, out); i++) {
        struct encode_member *member = &encoder->members[i];

        if (i > 0)
            encode_literal(out, ",");
        encode_raw(out, encoder->names + member->name_at, member->name_len);
        if (nulls[member->index])
            encode_literal(out, "null");
        else
            member->encoder->write(member->encoder, out, values[member->index]);
    }
    encode_literal(out, "}");
}

void
encode_composite(struct encoder *encoder, StringInfo out, Datum value)
{
    HeapTupleHeader header = DatumGetHeapTupleHeader(value);
    Oid type = HeapTupleHeaderGetTypeId(header);
    int32 typmod = HeapTupleHeaderGetTypMod(header);
    uint64 identifier;
    TupleDesc desc = encoders_row_type(type, typmod, &identifier);
    Datum *values = palloc(sizeof(Datum) * Max(desc->natts, 1));
    bool *nulls = palloc(sizeof(bool) * Max(desc->natts, 1));
    HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(header), .t_data = header};

    check_stack_depth();
    ItemPointerSetInvalid(&tuple.t_self);
    if (encoder->row_type != type || encoder->row_typmod != typmod ||
        encoder->row_identifier != identifier)
        encoders_load_members(encoder, desc, type, typmod, identifier);
    heap_deform_tuple(&tuple, desc, values, nulls);
    /* The row type is released first: an error in a member's output function would leak it. */
    ReleaseTupleDesc(desc);
    write_members(encoder, out, values, nulls);
    pfree(values);
    pfree(nulls);
    encode_free_copy(header, value);
}

void
encode_json(struct encoder *encoder, StringInfo out, Datum value)
{
    struct varlena *json = PG_DETOAST_DATUM_PACKED(value);
    int len;
    char *text = encode_to_utf8(VARDATA_ANY(json), VARSIZE_ANY_EXHDR(json), &len);
    char *dst = encode_reserve(out, JSON_ESCAPE_GROWTH * len);

    out->len = json_compact(dst, text, len, encoder->settings->ascii) - out->data;
    if (text != VARDATA_ANY(json))
        pfree(text);
    encode_free_copy(json, value);
}

static void
write_jsonb_scalar(struct encoder *encoder, StringInfo out, const JsonbValue *scalar)
{
    char *text;

    switch (scalar->type) {
    case jbvNull:
        encode_literal(out, "null");
        break;
    case jbvBool:
        if (scalar->val.boolean)
            encode_literal(out, "true");
        else
            encode_literal(out, "false");
        break;
    case jbvString:
        encode_text(encoder->settings, out, scalar->val.string.val, scalar->val.string.len);
        break;
    case jbvNumeric:
        text =
            DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(scalar->val.numeric)));
        encode_raw(out, text, strlen(text));
        pfree(text);
        break;
    default:
        elog(ERROR, "unexpected jsonb value of type %d", (int)scalar->type);
    }
}

void
encode_jsonb(struct encoder *encoder, StringInfo out, Datum value)
{
    Jsonb *jsonb = DatumGetJsonbP(value);
    JsonbIterator *iterator = JsonbIteratorInit(&jsonb->root);
    JsonbValue item;
    JsonbIteratorToken token;
    bool comma = false; /* the next item needs a comma */
    bool bare = false;  /* a scalar, which jsonb stores in an array of one element */

    while ((token = JsonbIteratorNext(&iterator, &item, false)) != WJB_DONE) {
        if (encode_is_over(encoder, out))
            break;
        if (comma && (token == WJB_KEY || token == WJB_ELEM || token == WJB_BEGIN_ARRAY ||
                      token == WJB_BEGIN_OBJECT))
            encode_literal(out, ",");
        comma = true;
        switch (token) {
        case WJB_BEGIN_ARRAY:
            bare = item.val.array.rawScalar;
            if (!bare)
                encode_literal(out, "[");
            comma = false;
            break;
        case WJB_BEGIN_OBJECT:
            encode_literal(out, "{");
            comma = false;
            break;
        case WJB_END_ARRAY:
            if (!bare)
                encode_literal(out, "]");
            break;
        case WJB_END_OBJECT:
            encode_literal(out, "}");
            break;
        case WJB_KEY:
            encode_text(encoder->settings, out, item.val.string.val, item.val.string.len);
            encode_literal(out, ":");
            comma = false;
            break;
        default: /* WJB_VALUE, WJB_ELEM */
            write_jsonb_scalar(encoder, out, &item);
        }
    }
    encode_free_copy(jsonb, value);
}

/* The server settings that output functions depend on. */

static const struct {
    const char *name;
    const char *value;
} settings[] = {
    {"TimeZone", "UTC"},
    {"DateStyle", "ISO, MDY"},
    {"IntervalStyle", "iso_8601"},
    {"extra_float_digits", "1"},
    {"lc_monetary", "C"},
    {"search_path", "pg_catalog"},
    {"bytea_output", "hex"},
    {"xmlbinary", "base64"},
    {"quote_all_identifiers", "off"},
    {"standard_conforming_strings", "on"},
    {"transform_null_equals", "off"},
    {"xmloption", "content"},
};

void
output_settings_fix(GucAction action)
{
    for (size_t i = 0; i < lengthof(settings); i++)
        (void)set_config_option(settings[i].name, settings[i].value, PGC_SUSET, PGC_S_SESSION,
                                action, true, 0, false);
}
