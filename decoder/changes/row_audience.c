/* row_audience.c: recipients, emitter and Web Push of a row under a rule. */
#include "changes/changes.h"

#include "access/detoast.h"
#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/memutils.h"

#include "decoder.h"
#include "output/output.h"
#include "protocol/limits.h"
#include "rules/condition.h"

/* The strings of a list as a set, with open addressing. Slots contain index + 1. */
struct text_set {
    const struct target_list *list;
    uint32 mask;
    uint32 *slots;
};

static void
set_create(struct text_set *set, const struct target_list *list, int capacity)
{
    uint32 size = 16;

    while (size < (uint32)capacity * 2)
        size *= 2;
    set->list = list;
    set->mask = size - 1;
    set->slots = palloc0(sizeof(uint32) * size);
}

/* Random: with a known seed, a user could write rows with colliding hashes. */
static uint64
hash_seed(void)
{
    static uint64 seed;

    while (seed == 0 && !pg_strong_random(&seed, sizeof(seed)))
        CHECK_FOR_INTERRUPTS();
    return seed;
}

/* Returns the slot that contains the string, or the empty slot for the string. */
static uint32 *
set_find(const struct text_set *set, const char *text, int len)
{
    uint64 at = hash_bytes_extended((const unsigned char *)text, len, hash_seed());

    for (;; at++) {
        uint32 *slot = &set->slots[at & set->mask];
        uint32 i = *slot - 1;

        if (*slot == 0 ||
            (set->list->lengths[i] == len && memcmp(set->list->texts[i], text, len) == 0))
            return slot;
    }
}

static struct target_list *
list_new(int capacity)
{
    struct target_list *list =
        palloc(sizeof(*list) + (sizeof(char *) + sizeof(int)) * (Size)Max(capacity, 1));

    *list = (struct target_list){0};
    list->texts = (char **)(list + 1);
    list->lengths = (int *)(list->texts + Max(capacity, 1));
    return list;
}

/* Counts the output of a value. Returns false for a target that is empty or too long. */
static bool
list_accepts(struct target_list *list, int len)
{
    if (len <= LIMIT_TARGET)
        return len > 0;
    list->too_long = true;
    list->printed += len;
    if (list->printed > TARGETS_PRINTED_MAX)
        list->too_many = true;
    return false;
}

/* Appends a copy of the string unless it is a duplicate. */
static void
list_add(struct target_list *list, const struct text_set *set, const char *text, int len)
{
    uint32 *slot;
    char *kept;

    slot = set_find(set, text, len);
    if (*slot != 0)
        return;
    list->bytes += len;
    if (list->count == LIMIT_TARGETS || list->bytes > LIMIT_TARGETS_BYTES) {
        list->too_many = true;
        return;
    }
    kept = MemoryContextAlloc(GetMemoryChunkContext(list), len);
    list->texts[list->count] = memcpy(kept, text, len);
    list->lengths[list->count] = len;
    *slot = ++list->count;
}

/*
 * A short element may print long, as numeric 1e131071 does, and other rules read the same column.
 * So nothing but the accepted targets stays in memory.
 */
static struct target_list *
targets_of_array(struct encoder *encoder, Datum value)
{
    struct encoder *element = encoder->element;
    MemoryContext caller = CurrentMemoryContext;
    MemoryContext array_context =
        AllocSetContextCreate(caller, "clairon target array", ALLOCSET_SMALL_SIZES);
    MemoryContext text_context =
        AllocSetContextCreate(array_context, "clairon target", ALLOCSET_SMALL_SIZES);
    ArrayType *array;
    struct target_list *list;
    struct text_set set;
    Datum *elements;
    bool *nulls;
    int total;
    int count;

    MemoryContextSwitchTo(array_context);
    array = DatumGetArrayTypeP(value);
    total = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
    MemoryContextSwitchTo(caller);
    list = list_new(Min(total, LIMIT_TARGETS));
    list->too_many = total > TARGETS_ELEMENTS_MAX;
    MemoryContextSwitchTo(array_context);
    if (!list->too_many) {
        set_create(&set, list, Min(total, LIMIT_TARGETS));
        deconstruct_array(array, ARR_ELEMTYPE(array), element->typlen, element->typbyval,
                          element->typalign, &elements, &nulls, &count);
        MemoryContextSwitchTo(text_context);
        for (int i = 0; i < count && !list->too_many; i++) {
            int len;
            char *text;

            CHECK_FOR_INTERRUPTS();
            if (nulls[i])
                continue;
            text = encode_plain(element, elements[i], &len);
            if (list_accepts(list, len))
                list_add(list, &set, text, len);
            MemoryContextReset(text_context);
        }
    }
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(array_context);
    return list;
}

static struct target_list *
targets_of_value(struct encoder *encoder, Datum value)
{
    struct target_list *list;

    /* Rejects a large value before it is detoasted. */
    if (encode_raw_size(encoder, value) > TARGETS_RAW_BYTES_MAX) {
        list = list_new(0);
        list->too_many = true;
        return list;
    }
    if (encoder->element != NULL)
        return targets_of_array(encoder, value);
    list = list_new(1);
    list->texts[0] = encode_plain(encoder, value, &list->lengths[0]);
    list->count = list_accepts(list, list->lengths[0]);
    return list;
}

struct targets_args {
    struct encoder *encoder;
    Datum value;
    struct target_list *list;
};

static void
read_targets_guarded(void *arg)
{
    struct targets_args *args = arg;

    args->list = targets_of_value(args->encoder, args->value);
}

static struct target_list *
targets_of_column(const struct bound_column *column, const struct image *image)
{
    struct targets_args args = {column->encoder, image->values[column->index], NULL};
    char *fault;

    if (image->nulls[column->index])
        return list_new(0);
    if (column->encoder->risk == RISK_NONE)
        return targets_of_value(args.encoder, args.value);
    if (!encode_try(column->encoder, read_targets_guarded, &args, &fault)) {
        args.list = list_new(0);
        args.list->fault = fault;
    }
    return args.list;
}

static struct target_list *
targets_of_part(const struct target_part *part, const struct image *image)
{
    struct target_list *list;

    if (part->column.index >= 0)
        return targets_of_column(&part->column, image);
    list = list_new(1);
    list->texts[0] = (char *)part->constant.bytes;
    list->lengths[0] = part->constant.len;
    list->count = part->constant.len > 0;
    return list;
}

/* Escapes + and \, so that a value cannot add a part. */
static char *
put_part(char *out, const char *text, int len)
{
    for (int i = 0; i < len; i++) {
        if (text[i] == '+' || text[i] == '\\')
            *out++ = '\\';
        *out++ = text[i];
    }
    return out;
}

/* Appends the nth combination; the last part varies fastest. */
static void
put_combination(struct target_list *list, struct target_list *const *parts, int count, int nth)
{
    int picks[LIMIT_PARTS] = {0};
    int room = count;
    char *out;

    for (int i = count - 1; i >= 0; i--) {
        picks[i] = nth % parts[i]->count;
        nth /= parts[i]->count;
        room += 2 * parts[i]->lengths[picks[i]];
    }
    list->texts[list->count] = out = palloc(room);
    for (int i = 0; i < count; i++) {
        if (i > 0)
            *out++ = '+';
        out = put_part(out, parts[i]->texts[picks[i]], parts[i]->lengths[picks[i]]);
    }
    list->lengths[list->count] = out - list->texts[list->count];
    list->count++;
}

/* The bytes of a part's strings with their escapes. */
static int64
escaped_bytes(const struct target_list *list)
{
    int64 bytes = 0;

    for (int i = 0; i < list->count; i++)
        for (int j = 0; j < list->lengths[i]; j++)
            bytes += list->texts[i][j] == '+' || list->texts[i][j] == '\\' ? 2 : 1;
    return bytes;
}

/* Counts the combinations and their bytes before it builds them. */
static struct target_list *
combine(struct target_list *const *parts, int count)
{
    struct target_list *list;
    int64 total = 1;
    int64 bytes;

    for (int i = 0; i < count && total <= LIMIT_TARGETS; i++)
        total *= parts[i]->count;
    bytes = total * (count - 1);
    for (int i = 0; i < count && total > 0 && total <= LIMIT_TARGETS; i++)
        bytes += total / parts[i]->count * escaped_bytes(parts[i]);
    if (total > LIMIT_TARGETS || bytes > LIMIT_TARGETS_BYTES) {
        list = list_new(0);
        list->too_many = true;
        return list;
    }
    list = list_new(total);
    for (int nth = 0; nth < total; nth++)
        put_combination(list, parts, count, nth);
    for (int i = 0; i < count; i++)
        list->too_long |= parts[i]->too_long;
    return list;
}

static bool
lacks_column(const struct plan *plan, const struct image *image)
{
    for (int i = 0; i < plan->part_count; i++) {
        const struct bound_column *column = &plan->parts[i].column;

        if (column->index >= 0 && image_lacks(image, column->index, column->encoder->typlen))
            return true;
    }
    return false;
}

/* Reads the targets from an image that contains all target columns. */
static struct target_list *
targets_of_image(const struct plan *plan, const struct image *image)
{
    struct target_list *parts[LIMIT_PARTS] = {NULL};

    for (int i = 0; i < plan->part_count; i++) {
        parts[i] = targets_of_part(&plan->parts[i], image);
        if (plan->part_count == 1 || parts[i]->too_many || parts[i]->fault != NULL)
            return parts[i];
    }
    return combine(parts, plan->part_count);
}

bool
audience_is_denied(struct decoder *decoder, const struct plan *plan)
{
    const char *reason = NULL;

    if (plan->target_state == TARGET_DROPPED)
        reason = "denied: the target column was dropped";
    else if (plan->target_state == TARGET_JSON)
        reason = "denied: the type of the target column is now json or jsonb";
    else if (plan->emitter_state == TARGET_DROPPED)
        reason = "denied: the emitter column was dropped";
    if (reason != NULL)
        warning_count(decoder, plan->seed, plan->label, reason);
    return reason != NULL;
}

bool
audience_read_targets(struct decoder *decoder, const struct plan *plan, const struct image *image,
                      struct target_list **ret_targets, bool *ret_too_many)
{
    struct target_list *targets;

    *ret_too_many = false;
    if (lacks_column(plan, image)) {
        warning_count(decoder, plan->seed, plan->label,
                      "denied: the WAL does not contain the target column");
        return false;
    }
    targets = targets_of_image(plan, image);
    if (targets->fault != NULL) {
        warning_count_reason(decoder, plan->seed, plan->label,
                             "denied: could not output the value of the target column",
                             targets->fault);
        return false;
    }
    if (targets->too_many) {
        warning_count(decoder, plan->seed, plan->label,
                      "denied: more than 10000 targets, or more than 256 kB of targets");
        targets->count = 0;
    }
    *ret_too_many = targets->too_many;
    if (targets->too_long)
        warning_count(decoder, plan->seed, plan->label, "left out a target longer than 255 bytes");
    *ret_targets = targets;
    return true;
}

bool
audience_meets_condition(struct decoder *decoder, const struct plan *plan,
                         const struct image *image, bool *ret_met)
{
    enum condition_result result = condition_evaluate(plan->condition, image);

    if (result == CONDITION_FAILED)
        warning_count_reason(decoder, plan->seed, plan->label,
                             "denied: could not evaluate only_when",
                             condition_error(plan->condition));
    else if (result == CONDITION_UNKNOWN)
        warning_count(decoder, plan->seed, plan->label,
                      "denied: the WAL does not contain a column of only_when");
    else
        *ret_met = result == CONDITION_TRUE;
    return result == CONDITION_TRUE || result == CONDITION_FALSE;
}

/* Returns the targets in `a` that are, or are not, in `b`, in the order of `a`. */
static struct target_list *
select_targets(const struct target_list *a, const struct target_list *b, bool in_b)
{
    struct target_list *list = list_new(a->count);
    struct text_set set;

    set_create(&set, b, b->count);
    for (int i = 0; i < b->count; i++)
        *set_find(&set, b->texts[i], b->lengths[i]) = i + 1;
    for (int i = 0; i < a->count; i++) {
        if ((*set_find(&set, a->texts[i], a->lengths[i]) != 0) != in_b)
            continue;
        list->texts[list->count] = a->texts[i];
        list->lengths[list->count] = a->lengths[i];
        list->count++;
    }
    return list;
}

struct target_list *
audience_intersection(const struct target_list *a, const struct target_list *b)
{
    return select_targets(a, b, true);
}

struct target_list *
audience_difference(const struct target_list *a, const struct target_list *b)
{
    return select_targets(a, b, false);
}

/* The emitter of a notification, from a column. */

#define EMITTER_BYTES_MAX 255

/* The value of a column as text. */
struct column_text {
    const struct bound_column *column;
    Datum value;
    char *text; /* UTF-8 */
    int len;
};

static void
read_text_guarded(void *arg)
{
    struct column_text *args = arg;

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
                  struct column_text *args)
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
    } else if (!encode_try(args->column->encoder, read_text_guarded, args, &fault)) {
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
    struct column_text args = {.column = &plan->emitter};
    StringInfoData json;

    initStringInfo(&json);
    if (plan->emitter_state == TARGET_COLUMNS && image != NULL && image->present &&
        read_emitter_text(decoder, plan, image, &args))
        encode_utf8_text(&decoder->settings, &json, args.text, args.len);
    else
        encode_literal(&json, "\"clairon\"");
    return (struct fragment){json.data, json.len};
}

/* The text of a Web Push. */

/* The whole body of a Web Push has no more bytes, so longer parts would be cut. */
#define WEB_PUSH_TEXT_MAX 3993
#define WEB_PUSH_APP_BADGE_MAX 1000000000

/* Returns false for a value that is null, empty, not in the WAL, or cannot be output. */
static bool
read_web_push_text(struct decoder *decoder, const struct plan *plan, const struct image *image,
                   const struct web_push_part *part, struct column_text *ret_text)
{
    struct column_text text = {.column = &part->column};
    char *fault;

    if (part->state != TARGET_COLUMNS || image == NULL || !image->present ||
        !image_has_column(image, text.column) || image->nulls[text.column->index])
        return false;
    text.value = image->values[text.column->index];
    if (encode_raw_size(text.column->encoder, text.value) > TARGETS_RAW_BYTES_MAX)
        return false;
    if (!encode_try(text.column->encoder, read_text_guarded, &text, &fault)) {
        warning_count_reason(decoder, plan->seed, plan->label,
                             "left out of a Web Push: could not output the value of a column",
                             fault);
        return false;
    }
    *ret_text = text;
    return text.len > 0;
}

/* Returns -1 for a value that is out of range, or no number since the column's type was altered. */
static int64
app_badge(const struct column_text *text)
{
    const char *digits = pnstrdup(text->text, text->len);
    int64 number = strtoll(digits, NULL, 10);

    return strspn(digits, "0123456789") == (size_t)text->len && number <= WEB_PUSH_APP_BADGE_MAX
               ? number
               : -1;
}

/* Appends a member whose value is a column. Returns false if it is absent. */
static bool
put_web_push_column(struct decoder *decoder, StringInfo out, const struct plan *plan,
                    const struct image *image, enum web_push_member member)
{
    const struct web_push_part *part = &plan->web_push[member];
    bool is_cut = member == WEB_PUSH_TITLE || member == WEB_PUSH_BODY;
    struct column_text text;

    if (!read_web_push_text(decoder, plan, image, part, &text))
        return false;
    if (member == WEB_PUSH_APP_BADGE) {
        if (app_badge(&text) < 0)
            return false;
        encode_raw(out, part->name.bytes, part->name.len);
        appendStringInfo(out, INT64_FORMAT, app_badge(&text));
        return true;
    }
    text.len = pg_encoding_mbcliplen(PG_UTF8, text.text, text.len,
                                     is_cut ? WEB_PUSH_TEXT_MAX : LIMIT_WEB_PUSH + 1);
    encode_raw(out, part->name.bytes, part->name.len);
    encode_utf8_text(&decoder->settings, out, text.text, text.len);
    return true;
}

struct fragment
web_push_of_row(struct decoder *decoder, const struct plan *plan, const struct image *image)
{
    StringInfoData json;

    initStringInfo(&json);
    for (int i = 0; i < WEB_PUSH_MEMBERS && json.len <= LIMIT_WEB_PUSH; i++) {
        const struct web_push_part *part = &plan->web_push[i];
        int start = json.len;

        if (part->name.len == 0)
            continue;
        encode_raw(&json, i == 0 ? "{" : ",", 1);
        if (part->literal.len > 0) {
            encode_raw(&json, part->name.bytes, part->name.len);
            encode_raw(&json, part->literal.bytes, part->literal.len);
        } else if (!put_web_push_column(decoder, &json, plan, image, i)) {
            if (i == WEB_PUSH_TITLE)
                return (struct fragment){"", 0};
            json.len = start;
        }
    }
    encode_literal(&json, "}");
    return (struct fragment){json.data, Min(json.len, LIMIT_WEB_PUSH + 1)};
}
