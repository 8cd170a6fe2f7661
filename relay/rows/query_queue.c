/*
 * query_queue.c: requests that wait for a query: who shares it, which one is next, and how each
 * ends.
 */
#include "rows/rows_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/memory.h"

#define KEY_MAX (65536 + ROWS_CONDITIONS_BYTES_MAX)
#define REPEAT_FIRST_US 50000
#define REPEAT_MAX_US 800000
#define MEAN_WEIGHT 8 /* a query changes the mean by an eighth of the difference */
#define AFTER_MIN_MS 1000
#define AFTER_MAX_MS 30000

/*
 * A string key from all values that select the rows of a request. Requests with equal keys may
 * share one query.
 */
struct query_key {
    struct buffer text; /* the source, the rule, and all values that select the rows */
    bool is_known;      /* the audience of the rule is known */
    bool is_of_user;    /* the key contains the user and the groups of the token */
};

/* ---- the audiences of live rules, taken from earlier results */

/* Returns the length of the rule's key at the start of a longer key. */
static size_t
known_rule_len(const char *key)
{
    size_t source_len = strlen(key) + 1;

    return source_len + strlen(key + source_len) + 1;
}

static struct known_rule *
known_rule_find(const struct known_rule *rules, const char *key, size_t len)
{
    struct known_rule *rule;

    HASH_FIND(hh, rules, key, len, rule);
    return rule;
}

static void
known_rule_remove(struct known_rule **rules, struct known_rule *rule)
{
    HASH_DEL(*rules, rule);
    free(rule->audience);
    free(rule);
}

static void
known_rules_free(struct known_rule **rules)
{
    while (*rules != NULL)
        known_rule_remove(rules, *rules);
}

/* `key` starts with the rule's key. True if the audience is new or has changed. */
static bool
known_rule_set(struct known_rule **rules, const char *key, const char *audience)
{
    size_t len = known_rule_len(key);
    struct known_rule *rule = known_rule_find(*rules, key, len);

    if (rule != NULL && strcmp(rule->audience, audience) == 0)
        return false;
    if (rule != NULL)
        known_rule_remove(rules, rule);
    if (HASH_COUNT(*rules) >= KNOWN_RULES_MAX)
        known_rules_free(rules);
    rule = memory_new(sizeof(*rule) + len);
    rule->audience = memory_text(audience, strlen(audience));
    rule->key_len = len;
    memcpy(rule->key, key, len);
    HASH_ADD(hh, *rules, key, len, rule);
    return true;
}

/* ---- the key of a query */

static enum rc
add_text(struct buffer *out, const char *text)
{
    return buffer_add(out, text, strlen(text) + 1);
}

/* Each text ends with a zero byte, which none contains. Absent ones are empty. */
static enum rc
add_conditions(struct buffer *out, const struct rows_conditions *conditions)
{
    const char *const texts[] = {conditions->where, conditions->order, conditions->after};
    enum rc rc = RC_OK;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && rc == RC_OK; i++)
        rc = add_text(out, texts[i] != NULL ? texts[i] : "");
    return rc == RC_OK ? buffer_addf(out, "%" PRId64 "%s", conditions->limit,
                                     conditions->is_count ? "count" : "")
                       : rc;
}

/*
 * Only a rule for ALL has a key without the user. The groups of clairon.member, and literal
 * targets, are those of the query's snapshot. The relay cannot compare two users by them: what it
 * has read from the WAL may be older. The caller frees `text`.
 */
static struct query_key
key_of(const struct rows_request *request)
{
    const struct rows_wanted *wanted = &request->wanted;
    const struct known_rule *rule;
    struct query_key key;
    enum rc rc;

    buffer_init(&key.text, KEY_MAX);
    rc = add_text(&key.text, wanted->source);
    if (rc == RC_OK)
        rc = add_text(&key.text, wanted->rule);
    rule = known_rule_find(request->queue->rules, key.text.bytes, key.text.len);
    key.is_known = rule != NULL;
    key.is_of_user = rule == NULL || strcmp(rule->audience, "ALL") != 0;
    if (rc == RC_OK)
        rc = add_text(&key.text, key.is_of_user ? "user" : "all");
    if (rc == RC_OK && key.is_of_user)
        rc = add_text(&key.text, wanted->user);
    if (rc == RC_OK && key.is_of_user)
        rc = add_text(&key.text, wanted->groups);
    if (rc == RC_OK)
        rc = add_conditions(&key.text, &wanted->conditions);
    if (rc != RC_OK)
        abort(); /* the strings of a token are far shorter */
    return key;
}

/* ---- the order of queries */

/* False while the user's results in memory exceed the limit. */
static bool
may_receive(const struct rows_queue *queue, const struct rows_user *user)
{
    return user->held_bytes <= queue->limits.user_bytes;
}

/*
 * A query waits while another query with its key runs. Before the audience of a rule is known, all
 * its queries wait for the first query, whose result contains the audience.
 */
static bool
waits_for(const struct rows_query *query, const struct rows_query *running)
{
    bool only_rule = !query->is_known && !running->is_known;
    size_t len = only_rule ? known_rule_len(query->key) : query->key_len;

    if (only_rule ? running->key_len < len : running->key_len != len)
        return false;
    return memcmp(query->key, running->key, len) == 0;
}

/* A client that does not read its results must not delay other users who share the query. */
static bool
has_receiver(const struct rows_queue *queue, const struct rows_query *query)
{
    const struct rows_request *request;

    DL_FOREACH (query->requests, request) {
        if (may_receive(queue, request->user))
            return true;
    }
    return false;
}

/* True while a query of this source is stuck. */
static bool
is_stuck(const struct rows_queue *queue, const char *source)
{
    const struct rows_query *running;

    DL_FOREACH (queue->running, running) {
        if (running->state == ROWS_QUERY_STUCK && strcmp(running->key, source) == 0)
            return true;
    }
    return false;
}

/* One connection remains for other tables even if all queries of a table are stuck. */
static bool
source_may_run(const struct rows_queue *queue, const char *source)
{
    const struct rows_query *running;
    size_t count = 0;

    DL_FOREACH (queue->running, running) {
        if (strcmp(running->key, source) == 0)
            count++;
    }
    return count == 0 || count + 1 < queue->limits.connections;
}

static bool
may_run(const struct rows_queue *queue, const struct rows_query *query, int64_t now_us)
{
    const struct rows_query *running;

    DL_FOREACH (queue->running, running) {
        if (waits_for(query, running))
            return false;
    }
    return query->not_before_us <= now_us && has_receiver(queue, query) &&
           source_may_run(queue, query->key) && !is_stuck(queue, query->key);
}

/* Users take turns, and the oldest query of a user that may run is first. NULL: none may run. */
static struct rows_query *
select_next(const struct rows_queue *queue, int64_t now_us)
{
    const struct rows_user *user;
    struct rows_query *query;

    DL_FOREACH (queue->turns, user) {
        DL_FOREACH (user->waiting, query) {
            if (may_run(queue, query, now_us))
                return query;
        }
    }
    return NULL;
}

/* ---- waiting */

static void
free_user_if_unused(struct rows_queue *queue, struct rows_user *user)
{
    if (user->request_count > 0 || user->waiting != NULL)
        return;
    HASH_DEL(queue->users, user);
    free(user);
}

static struct rows_user *
user_of(struct rows_queue *queue, const char *name)
{
    size_t len = strlen(name);
    struct rows_user *user;

    HASH_FIND(hh, queue->users, name, len, user);
    if (user != NULL)
        return user;
    user = memory_new(sizeof(*user) + len + 1);
    memcpy(user->name, name, len + 1);
    HASH_ADD(hh, queue->users, name, len, user);
    return user;
}

static struct rows_query *
new_query(struct rows_request *request, const struct query_key *key)
{
    struct rows_queue *queue = request->queue;
    struct rows_query *query = memory_new(sizeof(*query) + key->text.len);

    query->owner = request->user;
    query->not_before_us = INT64_MAX;
    query->is_known = key->is_known;
    query->is_of_user = key->is_of_user;
    query->key_len = key->text.len;
    memcpy(query->key, key->text.bytes, key->text.len);
    HASH_ADD(hh, queue->waiting, key, query->key_len, query);
    if (query->owner->waiting == NULL)
        DL_APPEND(queue->turns, query->owner);
    DL_APPEND(query->owner->waiting, query);
    return query;
}

/* Removes the query from its user's list. The caller sets the new state. */
static void
remove_waiting(struct rows_queue *queue, struct rows_query *query)
{
    struct rows_user *owner = query->owner;

    HASH_DEL(queue->waiting, query);
    DL_DELETE(owner->waiting, query);
    if (owner->waiting == NULL)
        DL_DELETE(queue->turns, owner);
    query->owner = NULL;
    free_user_if_unused(queue, owner);
}

static void
count_waiting(struct rows_queue *queue, size_t count)
{
    queue->waiting_count = count;
    stats_set(queue->stats, STAT_ROWS_WAITING, count);
}

static void
wait_for_query(struct rows_request *request, int64_t not_before_us)
{
    struct rows_queue *queue = request->queue;
    struct query_key key = key_of(request);
    struct rows_query *query;

    HASH_FIND(hh, queue->waiting, key.text.bytes, key.text.len, query);
    if (query == NULL)
        query = new_query(request, &key);
    if (query->not_before_us > not_before_us)
        query->not_before_us = not_before_us;
    request->not_before_us = not_before_us;
    request->query = query;
    DL_APPEND(query->requests, request);
    count_waiting(queue, queue->waiting_count + 1);
    buffer_free(&key.text);
}

static enum rows_status
check_limits(const struct rows_queue *queue, const struct rows_user *user, const char *source)
{
    if (is_stuck(queue, source))
        return ROWS_TIMED_OUT;
    if (user->request_count >= ROWS_PER_USER_MAX || !may_receive(queue, user))
        return ROWS_USER_LIMIT;
    return queue->waiting_count >= queue->limits.waiting ? ROWS_BUSY : ROWS_OK;
}

enum rows_status
rows_queue_add(struct rows_queue *queue, const struct rows_wanted *wanted,
               const struct rows_events *events, void *ctx, int64_t now_us,
               struct rows_request **ret_request)
{
    struct rows_user *user = user_of(queue, wanted->user);
    enum rows_status status = check_limits(queue, user, wanted->source);
    struct rows_request *request;

    if (status != ROWS_OK) {
        free_user_if_unused(queue, user);
        stats_add(queue->stats, rows_error_of(status)->stat, 1);
        return status;
    }
    request = memory_new(sizeof(*request));
    *request = (struct rows_request){.queue = queue,
                                     .user = user,
                                     .events = events,
                                     .ctx = ctx,
                                     .deadline_us = now_us + queue->limits.wait_us,
                                     .delay_us = REPEAT_FIRST_US};
    request->wanted.source = memory_text(wanted->source, strlen(wanted->source));
    request->wanted.rule = memory_text(wanted->rule, strlen(wanted->rule));
    request->wanted.groups = memory_text(wanted->groups, strlen(wanted->groups));
    request->wanted.conditions = rows_conditions_copy(&wanted->conditions);
    request->wanted.user = user->name;
    user->request_count++;
    wait_for_query(request, now_us);
    *ret_request = request;
    return ROWS_OK;
}

/* ---- running */

bool
rows_queue_has_next(const struct rows_queue *queue, int64_t now_us)
{
    return select_next(queue, now_us) != NULL;
}

struct rows_query *
rows_queue_next(struct rows_queue *queue, int64_t now_us)
{
    struct rows_query *query = select_next(queue, now_us);
    const struct rows_request *request;
    size_t count = 0;

    if (query == NULL)
        return NULL;
    DL_DELETE(queue->turns, query->owner);
    DL_APPEND(queue->turns, query->owner);
    DL_FOREACH (query->requests, request)
        count++;
    count_waiting(queue, queue->waiting_count - count);
    stats_add(queue->stats, STAT_ROWS_SHARED, count - 1);
    remove_waiting(queue, query);
    query->state = ROWS_QUERY_RUNNING;
    query->requester = query->requests;
    DL_APPEND(queue->running, query);
    return query;
}

const struct rows_wanted *
rows_query_wanted(const struct rows_query *query)
{
    return &query->requests->wanted;
}

/* ---- the end of requests and queries */

static void
leave_query(struct rows_request *request)
{
    struct rows_query *query = request->query;

    DL_DELETE(query->requests, request);
    if (query->requester == request)
        query->requester = NULL;
    request->query = NULL;
    if (query->state != ROWS_QUERY_WAITING)
        return;
    count_waiting(request->queue, request->queue->waiting_count - 1);
    if (query->requests != NULL)
        return;
    remove_waiting(request->queue, query);
    free(query);
}

/* Moves a waiting request to another list. */
static void
set_aside(struct rows_request *request, struct rows_query *aside)
{
    leave_query(request); /* after the last request the query is freed */
    request->query = aside;
    DL_APPEND(aside->requests, request);
}

/* Rebuilds the keys of the rule's waiting requests, once the audience is known. */
static void
renew_keys(struct rows_queue *queue, const struct rows_query *of_rule)
{
    struct rows_query aside = {.state = ROWS_QUERY_ENDED};
    struct rows_query *query, *next_query;
    struct rows_request *request, *next;
    size_t len = known_rule_len(of_rule->key);

    HASH_ITER (hh, queue->waiting, query, next_query) {
        if (query->key_len < len || memcmp(query->key, of_rule->key, len) != 0)
            continue;
        DL_FOREACH_SAFE (query->requests, request, next)
            set_aside(request, &aside);
    }
    while ((request = aside.requests) != NULL) {
        leave_query(request);
        wait_for_query(request, request->not_before_us);
    }
}

/* Requests of one user that share a result count its size once. */
static size_t
bytes_for_user(const struct rows_request *request)
{
    const struct rows_request *other;

    DL_FOREACH (request->user->holding, other) {
        if (other != request && other->result == request->result)
            return 0;
    }
    return request->result->bytes;
}

/* The callback may end this request or any other request. */
static void
fail(struct rows_request *request, enum rows_status status)
{
    struct rows_queue *queue = request->queue;

    stats_add(queue->stats, rows_error_of(status)->stat, 1);
    request->events->done(request->ctx, status, NULL, rows_queue_after_ms(queue, status));
}

/* The client reads the result until rows_request_end. */
static void
hold_result(struct rows_request *request, struct rows_result *result)
{
    request->result = rows_result_ref(result);
    request->user->held_bytes += bytes_for_user(request);
    DL_APPEND(request->user->holding, request);
}

/* Fails with an error that the server has returned. The callback may end any request. */
static void
reject(struct rows_request *request, enum rows_status status, struct rows_result *result)
{
    hold_result(request, result);
    stats_add(request->queue->stats, rows_error_of(status)->stat, 1);
    request->events->done(request->ctx, status, result, 0);
}

/* The callback may end this request or any other request. */
static void
succeed(struct rows_request *request, struct rows_result *result)
{
    if (!may_receive(request->queue, request->user)) {
        fail(request, ROWS_USER_LIMIT);
        return;
    }
    hold_result(request, result);
    request->events->done(request->ctx, ROWS_OK, result, 0);
}

static void
end_query(struct rows_queue *queue, struct rows_query *query)
{
    DL_DELETE(queue->running, query);
    query->state = ROWS_QUERY_ENDED;
}

static void
count_stuck(struct rows_queue *queue)
{
    const struct rows_query *query;
    size_t count = 0;

    DL_FOREACH (queue->running, query)
        count += query->state == ROWS_QUERY_STUCK;
    stats_set(queue->stats, STAT_ROWS_STUCK, count);
}

/* `status` is why the query must be repeated. */
static void
wait_again(struct rows_request *request, enum rows_status status, int64_t now_us)
{
    stats_add(request->queue->stats, STAT_ROWS_REPEATED, 1);
    request->repeated = status;
    wait_for_query(request, now_us + request->delay_us);
    if (request->delay_us < REPEAT_MAX_US)
        request->delay_us *= 2;
}

void
rows_queue_complete(struct rows_queue *queue, struct rows_query *query, struct rows_result *result,
                    int64_t now_us)
{
    const struct rows_request *requester = query->requester;
    /* false for another user: the rule had another audience than in the key */
    bool is_shared = query->is_of_user || strcmp(result->header.audience, "ALL") == 0;
    struct rows_request *request;

    end_query(queue, query);
    if (known_rule_set(&queue->rules, query->key, result->header.audience))
        renew_keys(queue, query);
    while ((request = query->requests) != NULL) {
        bool may_have = is_shared || request == requester;

        leave_query(request);
        if (!may_have)
            wait_for_query(request, now_us);
        else if (request->events->accepts(request->ctx, &result->header.snapshot))
            succeed(request, result);
        else if (now_us >= request->deadline_us)
            fail(request, ROWS_STALE);
        else
            wait_again(request, ROWS_STALE, now_us);
    }
    free(query);
}

void
rows_queue_fail(struct rows_queue *queue, struct rows_query *query, enum rows_status status,
                struct rows_result *result, int64_t now_us)
{
    const struct rows_request *requester = query->requester;
    struct known_rule *rule = known_rule_find(queue->rules, query->key, known_rule_len(query->key));
    struct rows_request *request;

    if (status == ROWS_DENIED && rule != NULL && result == NULL)
        /* the rule may have another audience now, or no longer exist */
        known_rule_remove(&queue->rules, rule);
    end_query(queue, query);
    while ((request = query->requests) != NULL) {
        /* another user may not know that the rule exists */
        bool has_same_error = (status != ROWS_DENIED && status != ROWS_INVALID) ||
                              query->is_of_user || request == requester;

        leave_query(request);
        if (!has_same_error)
            wait_for_query(request, now_us);
        else if (result != NULL)
            reject(request, status, result);
        else
            fail(request, status);
    }
    free(query);
}

void
rows_queue_repeat(struct rows_queue *queue, struct rows_query *query, int64_t now_us)
{
    struct rows_request *request, *next;

    end_query(queue, query);
    DL_FOREACH_SAFE (query->requests, request, next) {
        leave_query(request);
        if (request->was_lost)
            request->deadline_us = now_us; /* rows_queue_expire ends the request */
        request->was_lost = true;
        wait_for_query(request, now_us);
    }
    free(query);
}

void
rows_queue_postpone(struct rows_queue *queue, struct rows_query *query, int64_t now_us)
{
    struct rows_request *request;

    end_query(queue, query);
    while ((request = query->requests) != NULL) {
        leave_query(request);
        wait_again(request, ROWS_LOCKED, now_us);
    }
    free(query);
}

void
rows_queue_abandon(struct rows_queue *queue, struct rows_query *query)
{
    struct rows_request *request;

    query->state = ROWS_QUERY_STUCK;
    while ((request = query->requests) != NULL) {
        leave_query(request);
        fail(request, ROWS_TIMED_OUT);
    }
    count_stuck(queue);
}

void
rows_queue_release(struct rows_queue *queue, struct rows_query *query)
{
    end_query(queue, query);
    count_stuck(queue);
    free(query);
}

void
rows_queue_expire(struct rows_queue *queue, enum rows_status status, int64_t now_us)
{
    struct rows_query ended = {.state = ROWS_QUERY_ENDED};
    struct rows_query *query, *next_query;
    struct rows_request *request, *next;

    /* the callbacks come later, because they may change all lists */
    HASH_ITER (hh, queue->waiting, query, next_query) {
        DL_FOREACH_SAFE (query->requests, request, next) {
            if (request->deadline_us <= now_us)
                set_aside(request, &ended);
        }
    }
    while ((request = ended.requests) != NULL) {
        leave_query(request);
        fail(request, request->repeated != ROWS_OK ? request->repeated : status);
    }
}

void
rows_request_hold(struct rows_request *request, size_t bytes)
{
    request->copied_bytes += bytes;
    request->user->held_bytes += bytes;
    *request->result->held_bytes += bytes;
}

void
rows_request_end(struct rows_request *request)
{
    struct rows_user *user = request->user;

    if (request->query != NULL)
        leave_query(request);
    if (request->result != NULL) {
        user->held_bytes -= bytes_for_user(request) + request->copied_bytes;
        DL_DELETE(user->holding, request);
        *request->result->held_bytes -= request->copied_bytes;
        rows_result_unref(request->result);
    }
    user->request_count--;
    free_user_if_unused(request->queue, user);
    free((char *)request->wanted.source);
    free((char *)request->wanted.rule);
    free((char *)request->wanted.groups);
    rows_conditions_free(&request->wanted.conditions);
    free(request);
}

/* ---- delays */

void
rows_queue_measure(struct rows_queue *queue, int64_t elapsed_us)
{
    queue->mean_us += (elapsed_us - queue->mean_us) / MEAN_WEIGHT;
}

/* Randomized, so that clients do not retry simultaneously. */
int64_t
rows_queue_after_ms(const struct rows_queue *queue, enum rows_status status)
{
    int64_t waiting = (int64_t)(HASH_COUNT(queue->waiting) + 1);
    int64_t full_ms = waiting * queue->mean_us / (int64_t)queue->limits.connections / 1000;
    struct backoff spread = {.cap_ms = AFTER_MAX_MS};

    if (!rows_error_of(status)->is_retryable)
        return 0;
    if (status == ROWS_TIMED_OUT)
        full_ms = 2 * queue->limits.wait_us / 1000;
    spread.base_ms = 2 * (full_ms < AFTER_MIN_MS ? AFTER_MIN_MS : full_ms);
    return backoff_next_ms(&spread);
}

void
rows_queue_close(struct rows_queue *queue)
{
    known_rules_free(&queue->rules);
}
