/*
 * forget.c: removes a user from the store, shard by shard, with one script call at a time.
 *
 * Sessions end first, so that nothing about the user is added meanwhile. Then follow, in each
 * shard, pending pairs, sorted sets, the error log, the streams, and all other keys. Each step
 * finds what is left by itself, so the whole may be interrupted and repeated.
 */
#include "store/admin.h"

#include <ev.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/admin/admin_private.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"

#define NAME_JSON_MAX 4096
#define NUMBER_TEXT 24
#define POLL_S 0.1
#define SESSIONS_US 5000000 /* wait for relays to end the sessions */
#define KEYS_MIN 20         /* keys of a call of forget_keys.lua */
#define KEYS_FIRST "20"
#define KEYS_MAX 1000
#define WORK_MAX 2000   /* lookups of a call, about 2 ms */
#define DAY_MS 86400000 /* forget_log.lua */
#define READ_MS 120000  /* forget_log.lua */
#define TRIM_MS 120000  /* trim.lua runs once a minute */
#define START "0-0"

/* The steps in a shard, in this order. CLOSE, WAIT: only in shard 0, before all others. */
enum step {
    STEP_CLOSE,
    STEP_WAIT,
    STEP_PAIRS,
    STEP_DUE,
    STEP_ESCALATIONS,
    STEP_WEB_PUSHES,
    STEP_ERRORS,
    STEP_STREAM,
    STEP_RECEIPTS,
    STEP_CONTROL,
    STEP_ACK_EVENTS,
    STEP_KEYS,
    STEP_PAIRS_AGAIN,
    STEP_END
};

struct forget {
    struct shard_request request;
    store_forget_done *done;
    void *ctx;
    char *user;
    struct buffer json_name;
    char hash[AUDIT_HASH_TEXT + 1];
    enum step step;
    unsigned shard;
    char cursor[ENTRY_ID_TEXT_MAX + NUMBER_TEXT];
    char rest[ENTRY_ID_TEXT_MAX]; /* the argument after the cursor */
    bool reads_entry;             /* the reply is a large entry */
    int64_t deadline_us;
    ev_timer poll;
    struct store_forgotten result;
};

typedef bool handle_step(struct forget *forget, struct shard *shard,
                         const struct redisReply *reply);
static handle_step on_relays, on_pairs, on_scores, on_errors, on_stream, on_log, on_keys, on_end;

/* Arguments of the script: prefix, user, `argument`, cursor and `rest`, as far as they exist. */
static const struct {
    enum store_script script;
    handle_step *on_reply;
    const char *start;    /* the first cursor; NULL: the step is one call */
    const char *end;      /* the cursor in the last reply */
    const char *argument; /* NULL: see argument_of */
    const char *rest;     /* of the first call; replies may change it */
    /* of forget_log.lua: where names remain, and until when; 0: the retention of receipts */
    enum forget_place place;
    int64_t remain_ms;
} steps[] = {
    [STEP_CLOSE] = {STORE_SCRIPT_forget_sessions, on_relays, .rest = "close"},
    [STEP_WAIT] = {STORE_SCRIPT_forget_sessions, on_relays, .rest = "count"},
    [STEP_PAIRS] = {STORE_SCRIPT_forget_pairs, on_pairs, "-inf", ""},
    [STEP_DUE] = {STORE_SCRIPT_forget_scores, on_scores, "0", "0", KEY_DUE},
    [STEP_ESCALATIONS] = {STORE_SCRIPT_forget_scores, on_scores, "0", "0", KEY_ESCALATIONS},
    [STEP_WEB_PUSHES] = {STORE_SCRIPT_forget_scores, on_scores, "0", "0", KEY_WEB_PUSH_DUE},
    [STEP_ERRORS] = {STORE_SCRIPT_forget_errors, on_errors, START, "", .rest = "+"},
    [STEP_STREAM] = {STORE_SCRIPT_forget_stream, on_stream, START, "", .rest = ""},
    [STEP_RECEIPTS] = {STORE_SCRIPT_forget_log, on_log, START, "", "r", .place = FORGET_RECEIPTS},
    [STEP_CONTROL] = {STORE_SCRIPT_forget_log, on_log, START, "", "c", NULL, FORGET_CONTROL,
                      DAY_MS},
    [STEP_ACK_EVENTS] = {STORE_SCRIPT_forget_log, on_log, START, "", "e", NULL, FORGET_CONTROL,
                         READ_MS},
    [STEP_KEYS] = {STORE_SCRIPT_forget_keys, on_keys, "0", "0", .rest = KEYS_FIRST},
    [STEP_PAIRS_AGAIN] = {STORE_SCRIPT_forget_pairs, on_pairs, "-inf", ""},
    [STEP_END] = {STORE_SCRIPT_forget_sessions, on_end, .rest = "end"},
};

/* ---- results */

static void
remain(struct forget *forget, enum forget_place place, uint64_t entries, int64_t until_ms)
{
    struct forget_remainder *remainder = &forget->result.remain[place];

    remainder->entries += entries;
    if (entries > 0 && until_ms > remainder->until_ms)
        remainder->until_ms = until_ms;
}

static uint64_t
count_at(const struct redisReply *reply, size_t at)
{
    const long long number = reply_integer(reply_at(reply, at));

    return number > 0 ? (uint64_t)number : 0;
}

/* Times are texts, because Redis truncates numbers of Lua to 32 bits on some systems. */
static int64_t
time_at(const struct redisReply *reply, size_t at)
{
    const char *text = reply_text(reply_at(reply, at));

    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

/* ---- the calls */

static void
begin_step(struct forget *forget, enum step step)
{
    const char *start = steps[step].start, *rest = steps[step].rest;

    forget->step = step;
    snprintf(forget->cursor, sizeof(forget->cursor), "%s", start != NULL ? start : "");
    snprintf(forget->rest, sizeof(forget->rest), "%s", rest != NULL ? rest : "");
}

static const char *
argument_of(const struct forget *forget)
{
    switch (steps[forget->step].script) {
    case STORE_SCRIPT_forget_sessions:
        return forget->shard == 0 ? forget->hash : "";
    case STORE_SCRIPT_forget_pairs:
        return forget->request.store->script_settings.retention;
    case STORE_SCRIPT_forget_errors:
    case STORE_SCRIPT_forget_stream:
        return forget->json_name.bytes;
    default:
        return steps[forget->step].argument;
    }
}

static void
send_step(struct forget *forget)
{
    struct shard *shard = &forget->request.store->shards[forget->shard];
    struct arguments arguments = {.argc = 0};

    shard_arguments(shard, &arguments);
    argument(&arguments, forget->user);
    if (argument_of(forget) != NULL)
        argument(&arguments, argument_of(forget));
    if (steps[forget->step].start != NULL)
        argument(&arguments, forget->cursor);
    if (steps[forget->step].rest != NULL)
        argument(&arguments, forget->rest);
    shard_request_send_script(&forget->request, shard, steps[forget->step].script, 1, &arguments);
}

/* After STEP_END the next shard follows. Nothing is sent after the last one. */
static void
next_step(struct forget *forget)
{
    if (forget->step != STEP_END) {
        begin_step(forget, forget->step + 1);
    } else if (++forget->shard < forget->request.store->shard_count) {
        begin_step(forget, STEP_PAIRS);
    } else {
        return;
    }
    send_step(forget);
}

/* Continues a step at its next cursor, or with the next step. */
static void
continue_at(struct forget *forget, const char *cursor)
{
    if (cursor == NULL || strcmp(cursor, steps[forget->step].end) == 0) {
        next_step(forget);
        return;
    }
    snprintf(forget->cursor, sizeof(forget->cursor), "%s", cursor);
    send_step(forget);
}

/* ---- replies */

static void
on_poll(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct forget *forget = timer->data;

    (void)loop;
    (void)events;
    send_step(forget);
    shard_request_release(&forget->request);
}

/* Relays end the sessions, and report that the user has left. A paused relay is not awaited. */
static bool
on_relays(struct forget *forget, struct shard *shard, const struct redisReply *reply)
{
    (void)shard;
    if (!reply_is_integer(reply))
        return false;
    forget->result.is_connected = reply_integer(reply) > 0;
    if (!forget->result.is_connected || clock_monotonic_us() >= forget->deadline_us) {
        begin_step(forget, STEP_PAIRS);
        send_step(forget);
        return true;
    }
    begin_step(forget, STEP_WAIT);
    shard_request_hold(&forget->request);
    ev_timer_init(&forget->poll, on_poll, POLL_S, 0.);
    forget->poll.data = forget;
    ev_timer_start(forget->request.store->loop, &forget->poll);
    return true;
}

static bool
on_pairs(struct forget *forget, struct shard *shard, const struct redisReply *reply)
{
    (void)shard;
    forget->result.pairs += count_at(reply, 0);
    continue_at(forget, reply_text(reply_at(reply, 1)));
    return reply_is_array(reply, 2);
}

static bool
on_scores(struct forget *forget, struct shard *shard, const struct redisReply *reply)
{
    (void)shard;
    forget->result.removed += count_at(reply, 1);
    continue_at(forget, reply_text(reply_at(reply, 0)));
    return reply_is_array(reply, 2);
}

/* An entry is trimmed after the retention; while it is pending for others, it moves. */
static bool
on_stream(struct forget *forget, struct shard *shard, const struct redisReply *reply)
{
    const char *wanted = reply_text(reply_at(reply, 6)), *cursor = reply_text(reply_at(reply, 0));
    const int64_t newest_ms = time_at(reply, 3), expires_ms = time_at(reply, 4);

    if (!reply_is_array(reply, 7) || wanted == NULL || cursor == NULL)
        return false;
    forget->result.notifications += count_at(reply, 1);
    remain(forget, FORGET_STREAM, count_at(reply, 2),
           (expires_ms > newest_ms ? expires_ms : newest_ms) + TRIM_MS +
               strtoll(forget->request.store->script_settings.retention, NULL, 10));
    forget->result.remain[FORGET_STREAM].has_no_end |= count_at(reply, 5) > 0;
    forget->rest[0] = '\0';
    if (wanted[0] == '\0') {
        continue_at(forget, cursor);
        return true;
    }
    snprintf(forget->cursor, sizeof(forget->cursor), "%s", cursor);
    forget->reads_entry = true;
    shard_request_read_entry(&forget->request, shard, wanted);
    return true;
}

static bool
is_only_user(struct bytes targets, const char *user)
{
    struct bytes target;

    return frame_next_target(&targets, &target) == RC_OK && bytes_equal_text(target, user) &&
           targets.len == 0;
}

static bool
contains(struct bytes text, const void *part, size_t len)
{
    return text.len > 0 && memmem(text.at, text.len, part, len) != NULL;
}

/* Reports to forget_stream.lua what a large entry is, which no script should read. */
static bool
on_large_entry(struct forget *forget, const struct redisReply *reply)
{
    const size_t len = strlen(forget->user);
    unsigned char packed[2 + UINT8_MAX + 1];
    struct entry entry;
    bool is_alone = false, is_named = false;

    forget->reads_entry = false;
    if (reply_count(reply) > 0 && entry_read(reply_at(reply, 0), &entry) == RC_OK) {
        const struct frame_notification *fields = &entry.frame.as.notification;

        packed[0] = (unsigned char)(len >> 8);
        packed[1] = (unsigned char)len;
        memcpy(packed + 2, forget->user, len);
        is_alone = entry.is_retry ? is_only_user(entry.retry_users, forget->user)
                                  : bytes_equal_text(fields->audience, "USER") &&
                                        is_only_user(fields->targets, forget->user);
        is_named = contains(fields->targets, packed, len + 2) ||
                   contains(entry.retry_users, packed, len + 2) ||
                   contains(entry.data, forget->json_name.bytes, forget->json_name.len);
    }
    snprintf(forget->rest, sizeof(forget->rest), "%s", is_alone ? "1" : is_named ? "2" : "0");
    send_step(forget);
    return true;
}

static bool
on_log(struct forget *forget, struct shard *shard, const struct redisReply *reply)
{
    const char *cursor = reply_text(reply_at(reply, 0));
    const int64_t remain_ms = steps[forget->step].remain_ms;
    const int64_t until_ms =
        remain_ms > 0 ? clock_wall_us() / 1000 + remain_ms
                      : time_at(reply, 3) +
                            strtoll(shard->store->script_settings.receipts_retention, NULL, 10);

    if (!reply_is_array(reply, 4) || cursor == NULL)
        return false;
    forget->result.removed += count_at(reply, 1);
    remain(forget, steps[forget->step].place, count_at(reply, 2), until_ms + TRIM_MS);
    continue_at(forget, cursor);
    return true;
}

/* The error log has no retention: its oldest entries are trimmed when it is full. */
static bool
on_errors(struct forget *forget, struct shard *shard, const struct redisReply *reply)
{
    const char *cursor = reply_text(reply_at(reply, 0)), *last = reply_text(reply_at(reply, 1));

    (void)shard;
    if (!reply_is_array(reply, 5) || cursor == NULL || last == NULL)
        return false;
    snprintf(forget->rest, sizeof(forget->rest), "%s", last);
    forget->result.removed += count_at(reply, 2);
    remain(forget, FORGET_ERRORS, count_at(reply, 3), 0);
    forget->result.remain[FORGET_ERRORS].has_no_end |= count_at(reply, 3) > 0;
    continue_at(forget, cursor);
    return true;
}

/* The number of keys of the next call depends on the work of this one. */
static bool
on_keys(struct forget *forget, struct shard *shard, const struct redisReply *reply)
{
    const uint64_t work = count_at(reply, 1);
    unsigned long keys = strtoul(forget->rest, NULL, 10);

    (void)shard;
    if (!reply_is_array(reply, 3))
        return false;
    forget->result.removed += count_at(reply, 2);
    if (work > WORK_MAX && keys > KEYS_MIN)
        keys /= 2;
    else if (work < WORK_MAX / 4 && keys < KEYS_MAX)
        keys *= 2;
    snprintf(forget->rest, sizeof(forget->rest), "%lu", keys);
    continue_at(forget, reply_text(reply_at(reply, 0)));
    return true;
}

/* Shard 0 has the memberships. */
static bool
on_end(struct forget *forget, struct shard *shard, const struct redisReply *reply)
{
    if (shard->number == 0)
        forget->result.memberships = reply_integer(reply) > 0 ? (uint64_t)reply_integer(reply) : 0;
    next_step(forget);
    return reply_is_integer(reply);
}

static bool
on_reply(struct shard_request *request, struct shard *shard, const struct redisReply *reply)
{
    struct forget *forget = (struct forget *)request;

    if (forget->reads_entry)
        return on_large_entry(forget, reply);
    return steps[forget->step].on_reply(forget, shard, reply);
}

static void
finish_forget(struct shard_request *request, enum rc rc)
{
    struct forget *forget = (struct forget *)request;

    if (rc == RC_OK)
        log_info("forget", "user removed from the store", LOG_UINT("pairs", forget->result.pairs),
                 LOG_UINT("notifications", forget->result.notifications),
                 LOG_UINT("removed", forget->result.removed));
    forget->done(forget->ctx, rc, &forget->result);
}

static void
release(struct shard_request *request)
{
    struct forget *forget = (struct forget *)request;

    ev_timer_stop(request->store->loop, &forget->poll);
    buffer_free(&forget->json_name);
    free(forget->user);
}

static const struct shard_request_kind forget_kind = {.failure = "could not forget a user",
                                                      .on_reply = on_reply,
                                                      .finish = finish_forget,
                                                      .release = release};

enum rc
store_forget(struct store *store, const char *user, store_forget_done *done, void *ctx)
{
    struct forget *forget;

    if (strlen(user) > UINT8_MAX)
        return RC_BAD;
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (!store->shards[k].is_up)
            return RC_AGAIN;
    }
    forget = shard_request_new(sizeof(*forget), store, &forget_kind);
    forget->done = done;
    forget->ctx = ctx;
    forget->user = memory_text(user, strlen(user));
    forget->deadline_us = clock_monotonic_us() + SESSIONS_US;
    buffer_init(&forget->json_name, NAME_JSON_MAX);
    audit_hash(user, forget->hash);
    begin_step(forget, STEP_CLOSE);
    if (buffer_add_json(&forget->json_name, user, strlen(user)) != RC_OK) {
        release(&forget->request);
        free(forget);
        return RC_BAD;
    }
    send_step(forget);
    return shard_request_sent(&forget->request);
}

/* ---- commands */

struct command_forget {
    bool is_done;
    enum rc rc;
    struct store_forgotten forgotten;
};

static void
on_command_done(void *ctx, enum rc rc, const struct store_forgotten *forgotten)
{
    struct command_forget *call = ctx;

    call->is_done = true;
    call->rc = rc;
    call->forgotten = *forgotten;
}

enum rc
command_forget(struct command *command, const char *user, struct store_forgotten *ret_forgotten)
{
    const int64_t end_us = clock_monotonic_us() + COMMAND_RETRY_US;
    struct command_forget call = {.rc = RC_AGAIN};

    do {
        if (command_reach(command, true) != RC_OK)
            return RC_IO;
        if (command_missing(command)[0] != '\0')
            return command_fail(command, "shards unavailable: %s", command_missing(command));
        call.is_done = false;
        call.rc = store_forget(command->store, user, on_command_done, &call);
        while (call.rc == RC_OK && !call.is_done)
            command_run(command);
        if (call.is_done && call.rc == RC_OK) {
            *ret_forgotten = call.forgotten;
            return RC_OK;
        }
    } while (call.rc != RC_BAD && clock_monotonic_us() < end_us);
    return command_fail(command, call.rc == RC_BAD ? "the name of a user has 1 to 255 bytes"
                                                   : "the store did not accept all steps: run the "
                                                     "command again");
}

/* ---- the result */

static const char *const place_names[FORGET_PLACES] = {
    [FORGET_STREAM] = "notifications",
    [FORGET_ERRORS] = "error_log",
    [FORGET_RECEIPTS] = "receipts",
    [FORGET_CONTROL] = "changes",
};

static enum rc
write_remainder(const struct forget_remainder *remainder, const char *where, bool is_first,
                struct buffer *out)
{
    char until[CLOCK_TEXT_MAX];

    clock_text_ms(remainder->until_ms, until);
    return buffer_addf(out, "%s{\"where\":\"%s\",\"entries\":%" PRIu64 ",\"until\":%s%s%s}",
                       is_first ? "" : ",", where, remainder->entries,
                       remainder->has_no_end ? "" : "\"", remainder->has_no_end ? "null" : until,
                       remainder->has_no_end ? "" : "\"");
}

enum rc
store_forgotten_write(const struct store_forgotten *forgotten, struct buffer *out)
{
    bool is_first = true;
    enum rc rc =
        buffer_addf(out,
                    "{\"pairs\":%" PRIu64 ",\"notifications\":%" PRIu64 ",\"removed\":%" PRIu64
                    ",\"memberships\":%" PRIu64 ",\"connected\":%s,\"remaining\":[",
                    forgotten->pairs, forgotten->notifications, forgotten->removed,
                    forgotten->memberships, forgotten->is_connected ? "true" : "false");

    for (int i = 0; i < FORGET_PLACES && rc == RC_OK; i++) {
        if (forgotten->remain[i].entries == 0)
            continue;
        rc = write_remainder(&forgotten->remain[i], place_names[i], is_first, out);
        is_first = false;
    }
    return rc == RC_OK ? buffer_addf(out, "]}\n") : rc;
}
