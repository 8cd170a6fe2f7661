/* admin_merge.c: merges console replies of several shards. */
#include "store/admin/admin_merge.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"
#include "store/error_entry.h"

static json_int_t
number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static json_int_t
sum_of(json_t *const *overviews, size_t count, const char *key)
{
    json_int_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += number_of(overviews[i], key);
    return sum;
}

static bool
is_same_server(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "server"), json_object_get(b, "server")) == 1;
}

/* Shards on the same server report the same value. */
static json_int_t
sum_of_servers(json_t *const *overviews, size_t count, const char *key)
{
    json_int_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        bool is_counted = false;

        for (size_t k = 0; k < i; k++)
            is_counted |= is_same_server(overviews[k], overviews[i]);
        if (!is_counted)
            sum += number_of(overviews[i], key);
    }
    return sum;
}

/* Compares two rows for the merge; negative: `b` precedes `a`. */
typedef int row_order(const json_t *a, const json_t *b);

static int
by_since(const json_t *a, const json_t *b)
{
    json_int_t left = number_of(a, "since"), right = number_of(b, "since");

    return left < right ? -1 : left > right;
}

static int
by_entry(const json_t *a, const json_t *b)
{
    struct entry_id left = {0, 0}, right = {0, 0};
    const json_t *left_text = json_object_get(a, "entry"),
                 *right_text = json_object_get(b, "entry");

    if (entry_id_read(json_string_value(left_text) != NULL ? json_string_value(left_text) : "",
                      json_string_length(left_text), &left) != RC_OK ||
        entry_id_read(json_string_value(right_text) != NULL ? json_string_value(right_text) : "",
                      json_string_length(right_text), &right) != RC_OK)
        return 0;
    return entry_id_less(right, left) ? -1 : entry_id_less(left, right);
}

/* Merges sorted lists, up to `max` rows. */
static json_t *
merge_rows(json_t *const *lists, size_t count, row_order *order, size_t max)
{
    json_t *merged = json_array();
    size_t *at = memory_new((count + 1) * sizeof(*at));

    while (merged != NULL && json_array_size(merged) < max) {
        size_t first = count;

        for (size_t i = 0; i < count; i++) {
            if (at[i] < json_array_size(lists[i]) &&
                (first == count || order(json_array_get(lists[i], at[i]),
                                         json_array_get(lists[first], at[first])) < 0))
                first = i;
        }
        if (first == count)
            break;
        (void)json_array_append(merged, json_array_get(lists[first], at[first]++));
    }
    free(at);
    return merged;
}

/* Returns the reply of the first shard that replied. */
static const json_t *
first_of(json_t *const *parts, size_t count)
{
    size_t i = 0;

    while (i + 1 < count && parts[i] == NULL)
        i++;
    return parts[i];
}

static json_t *
merge_overviews(json_t *const *overviews, size_t count)
{
    json_t **oldest = memory_new((count + 1) * sizeof(*oldest));
    json_t *merged;

    for (size_t i = 0; i < count; i++)
        oldest[i] = json_object_get(overviews[i], "oldest"); /* ignored unless an array */
    /* Shard 0 stores all relays and users. */
    merged = json_pack(
        "{sI sO* sI sI sI sI sI sO? so}", "at", number_of(first_of(overviews, count), "at"),
        "server", json_object_get(overviews[0], "server"), "entries",
        sum_of(overviews, count, "entries"), "pending", sum_of(overviews, count, "pending"),
        "errors", sum_of(overviews, count, "errors"), "memory",
        sum_of_servers(overviews, count, "memory"), "memory_max",
        sum_of_servers(overviews, count, "memory_max"), "relays",
        json_object_get(overviews[0], "relays"), "oldest",
        merge_rows(oldest, count, by_since, STORE_OVERVIEW_ROWS));
    free(oldest);
    return merged;
}

/*
 * Parses all replies. Returns false if a reply is invalid, or there is none. Sets the parts, NULL
 * for a shard without a reply; the caller frees them.
 */
static bool
parse_texts(const struct bytes *texts, size_t count, json_type type, json_t **ret_parts)
{
    bool is_good = true, has_reply = false;

    for (size_t i = 0; i < count; i++) {
        ret_parts[i] = NULL;
        if (texts[i].at == NULL)
            continue;
        has_reply = true;
        ret_parts[i] = json_loadb((const char *)texts[i].at, texts[i].len, 0, NULL);
        if (ret_parts[i] == NULL || json_typeof(ret_parts[i]) != type)
            is_good = false;
    }
    return is_good && has_reply;
}

static json_t *
merge_errors(json_t *const *pages, size_t count)
{
    return merge_rows(pages, count, by_entry, STORE_ERRORS_ROWS);
}

static json_t *
merge_latest(json_t *const *pages, size_t count)
{
    return merge_rows(pages, count, by_entry, STORE_LATEST_ROWS);
}

/* Shard 0 stores the presence of all users. */
static json_t *
merge_users(json_t *const *users, size_t count)
{
    json_t **oldest = memory_new((count + 1) * sizeof(*oldest));
    json_t *merged;

    for (size_t i = 0; i < count; i++)
        oldest[i] = json_object_get(users[i], "oldest");
    merged =
        json_pack("{sI sI sO? so}", "at", number_of(first_of(users, count), "at"), "pending",
                  sum_of(users, count, "pending"), "relays", json_object_get(users[0], "relays"),
                  "oldest", merge_rows(oldest, count, by_since, STORE_PENDING_ROWS));
    free(oldest);
    return merged;
}

/* Merges the parsed replies, without freeing any of them. */
typedef json_t *merge_parts(json_t *const *parts, size_t count);

/* Parses the replies and returns the merged reply as a string; NULL: a reply is invalid. */
static char *
merge_texts(const struct bytes *texts, size_t count, json_type type, merge_parts *merge)
{
    json_t **parts = memory_new((count + 1) * sizeof(*parts));
    json_t *merged = NULL;
    char *text = NULL;

    if (parse_texts(texts, count, type, parts))
        merged = merge(parts, count);
    if (merged != NULL)
        text = json_dumps(merged, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(merged);
    for (size_t i = 0; i < count; i++)
        json_decref(parts[i]);
    free(parts);
    return text;
}

char *
admin_merge_overviews(const struct bytes *texts, size_t count)
{
    return merge_texts(texts, count, JSON_OBJECT, merge_overviews);
}

char *
admin_merge_errors(const struct bytes *texts, size_t count)
{
    return merge_texts(texts, count, JSON_ARRAY, merge_errors);
}

char *
admin_merge_latest(const struct bytes *texts, size_t count)
{
    return merge_texts(texts, count, JSON_ARRAY, merge_latest);
}

char *
admin_merge_users(const struct bytes *texts, size_t count)
{
    return merge_texts(texts, count, JSON_OBJECT, merge_users);
}
