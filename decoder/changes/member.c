/* member.c: write changes of clairon.member as member frames. */
#include "changes/member.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/relcache.h"

#include "decoder.h"
#include "output/output.h"

static void
spool_member(struct decoder *decoder, char change, char *const texts[MEMBER_FIELDS])
{
    struct spool_record record;
    StringInfo out = spool_open(decoder, SPOOL_MEMBER, 0, &record);

    record.operation = change;
    for (int field = 0; field < MEMBER_FIELDS; field++)
        encode_raw(out, texts[field], strlen(texts[field]) + 1);
    spool_close(decoder, &record);
}

void
member_write(LogicalDecodingContext *ctx, char change, char *const texts[MEMBER_FIELDS])
{
    struct decoder *decoder = ctx->output_plugin_private;

    if (decoder->spool != NULL) {
        spool_member(decoder, change, texts);
        return;
    }
    frames_put_member(decoder, frames_open(ctx), change, change == '+', texts);
    frames_close(ctx);
}

/* Returns false when the value is too long; values stored out of line always are. */
static bool
read_member_text(struct encoder *encoder, const struct image *image, int at, char **ret_text)
{
    char *text;
    int len;

    if (image_lacks(image, at, encoder->typlen))
        return false;
    text = encode_plain(encoder, image->values[at], &len);
    if (len > LIMIT_TARGET)
        return false;
    *ret_text = pnstrdup(text, len);
    return true;
}

static void
put_member(LogicalDecodingContext *ctx, struct plan_set *set, TupleDesc desc, HeapTuple tuple,
           char change)
{
    struct decoder *decoder = ctx->output_plugin_private;
    struct image *image = &set->new;
    char *texts[MEMBER_FIELDS];

    heap_deform_tuple(tuple, desc, image->values, image->nulls);
    for (int field = 0; field < MEMBER_FIELDS; field++) {
        int at = set->members[field].index;

        if (at < 0) {
            warning_count(
                decoder, 0, "member",
                "ignored: table \"clairon.member\" does not have the columns of the extension");
            return;
        }
        if (image->nulls[at])
            return;
        if (!read_member_text(set->members[field].encoder, image, at, &texts[field])) {
            warning_count(decoder, 0, "member",
                          "ignored: a value is longer than 255 bytes in UTF-8");
            return;
        }
    }
    member_write(ctx, change, texts);
}

void
member_change(LogicalDecodingContext *ctx, struct plan_set *set, Relation relation,
              ReorderBufferChange *change)
{
    TupleDesc desc = RelationGetDescr(relation);
    HeapTuple old = compat_old_tuple(change);
    HeapTuple new = compat_new_tuple(change);

    if (old != NULL)
        put_member(ctx, set, desc, old, '-');
    else if (!set->has_key && change->action != REORDER_BUFFER_CHANGE_INSERT)
        warning_count(ctx->output_plugin_private, 0, "member",
                      "removed member unknown: table \"clairon.member\" has no replica identity");
    if (new != NULL)
        put_member(ctx, set, desc, new, '+');
}
