/* reload.c: reload frames, for live rules whose rows changed without notifications. */
#include "changes/reload.h"

#include "decoder.h"
#include "output/frames.h"
#include "output/spool.h"

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
