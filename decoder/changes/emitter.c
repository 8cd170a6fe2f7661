/* emitter.c: who a notification comes from, where a column says it. */
#include "changes/emitter.h"

#include "decoder.h"
#include "output/warning_throttle.h"

#define EMITTER_BYTES_MAX 255

struct reading {
    const struct bound_column *column;
    Datum value;
    char *text;
    int len;
};

static void
read_guarded(void *arg)
{
    struct reading *reading = arg;

    reading->text = encode_plain(reading->column->encoder, reading->value, &reading->len);
}

static bool
holds_column(const struct image *image, const struct bound_column *column)
{
    return (image->whole || column->is_key) &&
           !image_lacks(image, column->index, column->encoder->typlen);
}

/* False, and counted, where it cannot be shown: that must cost nobody the notification. */
static bool
read_text(struct decoder *decoder, const struct plan *plan, const struct image *image,
          struct reading *reading)
{
    char *fault;

    if (!holds_column(image, reading->column)) {
        complaint_count(decoder, plan->seed, plan->label,
                        "sent as \"clairon\": the WAL does not hold the emitter's column");
        return false;
    }
    if (image->nulls[reading->column->index])
        return false;
    reading->value = image->values[reading->column->index];
    if (encode_raw_size(reading->column->encoder, reading->value) > TARGETS_RAW_BYTES_MAX) {
        reading->len = EMITTER_BYTES_MAX + 1; /* not unpacked only to be refused */
    } else if (!encode_try(reading->column->encoder, read_guarded, reading, &fault)) {
        complaint_count_because(decoder, plan->seed, plan->label,
                                "sent as \"clairon\": the type of the emitter's column could not "
                                "print a value",
                                fault);
        return false;
    }
    if (reading->len > EMITTER_BYTES_MAX)
        complaint_count(decoder, plan->seed, plan->label,
                        "sent as \"clairon\": an emitter over 255 bytes");
    return reading->len > 0 && reading->len <= EMITTER_BYTES_MAX;
}

struct fragment
emitter_of_row(struct decoder *decoder, const struct plan *plan, const struct image *image)
{
    struct reading reading = {.column = &plan->emitter};
    StringInfoData json;

    initStringInfo(&json);
    if (plan->emitter_state == TARGET_COLUMNS && image != NULL && image->present &&
        read_text(decoder, plan, image, &reading))
        encode_utf8_text(&decoder->settings, &json, reading.text, reading.len);
    else
        encode_literal(&json, "\"clairon\"");
    return (struct fragment){json.data, json.len};
}
