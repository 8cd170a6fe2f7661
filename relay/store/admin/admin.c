/*
 * admin.c: queries the store for the console, merges the replies of several shards, and drops the
 * pairs of a pending notification.
 */
#include "store/admin.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/admin/admin_private.h"
#include "store/connection/reply.h"
#include "store/servers/topology.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"

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
    /* Shard 0 stores all relays and users; a relay serves a sink in all shards. */
    merged = json_pack(
        "{sI sO* sI sI sI sI sI sO? sO? so}", "at", number_of(first_of(overviews, count), "at"),
        "server", json_object_get(overviews[0], "server"), "entries",
        sum_of(overviews, count, "entries"), "pending", sum_of(overviews, count, "pending"),
        "errors", sum_of(overviews, count, "errors"), "memory",
        sum_of_servers(overviews, count, "memory"), "memory_max",
        sum_of_servers(overviews, count, "memory_max"), "relays",
        json_object_get(overviews[0], "relays"), "sinks", json_object_get(overviews[0], "sinks"),
        "oldest", merge_rows(oldest, count, by_since, STORE_OVERVIEW_ROWS));
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
admin_merge(enum store_script script, const struct bytes *texts, size_t count)
{
    switch (script) {
    case STORE_SCRIPT_errors:
        return merge_texts(texts, count, JSON_ARRAY, merge_errors);
    case STORE_SCRIPT_latest:
        return merge_texts(texts, count, JSON_ARRAY, merge_latest);
    case STORE_SCRIPT_user:
        return merge_texts(texts, count, JSON_OBJECT, merge_users);
    default:
        return merge_texts(texts, count, JSON_OBJECT, merge_overviews);
    }
}

/* A query to several shards. */
struct description {
    struct shard_request request;
    store_described *done;
    void *ctx;
    enum store_script script;
    bool is_queried[STORE_SHARDS_MAX];
    struct bytes parts[STORE_SHARDS_MAX]; /* JSON, by shard; empty: no reply */
};

static bool
on_description_reply(struct shard_request *request, struct shard *shard,
                     const struct redisReply *reply)
{
    struct bytes *part = &((struct description *)request)->parts[shard->number];

    *part = reply_bytes(shard_request_keep_reply(request, reply));
    return part->at != NULL;
}

/* The reply of a single shard is returned unchanged. */
static void
finish_description(struct shard_request *request, enum rc rc)
{
    const struct description *description = (struct description *)request;
    const unsigned count = request->store->shard_count;
    struct bytes json = description->parts[0];
    char missing[SHARD_LIST_MAX] = "";
    char *text = NULL;

    (void)rc; /* the reply lacks the shards that failed */
    for (unsigned k = 0; k < count; k++) {
        if (description->is_queried[k] && description->parts[k].at == NULL)
            shard_list_add(missing, k);
    }
    if (count > 1) {
        text = admin_merge(description->script, description->parts, count);
        json = (struct bytes){(const unsigned char *)text, text != NULL ? strlen(text) : 0};
    }
    description->done(description->ctx, json.at != NULL ? RC_OK : RC_IO, json, missing);
    free(text);
}

static const struct shard_request_kind description_kind = {.failure =
                                                               "could not read the store overview",
                                                           .on_reply = on_description_reply,
                                                           .finish = finish_description};

/* The notifications of a user are in shard 0 and in the user's shard. */
static bool
has_part(const struct store *store, enum store_script script, const char *argument_text,
         unsigned shard)
{
    return script != STORE_SCRIPT_user || shard == 0 ||
           shard == store_shard_of(store, argument_text);
}

static void
query_shard(struct description *description, struct shard *shard, const char *argument_text)
{
    struct arguments arguments = {.argc = 0};

    description->is_queried[shard->number] = true;
    if (!shard->is_up)
        return;
    shard_arguments(shard, &arguments);
    if (argument_text != NULL)
        argument(&arguments, argument_text);
    shard_request_send_script(&description->request, shard, description->script, 1, &arguments);
}

static enum rc
describe(struct store *store, enum store_script script, const char *argument_text,
         store_described *done, void *ctx)
{
    struct description *description =
        shard_request_new(sizeof(*description), store, &description_kind);

    description->done = done;
    description->ctx = ctx;
    description->script = script;
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (has_part(store, script, argument_text, k))
            query_shard(description, &store->shards[k], argument_text);
    }
    return shard_request_sent(&description->request);
}

enum rc
store_overview(struct store *store, store_described *done, void *ctx)
{
    return describe(store, STORE_SCRIPT_overview, NULL, done, ctx);
}

enum rc
store_errors(struct store *store, const struct entry_id *before, store_described *done, void *ctx)
{
    char start[ENTRY_ID_TEXT_MAX + 1] = "(";

    if (before != NULL)
        entry_id_text(*before, start + 1);
    if (before != NULL && entry_id_is_zero(*before))
        snprintf(start, sizeof(start), "-"); /* a store rejects "(0-0" */
    return describe(store, STORE_SCRIPT_errors, before != NULL ? start : "+", done, ctx);
}

enum rc
store_latest(struct store *store, const struct entry_id *after, store_described *done, void *ctx)
{
    char start[ENTRY_ID_TEXT_MAX + 1] = "(";

    if (after != NULL) {
        struct entry_id bound = *after;

        bound.seq -= bound.seq == UINT64_MAX; /* a store rejects "(" and the last id */
        entry_id_text(bound, start + 1);
    }
    return describe(store, STORE_SCRIPT_latest, after != NULL ? start : "-", done, ctx);
}

enum rc
store_user(struct store *store, const char *user, store_described *done, void *ctx)
{
    return describe(store, STORE_SCRIPT_user, user, done, ctx);
}

/* A request to drop the pairs of a notification, which only one shard has. */
struct pairs_drop {
    struct shard_request request;
    store_pairs_dropped *done;
    void *ctx;
    bool is_known;
    bool is_complete; /* its shard has no pending pairs */
    char id[FRAME_UUID_TEXT + 1];
};

void
drop_arguments(const struct shard *shard, struct arguments *arguments)
{
    shard_arguments(shard, arguments);
    argument(arguments, shard->store->script_settings.retention);
}

static void
send_pairs_drop(struct pairs_drop *drop, struct shard *shard)
{
    struct arguments arguments = {.argc = 0};

    drop_arguments(shard, &arguments);
    argument(&arguments, drop->id);
    shard_request_send_script(&drop->request, shard, STORE_SCRIPT_drop, 1, &arguments);
}

/* A large audience takes several steps. */
static bool
on_pairs_drop_reply(struct shard_request *request, struct shard *shard,
                    const struct redisReply *reply)
{
    struct pairs_drop *drop = (struct pairs_drop *)request;
    bool has_more;

    if (!reply_is_array(reply, 2) || !reply_is_integer(reply_at(reply, 1)))
        return false;
    if (reply_integer(reply_at(reply, 1)) == DROP_UNKNOWN)
        return true;
    has_more = reply_integer(reply_at(reply, 0)) != 0;
    drop->is_known = true;
    drop->is_complete = !has_more;
    if (has_more)
        send_pairs_drop(drop, shard);
    return true;
}

static void
finish_pairs_drop(struct shard_request *request, enum rc rc)
{
    const struct pairs_drop *drop = (struct pairs_drop *)request;

    drop->done(drop->ctx, drop->is_complete ? RC_OK : rc, drop->is_known);
}

static const struct shard_request_kind pairs_drop_kind = {.failure =
                                                              "could not drop a notification",
                                                          .on_reply = on_pairs_drop_reply,
                                                          .finish = finish_pairs_drop};

enum rc
store_drop_pairs(struct store *store, const char *id, store_pairs_dropped *done, void *ctx)
{
    struct pairs_drop *drop = shard_request_new(sizeof(*drop), store, &pairs_drop_kind);

    drop->done = done;
    drop->ctx = ctx;
    snprintf(drop->id, sizeof(drop->id), "%s", id);
    for (unsigned k = 0; k < store->shard_count; k++)
        send_pairs_drop(drop, &store->shards[k]);
    return shard_request_sent(&drop->request);
}
