/*
 * audit.c: stores the acts of operators, and reads them.
 *
 * An act waits in a queue until the store has it. One request is in flight. After a lost reply it
 * is repeated with the same id, which audit.lua ignores if the stream has it already. A command
 * waits for each reply.
 */
#include "store/admin.h"

#include <ev.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rates.h"
#include "store/admin/admin_private.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "wire/subscription.h"

#define AUDIT "audit"
#define RETRY_S 1.0
#define BATCH_MAX 16
#define NUMBER_TEXT 24
#define COLUMNS 9 /* of a row of audit_read.lua */
#define REMOVED_PREFIX "sha256:"

_Static_assert(AUDIT_HASH_TEXT == SUBSCRIPTION_ID_TEXT, "both are a SHA-256 in base64url");

void
audit_hash(const char *name, char ret_hash[AUDIT_HASH_TEXT + 1])
{
    subscription_id(name, ret_hash);
}

/* ---- one act, as the arguments of audit.lua */

static char *
copy(const char *text)
{
    return memory_text(text, strlen(text));
}

static struct audit_act *
act_new(const struct log_act *act, int64_t at_us, const char *id)
{
    struct audit_act *made = memory_new(sizeof(*made));

    snprintf(made->id, sizeof(made->id), "%s", id);
    snprintf(made->at, sizeof(made->at), "%" PRId64, at_us / 1000);
    audit_hash(act->actor, made->actor_hash);
    if (act->user[0] != '\0')
        audit_hash(act->user, made->user_hash);
    made->actor = copy(act->actor);
    made->act = copy(act->act);
    made->before = copy(act->before);
    made->user = copy(act->user);
    made->after = copy(act->after);
    return made;
}

static void
act_free(struct audit_act *act)
{
    if (act == NULL)
        return;
    free(act->actor);
    free(act->act);
    free(act->before);
    free(act->user);
    free(act->after);
    free(act);
}

/* Adds the arguments before the acts. `is_repeat`: an earlier call had no reply. */
static void
begin_arguments(const struct shard *shard, bool is_repeat, struct arguments *arguments)
{
    shard_arguments(shard, arguments);
    argument(arguments, is_repeat ? "1" : "");
}

static void
add_arguments(const struct audit_act *act, struct arguments *arguments)
{
    argument(arguments, act->id);
    argument(arguments, act->at);
    argument(arguments, act->actor);
    argument(arguments, act->actor_hash);
    argument(arguments, act->act);
    argument(arguments, act->before);
    argument(arguments, act->user);
    argument(arguments, act->user_hash);
    argument(arguments, act->after);
}

/* ---- the queue of a relay */

struct audit {
    struct store *store;
    struct ev_loop *loop;
    struct stats *stats;
    struct audit_act *first;
    struct audit_act **end;
    size_t count;
    uint64_t next_id;
    size_t in_flight; /* acts of the request, at the start of the queue; 0: no request */
    bool is_repeat;   /* the last request had no reply */
    bool is_closed;
    struct throttle warning;
    ev_timer retry;
};

struct audit_write {
    struct shard_request request;
    struct audit *audit;
};

static void send_acts(struct audit *audit);

static void
remove_first(struct audit *audit)
{
    struct audit_act *act = audit->first;

    audit->first = act->next;
    if (audit->first == NULL)
        audit->end = &audit->first;
    audit->count--;
    act_free(act);
}

static void
schedule_retry(struct audit *audit)
{
    if (audit->is_closed || audit->count == 0)
        return;
    ev_timer_stop(audit->loop, &audit->retry);
    ev_timer_set(&audit->retry, RETRY_S, 0.);
    ev_timer_start(audit->loop, &audit->retry);
}

/* The reply is the number of acts within 90 days that were trimmed. */
static bool
on_written(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct audit *audit = ((struct audit_write *)request)->audit;

    (void)shard;
    if (!reply_is_integer(reply))
        return false;
    if (reply_integer(reply) > 0) {
        stats_add(audit->stats, STAT_AUDIT_LOST, (uint64_t)reply_integer(reply));
        log_warn(AUDIT, "audit stream full: oldest acts trimmed before 90 days",
                 LOG_INT("count", reply_integer(reply)));
    }
    return true;
}

static void
finish_write(struct shard_request *request, enum rc rc)
{
    struct audit *audit = ((struct audit_write *)request)->audit;
    size_t written = rc == RC_OK ? audit->in_flight : 0;

    audit->in_flight = 0;
    audit->is_repeat = rc != RC_OK;
    for (; written > 0; written--)
        remove_first(audit);
    if (rc == RC_OK)
        send_acts(audit);
    else
        schedule_retry(audit);
}

static const struct shard_request_kind write_kind = {
    .failure = "could not store an audit line", .on_reply = on_written, .finish = finish_write};

static void
send_acts(struct audit *audit)
{
    struct shard *shard = &audit->store->shards[0];
    struct arguments arguments = {.argc = 0};
    struct audit_write *write;
    size_t count = 0;

    if (audit->is_closed || audit->in_flight > 0 || audit->count == 0)
        return;
    if (!shard->is_up) {
        schedule_retry(audit);
        return;
    }
    write = shard_request_new(sizeof(*write), audit->store, &write_kind);
    write->audit = audit;
    begin_arguments(shard, audit->is_repeat, &arguments);
    for (const struct audit_act *act = audit->first; act != NULL && count < BATCH_MAX;
         act = act->next, count++)
        add_arguments(act, &arguments);
    audit->in_flight = count;
    shard_request_send_script(&write->request, shard, STORE_SCRIPT_audit, 1, &arguments);
    if (shard_request_sent(&write->request) != RC_OK) {
        audit->in_flight = 0;
        schedule_retry(audit);
    }
}

static void
on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    send_acts(timer->data);
}

void
audit_add(struct audit *audit, const struct log_act *act, int64_t at_us)
{
    struct audit_act *made;
    char id[AUDIT_ID_MAX];
    unsigned skipped;

    if (audit->is_closed)
        return;
    if (audit->count >= AUDIT_QUEUE_MAX) {
        stats_add(audit->stats, STAT_AUDIT_LOST, 1);
        if (throttle_allows(&audit->warning, clock_monotonic_us(), &skipped))
            log_warn(AUDIT,
                     "audit queue full: acts are only in the log until the store accepts writes",
                     LOG_INT("max", AUDIT_QUEUE_MAX), LOG_UINT("skipped", skipped));
        return;
    }
    snprintf(id, sizeof(id), "%s-%" PRIu64, store_relay_id(audit->store), audit->next_id++);
    made = act_new(act, at_us, id);
    *audit->end = made;
    audit->end = &made->next;
    audit->count++;
    send_acts(audit);
}

static void
on_act(void *ctx, const struct log_act *act, int64_t at_us)
{
    audit_add(ctx, act, at_us);
}

struct audit *
audit_open(struct ev_loop *loop, struct store *store, struct stats *stats)
{
    struct audit *audit = memory_new(sizeof(*audit));

    audit->store = store;
    audit->loop = loop;
    audit->stats = stats;
    audit->end = &audit->first;
    ev_timer_init(&audit->retry, on_retry, RETRY_S, 0.);
    audit->retry.data = audit;
    log_audit_listen(on_act, audit);
    return audit;
}

void
audit_close(struct audit *audit)
{
    if (audit == NULL)
        return;
    log_audit_listen(NULL, NULL);
    ev_timer_stop(audit->loop, &audit->retry);
    audit->is_closed = true;
}

void
audit_free(struct audit *audit)
{
    if (audit == NULL)
        return;
    if (audit->count > 0)
        log_error(AUDIT, "acts are only in the log: the store did not accept them before the stop",
                  LOG_UINT("count", audit->count));
    while (audit->count > 0)
        remove_first(audit);
    free(audit);
}

/* ---- the acts of a command */

/* Stores the oldest act. A repeat is harmless. */
static bool
store_first(struct command *command)
{
    struct audit_act *act = command->acts;
    struct arguments arguments = {.argc = 0};
    struct redisReply *reply;

    begin_arguments(&command->store->shards[0], true, &arguments);
    add_arguments(act, &arguments);
    reply = command_call(
        command, 0,
        &(struct command_call){STORE_SCRIPT_audit, (int)arguments.argc, arguments.argv, false});
    arguments_free(&arguments);
    if (reply == NULL)
        return false;
    free(reply);
    command->acts = act->next;
    act_free(act);
    return true;
}

static void
close_audit(struct command *command)
{
    while (command->acts != NULL && store_first(command))
        ;
    if (command->acts != NULL)
        fprintf(stderr,
                "clairon: could not store the audit line, which is only in this output: %s\n",
                command->error);
    while (command->acts != NULL) {
        struct audit_act *act = command->acts;

        command->acts = act->next;
        act_free(act);
    }
}

void
command_audit(struct command *command, const struct log_act *act, int64_t at_us)
{
    struct audit_act **end = &command->acts;
    char id[AUDIT_ID_MAX];

    command->close_audit = close_audit;
    snprintf(id, sizeof(id), "%s-%u", store_relay_id(command->store), command->act_count++);
    while (*end != NULL)
        end = &(*end)->next;
    *end = act_new(act, at_us, id);
    /* The change must not wait for a shard that it does not need. */
    while (command->acts != NULL && command->store->shards[0].is_up && store_first(command))
        ;
}

/* ---- reading */

struct audit_read {
    struct shard_request request;
    store_audit_read_done *done;
};

/* Adds a name, or the hash of a removed user. */
static enum rc
add_name(struct buffer *out, struct bytes name, struct bytes hash)
{
    if (name.len > 0 || hash.len == 0)
        return buffer_add(out, name.at, name.len);
    return buffer_addf(out, REMOVED_PREFIX "%.*s", (int)hash.len, (const char *)hash.at);
}

/* A row: at, actor, its hash, act, before, user, its hash, after. */
static enum rc
write_row(const struct redisReply *page, size_t at, struct buffer *text, struct buffer *out)
{
    struct bytes column[COLUMNS];
    char time[CLOCK_TEXT_MAX];
    enum rc rc;

    for (size_t i = 0; i < COLUMNS; i++) {
        column[i] = reply_bytes(reply_at(page, at + i));
        if (column[i].at == NULL)
            return RC_BAD;
    }
    clock_text_ms(strtoll((const char *)column[1].at, NULL, 10), time);
    rc = buffer_addf(out, "{\"at\":\"%s\",\"actor\":", time);
    buffer_clear(text);
    if (rc == RC_OK)
        rc = add_name(text, column[2], column[3]);
    if (rc == RC_OK)
        rc = buffer_add_json(out, text->bytes != NULL ? text->bytes : "", text->len);
    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"act\":");
    if (rc == RC_OK)
        rc = buffer_add_json(out, (const char *)column[4].at, column[4].len);
    buffer_clear(text);
    if (rc == RC_OK)
        rc = buffer_add(text, column[5].at, column[5].len);
    if (rc == RC_OK)
        rc = add_name(text, column[6], column[7]);
    if (rc == RC_OK)
        rc = buffer_add(text, column[8].at, column[8].len);
    if (rc == RC_OK)
        rc = buffer_addf(out, ",\"object\":");
    if (rc == RC_OK)
        rc = buffer_add_json(out, text->bytes != NULL ? text->bytes : "", text->len);
    return rc == RC_OK ? buffer_addf(out, "}") : rc;
}

static enum rc
write_page(const struct redisReply *page, struct buffer *out)
{
    struct buffer text;
    enum rc rc = buffer_addf(out, "[");

    buffer_init(&text, AUDIT_PAGE_BYTES_MAX);
    for (size_t at = 1; at + COLUMNS <= reply_count(page) && rc == RC_OK; at += COLUMNS) {
        if (at > 1)
            rc = buffer_addf(out, ",");
        if (rc == RC_OK)
            rc = write_row(page, at, &text, out);
    }
    buffer_free(&text);
    return rc == RC_OK ? buffer_addf(out, "]\n") : rc;
}

static bool
is_page(const struct redisReply *reply)
{
    return reply_is_array(reply, 1) && reply_text(reply_at(reply, 0)) != NULL &&
           (reply_count(reply) - 1) % COLUMNS == 0;
}

static void
finish_read(struct shard_request *request, enum rc rc)
{
    const struct audit_read *read = (struct audit_read *)request;
    struct buffer out;

    buffer_init(&out, AUDIT_PAGE_BYTES_MAX);
    if (rc == RC_OK)
        rc = write_page(request->reply, &out) == RC_OK ? RC_OK : RC_IO;
    read->done(request->ctx, rc, &out, rc == RC_OK ? reply_text(reply_at(request->reply, 0)) : "");
    buffer_free(&out);
}

static const struct shard_request_kind read_kind = {
    .failure = "could not read audit lines", .is_valid = is_page, .finish = finish_read};

enum rc
store_audit_read(struct store *store, const char *after, unsigned limit,
                 store_audit_read_done *done, void *ctx)
{
    struct audit_read *read = shard_request_new(sizeof(*read), store, &read_kind);
    struct arguments arguments = {.argc = 0};

    read->done = done;
    read->request.ctx = ctx;
    shard_arguments(&store->shards[0], &arguments);
    argument(&arguments, after);
    argument_number(&arguments, limit);
    shard_request_send_script(&read->request, &store->shards[0], STORE_SCRIPT_audit_read, 1,
                              &arguments);
    return shard_request_sent(&read->request);
}
