/* audience.c: who a row is for, and who gained or lost it. */
#include "clairon.h"

#include "access/detoast.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/array.h"

/* An open-addressed set of a list's texts; slots hold index + 1. */
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

/* Not to be guessed: whoever writes rows could choose texts that all meet in one slot. */
static uint64
hash_seed(void)
{
    static uint64 seed;

    while (seed == 0 && !pg_strong_random(&seed, sizeof(seed)))
        CHECK_FOR_INTERRUPTS();
    return seed;
}

/* The slot that holds the text, or the empty one where it would stand. */
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

/* Appends unless empty or there already. */
static void
list_add(struct target_list *list, const struct text_set *set, char *text, int len)
{
    uint32 *slot = set_find(set, text, len);

    if (len == 0 || *slot != 0)
        return;
    if (len > TARGET_BYTES_MAX) {
        list->too_many = true;
        return;
    }
    list->texts[list->count] = text;
    list->lengths[list->count] = len;
    *slot = ++list->count;
}

static struct target_list *
targets_of_array(struct encoder *encoder, Datum value)
{
    struct encoder *element = encoder->element;
    ArrayType *array = DatumGetArrayTypeP(value);
    int total = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
    struct target_list *list;
    struct text_set set;
    Datum *elements;
    bool *nulls;
    int count;

    list = list_new(Min(total, TARGETS_MAX));
    if (total > TARGETS_MAX) {
        list->too_many = true;
        return list;
    }
    set_create(&set, list, total);
    deconstruct_array(array, ARR_ELEMTYPE(array), element->typlen, element->typbyval,
                      element->typalign, &elements, &nulls, &count);
    for (int i = 0; i < count; i++) {
        int len;
        char *text;

        if (nulls[i])
            continue;
        text = encode_plain(element, elements[i], &len);
        list_add(list, &set, text, len);
        if (list->too_many)
            break;
    }
    return list;
}

static struct target_list *
targets_of_value(struct encoder *encoder, Datum value)
{
    struct target_list *list;

    /* Not unpacked only to be refused. */
    if (encode_raw_size(encoder, value) > TARGETS_RAW_BYTES_MAX) {
        list = list_new(0);
        list->too_many = true;
        return list;
    }
    if (encoder->element != NULL)
        return targets_of_array(encoder, value);
    list = list_new(1);
    list->texts[0] = encode_plain(encoder, value, &list->lengths[0]);
    list->too_many = list->lengths[0] > TARGET_BYTES_MAX;
    list->count = list->lengths[0] > 0 && !list->too_many;
    return list;
}

struct reading {
    struct encoder *encoder;
    Datum value;
    struct target_list *list;
};

static void
read_guarded(void *arg)
{
    struct reading *reading = arg;

    reading->list = targets_of_value(reading->encoder, reading->value);
}

/* The targets that the image's column names; the caller knows that the image holds it. */
struct target_list *
audience_targets(const struct plan *plan, const struct image *image)
{
    struct reading reading = {plan->target, image->values[plan->target_index], NULL};
    char *fault;

    if (image->nulls[plan->target_index])
        return list_new(0);
    if (plan->target->risk == RISK_NONE)
        return targets_of_value(reading.encoder, reading.value);
    if (!encode_try(plan->target, read_guarded, &reading, &fault)) {
        reading.list = list_new(0);
        reading.list->fault = fault;
    }
    return reading.list;
}

/* Those of `a` that are (or are not) in `b`, in the order of `a`. */
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
audience_common(const struct target_list *a, const struct target_list *b)
{
    return select_targets(a, b, true);
}

struct target_list *
audience_minus(const struct target_list *a, const struct target_list *b)
{
    return select_targets(a, b, false);
}
