/* emitter.c: read the emitter of a notification from a column. */
#include "changes/emitter.h"

#include "decoder.h"
#include "output/warning_throttle.h"

#define EMITTER_BYTES_MAX 255

struct read_args {
    const struct bound_column *column;
    Datum value;
    char *text;
    int len;
};

static void
read_guarded(void *arg)
{
    struct read_args *read_args = arg;

    read_args->text = encode_plain(read_args->column->encoder, read_args->value, &read_args->len);
}

static bool
image_has_column(const struct image *image, const struct bound_column *column)
{
    return (image->whole || column->is_key) &&
           !image_lacks(image, column->index, column->encoder->typlen);
}

/* Returns false, with a warning, on failure: the notification is sent with the default emitter. */
static bool
read_text(struct decoder *decoder, const struct plan *plan, const struct image *image,
          struct read_args *read_args)
{
    char *fault;

    if (!image_has_column(image, read_args->column)) {
        warning_count(decoder, plan->seed, plan->label,
                      "sent with emitter \"clairon\": the WAL does not contain the emitter column");
        return false;
    }
    if (image->nulls[read_args->column->index])
        return false;
    read_args->value = image->values[read_args->column->index];
    if (encode_raw_size(read_args->column->encoder, read_args->value) > TARGETS_RAW_BYTES_MAX) {
        read_args->len = EMITTER_BYTES_MAX + 1; /* too long: do not detoast it */
    } else if (!encode_try(read_args->column->encoder, read_guarded, read_args, &fault)) {
        warning_count_reason(
            decoder, plan->seed, plan->label,
            "sent with emitter \"clairon\": could not output the value of the emitter column",
            fault);
        return false;
    }
    if (read_args->len > EMITTER_BYTES_MAX)
        warning_count(decoder, plan->seed, plan->label,
                      "sent with emitter \"clairon\": the value of the emitter column is longer "
                      "than 255 bytes");
    return read_args->len > 0 && read_args->len <= EMITTER_BYTES_MAX;
}

struct fragment
emitter_of_row(struct decoder *decoder, const struct plan *plan, const struct image *image)
{
    struct read_args read_args = {.column = &plan->emitter};
    StringInfoData json;

    initStringInfo(&json);
    if (plan->emitter_state == TARGET_COLUMNS && image != NULL && image->present &&
        read_text(decoder, plan, image, &read_args))
        encode_utf8_text(&decoder->settings, &json, read_args.text, read_args.len);
    else
        encode_literal(&json, "\"clairon\"");
    return (struct fragment){json.data, json.len};
}
