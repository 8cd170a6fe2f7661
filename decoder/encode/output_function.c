/* output_function.c: handle output functions that may raise errors. */
#include "encode/encode.h"

#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "base/guard.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* Replaces an output function that could not be loaded; fn_extra is the error message. */
static Datum
raise_load_error(PG_FUNCTION_ARGS)
{
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                    errmsg("%s", (const char *)fcinfo->flinfo->fn_extra)));
}

static bool
is_composite(Oid type)
{
    Oid base = getBaseType(type);
    Oid element = get_element_type(base);

    return OidIsValid(element) ? is_composite(element) : get_typtype(base) == TYPTYPE_COMPOSITE;
}

/* Does not recurse into nested composites: their depth may exceed the stack. */
static enum encode_risk
risk_of_composite(Oid type)
{
    TupleDesc desc = lookup_rowtype_tupdesc(type, -1);
    enum encode_risk risk = RISK_NONE;

    for (int i = 0; i < desc->natts; i++) {
        Oid member = TupleDescAttr(desc, i)->atttypid;

        if (!TupleDescAttr(desc, i)->attisdropped)
            risk = Max(risk, is_composite(member) ? RISK_ALL : encode_risk_of(member));
    }
    ReleaseTupleDesc(desc);
    return risk;
}

enum encode_risk
encode_risk_of(Oid type)
{
    Oid base = getBaseType(type);
    Oid element = get_element_type(base);
    Oid output;
    bool is_varlena;

    if (OidIsValid(element))
        return encode_risk_of(element);
    switch (get_typtype(base)) {
    case TYPTYPE_COMPOSITE:
        return risk_of_composite(base);
    case TYPTYPE_RANGE:
        /* In older versions a row type may contain itself through a range. */
        if (is_composite(get_range_subtype(base)))
            return RISK_ALL;
        return Max(encode_risk_of(get_range_subtype(base)), RISK_VALUE);
    case TYPTYPE_MULTIRANGE:
        return encode_risk_of(get_multirange_range(base));
    default:
        if (encode_is_native(base))
            return RISK_NONE;
        getTypeOutputInfo(base, &output, &is_varlena);
        return output >= FirstNormalObjectId ? RISK_ALL : RISK_VALUE;
    }
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

void
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
encode_is_text(const FmgrInfo *output)
{
    return output->fn_addr == textout;
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
    out->len = start;
    encode_literal(out, "null");
    return false;
}
