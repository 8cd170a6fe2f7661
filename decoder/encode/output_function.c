/* output_function.c: handle output functions that may raise errors. */
#include "encode/encode.h"

#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "base/guard.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

/* Replaces an output function that could not be loaded; fn_extra is the error message. */
static Datum
raise_load_error(PG_FUNCTION_ARGS)
{
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                    errmsg("%s", (const char *)fcinfo->flinfo->fn_extra)));
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
    TupleDesc desc = lookup_rowtype_tupdesc(type, -1);
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

enum encode_risk
encode_risk_of(Oid type)
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
bool
encode_is_deep(Oid type)
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
    struct print_args args = {encoder, value, CurrentMemoryContext, NULL};
    const struct encoders *encoders = encoder->encoders;
    char *reason;

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
    MemoryContextReset(encoder->encoders->texts);
    out->len = start;
    encode_literal(out, "null");
    return false;
}
