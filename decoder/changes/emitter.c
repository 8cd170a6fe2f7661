/* emitter.c: read the emitter of a notification from a column. */
#include "changes/emitter.h"

#include "decoder.h"
#include "output/output.h"

#define EMITTER_BYTES_MAX 255

struct emitter_args {
    const struct bound_column *column;
    Datum value;
    char *text;
    int len;
};

static void
read_emitter_guarded(void *arg)
{
    struct emitter_args *args = arg;

    args->text = encode_plain(args->column->encoder, args->value, &args->len);
}

static bool
image_has_column(const struct image *image, const struct bound_column *column)
{
    return (image->whole || column->is_key) &&
           !image_lacks(image, column->index, column->encoder->typlen);
}

/* Returns false, with a warning, on failure: the notification is sent with the default emitter. */
static bool
read_emitter_text(struct decoder *decoder, const struct plan *plan, const struct image *image,
                  struct emitter_args *args)
{
    char *fault;

    if (!image_has_column(image, args->column)) {
        warning_count(decoder, plan->seed, plan->label,
                      "sent with emitter \"clairon\": the WAL does not contain the emitter column");
        return false;
    }
    if (image->nulls[args->column->index])
        return false;
    args->value = image->values[args->column->index];
    if (encode_raw_size(args->column->encoder, args->value) > TARGETS_RAW_BYTES_MAX) {
        args->len = EMITTER_BYTES_MAX + 1; /* too long, so it is not detoasted */
    } else if (!encode_try(args->column->encoder, read_emitter_guarded, args, &fault)) {
        warning_count_reason(
            decoder, plan->seed, plan->label,
            "sent with emitter \"clairon\": could not output the value of the emitter column",
            fault);
        return false;
    }
    if (args->len > EMITTER_BYTES_MAX)
        warning_count(decoder, plan->seed, plan->label,
                      "sent with emitter \"clairon\": the value of the emitter column is longer "
                      "than 255 bytes");
    return args->len > 0 && args->len <= EMITTER_BYTES_MAX;
}

struct fragment
emitter_of_row(struct decoder *decoder, const struct plan *plan, const struct image *image)
{
    struct emitter_args args = {.column = &plan->emitter};
    StringInfoData json;

    initStringInfo(&json);
    if (plan->emitter_state == TARGET_COLUMNS && image != NULL && image->present &&
        read_emitter_text(decoder, plan, image, &args))
        encode_utf8_text(&decoder->settings, &json, args.text, args.len);
    else
        encode_literal(&json, "\"clairon\"");
    return (struct fragment){json.data, json.len};
}
