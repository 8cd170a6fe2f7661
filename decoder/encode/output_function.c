/* output_function.c: handle output functions that may raise errors. */
#include "encode/encode.h"

#include "access/detoast.h"
#include "access/transam.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/sandbox.h"

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
encode_is_loaded(const FmgrInfo *output)
{
    return output->fn_addr != raise_load_error;
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
