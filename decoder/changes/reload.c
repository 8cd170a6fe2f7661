/* reload.c: reload frames, for live rules whose rows changed without notifications. */
#include "changes/reload.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "base/compat.h"
#include "decoder.h"
#include "encode/encode.h"
#include "output/frames.h"
#include "output/spool.h"
#include "output/warning_throttle.h"
#include "protocol/limits.h"

/* Two names of up to NAMEDATALEN bytes may be longer in UTF-8. */
#define SOURCE_BYTES_MAX 1024

static void
spool_reload(struct decoder *decoder, uint32 sub, const struct fragment *source,
             const struct fragment *rule)
{
    struct spool_record record;
    StringInfo out = spool_open(decoder, SPOOL_RELOAD, sub, &record);

    encode_raw(out, source->bytes, source->len);
    encode_raw(out, "", 1);
    encode_raw(out, rule->bytes, rule->len);
    encode_raw(out, "", 1);
    spool_close(decoder, &record);
}

void
reload_write(LogicalDecodingContext *ctx, uint32 sub, const struct fragment *source,
             const struct fragment *rule)
{
    struct decoder *decoder = ctx->output_plugin_private;

    if (!decoder->options.framed)
        return;
    if (decoder->spool != NULL) {
        spool_reload(decoder, sub, source, rule);
        return;
    }
    frames_put_reload(decoder, frames_open(ctx), sub, source, rule);
    frames_close(ctx);
}

/* Returns false for a value that is null, too long, compressed or stored out of line. */
static bool
read_text(HeapTuple row, TupleDesc desc, int number, int max_bytes, struct fragment *ret_text)
{
    bool is_null;
    Datum value = heap_getattr(row, number, desc, &is_null);
    const text *given = (const text *)DatumGetPointer(value);
    int len;
    char *utf8;

    if (is_null || VARATT_IS_EXTERNAL(given) || VARATT_IS_COMPRESSED(given))
        return false;
    utf8 = encode_to_utf8(VARDATA_ANY(given), VARSIZE_ANY_EXHDR(given), &len);
    if (len == 0 || len > max_bytes)
        return false;
    *ret_text = (struct fragment){pnstrdup(utf8, len), len};
    return true;
}

void
reload_change(LogicalDecodingContext *ctx, Relation relation, const ReorderBufferChange *change)
{
    TupleDesc desc = RelationGetDescr(relation);
    struct fragment source, rule;

    if (change->action != REORDER_BUFFER_CHANGE_INSERT)
        return;
    if (desc->natts == 2 && TupleDescAttr(desc, 0)->atttypid == TEXTOID &&
        TupleDescAttr(desc, 1)->atttypid == TEXTOID &&
        read_text(compat_new_tuple(change), desc, 1, SOURCE_BYTES_MAX, &source) &&
        read_text(compat_new_tuple(change), desc, 2, LIMIT_RULE, &rule))
        reload_write(ctx, 0, &source, &rule);
    else
        warning_count(ctx->output_plugin_private, 0, "reload",
                      "ignored: invalid row in table \"clairon.reload\"");
}
