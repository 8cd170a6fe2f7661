/* nested.c: encode arrays, composites, multiranges, json and jsonb. */
#include "encode/encode.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/multirangetypes.h"
#include "utils/numeric.h"
#include "utils/rangetypes.h"
#include "utils/typcache.h"

#include "base/data.h"
#include "encode/json.h"

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
