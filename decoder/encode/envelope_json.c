/* envelope_json.c: append parts of an envelope, as protocol/envelope.h describes it. */
#include "encode/envelope_json.h"

#include "protocol/limits.h"

/* The destination of envelope_write. */
struct envelope_target {
    const struct encode_settings *settings;
    StringInfo out;
};

static void
put_envelope_raw(void *to, const char *bytes, size_t len)
{
    encode_raw(((struct envelope_target *)to)->out, bytes, len);
}

static void
put_envelope_text(void *to, const char *utf8, size_t len)
{
    struct envelope_target *target = to;

    encode_utf8_text(target->settings, target->out, utf8, len);
}

void
encode_envelope(const struct encode_settings *settings, StringInfo out,
                const struct envelope *envelope, enum envelope_field first,
                enum envelope_field last)
{
    struct envelope_target target = {settings, out};
    const struct envelope_writer writer = {&target, put_envelope_raw, put_envelope_text};

    envelope_write(&writer, envelope, first, last);
}

void
encode_targets(const struct encode_settings *settings, StringInfo out,
               const struct target_list *targets, bool for_recipients)
{
    if (for_recipients && targets->count > LIMIT_TARGETS_SENT) {
        encode_literal(out, "[]" ENVELOPE_RECIPIENTS_TEXT);
        appendStringInfo(out, "%d", targets->count);
        return;
    }
    encode_literal(out, "[");
    for (int i = 0; i < targets->count; i++) {
        if (i > 0)
            encode_literal(out, ",");
        encode_utf8_text(settings, out, targets->texts[i], targets->lengths[i]);
    }
    encode_literal(out, "]");
}
