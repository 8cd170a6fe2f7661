/* control.c: frames other than notifications: members of groups, and reloads of live lists. */
#include "changes/changes.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/relcache.h"

#include "base/data.h"
#include "decoder.h"
#include "encode/encode.h"
#include "output/output.h"
#include "protocol/limits.h"

/* Reload frames, for live rules whose rows changed without notifications. */

/* Two names of up to NAMEDATALEN bytes may be longer in UTF-8. */
#define SOURCE_BYTES_MAX 1024

/* Reloads of single rules of one owner, in a second of commit time. */
#define RELOADS_PER_SECOND 100

void
reload_write(LogicalDecodingContext *ctx, uint32 sub, const struct fragment *source,
             const struct fragment *rule)
{
    struct decoder *decoder = ctx->output_plugin_private;
    struct spool_record record;
    StringInfo out;

    if (!decoder->options.framed)
        return;
    if (decoder->spool == NULL) {
        frames_put_reload(decoder, frames_open(ctx), sub, source, rule);
        frames_close(ctx);
        return;
    }
    out = spool_open(decoder, SPOOL_RELOAD, sub, &record);
    encode_raw(out, source->bytes, source->len);
    encode_raw(out, "", 1);
    encode_raw(out, rule->bytes, rule->len);
    encode_raw(out, "", 1);
    spool_close(decoder, &record);
}

/* Refills the reloads at each second of commit time. Returns false when they are used up. */
static bool
may_reload(struct decoder *decoder, struct account *account)
{
    int64 second = decoder->commit_time / USECS_PER_SEC;

    if (account->reload_second != second) {
        account->reload_second = second;
        account->reloads = 0;
    }
    return account->reloads++ < RELOADS_PER_SECOND;
}

/* Reloads the lists of all live rules of the table. */
static void
reload_source(LogicalDecodingContext *ctx, struct plan *plan)
{
    struct decoder *decoder = ctx->output_plugin_private;
    struct source *source = plan->source_plan;
    struct fragment name = {.bytes = pstrdup(source->name)};
    int len;

    name.bytes = encode_to_utf8((char *)name.bytes, strlen(name.bytes), &len);
    name.len = len;
    source->reloaded = decoder->transaction_number;
    reload_write(ctx, plan->sub + PART_RELOAD, &name, &(struct fragment){"", 0});
}

void
reload_lists(LogicalDecodingContext *ctx, struct plan_set *set, struct plan *plan)
{
    struct decoder *decoder = ctx->output_plugin_private;

    if (!decoder->options.framed || plan->reloaded == decoder->transaction_number ||
        plan->source_plan->reloaded == decoder->transaction_number)
        return;
    if (plan->rule->is_unread || !may_reload(decoder, plan->account) ||
        !plan_texts(decoder, set, plan)) {
        reload_source(ctx, plan);
        return;
    }
    plan->reloaded = decoder->transaction_number;
    if (plan->rule->live && plan->rule_name.len > 0)
        reload_write(ctx, plan->sub + PART_RELOAD, &plan->source, &plan->rule_name);
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

/* Changes of clairon.member, as member frames. */

void
member_write(LogicalDecodingContext *ctx, char change, char *const texts[MEMBER_FIELDS])
{
    struct decoder *decoder = ctx->output_plugin_private;
    struct spool_record record;
    StringInfo out;

    if (decoder->spool == NULL) {
        frames_put_member(decoder, frames_open(ctx), change, change == '+', texts);
        frames_close(ctx);
        return;
    }
    out = spool_open(decoder, SPOOL_MEMBER, 0, &record);
    record.operation = change;
    for (int field = 0; field < MEMBER_FIELDS; field++)
        encode_raw(out, texts[field], strlen(texts[field]) + 1);
    spool_close(decoder, &record);
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
