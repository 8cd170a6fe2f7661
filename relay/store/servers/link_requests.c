/* link_requests.c: sends the commands and scripts of a link. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/connection/fault.h"
#include "store/connection/reply.h"
#include "store/connection/send_queue.h"
#include "store/servers/link_private.h"

struct request {
    struct request *prev, *next;
    struct link *link;
    link_reply *reply;
    void *ctx;
    size_t left;       /* commands without a reply */
    enum time_of what; /* TIME_COUNT: not a script */
    int64_t sent_us;
};

static void
ignore_reply(void *ctx, const struct redisReply *reply)
{
    (void)ctx;
    (void)reply;
}

/* Calls the pending callbacks with NULL. Their replies are ignored. */
static void
cancel_requests(struct link *link)
{
    struct request *request;

    DL_FOREACH (link->requests, request) {
        link_reply *reply = request->reply;

        request->reply = ignore_reply;
        for (size_t left = request->left; left > 0; left--)
            reply(request->ctx, NULL);
    }
}

void
link_wait_while_busy(struct link *link)
{
    char where[URL_FORMAT_MAX];
    const bool was_up = link->state == LINK_UP;

    if (!link->is_busy && servers_is_new_failure(link->servers, &link->address)) {
        url_format(&link->address, where);
        log_warn(link->name, "store is busy with a script: waiting", LOG_TEXT("server", where),
                 LOG_TEXT("hint", fault_hint("BUSY ")));
    }
    link->is_busy = true;
    link->state = LINK_HANDSHAKE;
    ev_timer_stop(link->loop, &link->retry);
    ev_timer_set(&link->retry, LINK_POLL_S, 0.0);
    ev_timer_start(link->loop, &link->retry);
    if (!was_up)
        return;
    link->was_silent_s = 0; /* it replies */
    cancel_requests(link);
    link->events.on_down(link->events.ctx, "busy");
}

static void
on_redis_reply(redisAsyncContext *redis, void *reply, void *ctx)
{
    struct request *request = ctx;
    struct link *link = request->link;
    const bool is_last = --request->left == 0;
    const bool is_busy =
        link->state == LINK_UP && reply_is_error(reply) && fault_is_busy(reply_text(reply));

    (void)redis;
    link->pending--;
    link->received_us = clock_monotonic_us();
    if (link->stats != NULL && request->what != TIME_COUNT && reply != NULL && is_last)
        stats_time(link->stats, request->what, link->received_us - request->sent_us);
    if (is_last)
        DL_DELETE(link->requests, request);
    request->reply(request->ctx, is_busy ? NULL : reply);
    if (is_busy && link->state == LINK_UP)
        link_wait_while_busy(link);
    if (is_last)
        free(request);
}

static struct request *
new_request(struct link *link, link_reply *reply, void *ctx, size_t count, enum time_of what)
{
    struct request *request = memory_new(sizeof(*request));
    int64_t now_us = clock_monotonic_us();

    *request = (struct request){
        .link = link, .reply = reply, .ctx = ctx, .left = count, .what = what, .sent_us = now_us};
    DL_APPEND(link->requests, request);
    if (link->pending == 0)
        link->received_us = now_us;
    return request;
}

static enum rc
send_now(struct link *link, enum time_of what, link_reply *reply, void *ctx, int argc,
         const char **argv, const size_t *lens)
{
    struct request *request = new_request(link, reply, ctx, 1, what);

    if (send_queue_send(link->queue, on_redis_reply, request, argc, argv, lens) != RC_OK) {
        DL_DELETE(link->requests, request);
        free(request);
        return RC_AGAIN;
    }
    link->pending++;
    return RC_OK;
}

enum rc
link_send(struct link *link, link_reply *reply, void *ctx, int argc, const char **argv,
          const size_t *lens)
{
    if (link->state != LINK_UP)
        return RC_AGAIN;
    return send_now(link, TIME_COUNT, reply, ctx, argc, argv, lens);
}

void
link_measure(struct link *link, struct stats *stats)
{
    link->stats = stats;
}

static enum time_of
time_of_script(enum store_script script)
{
    return script == STORE_SCRIPT_ingest   ? TIME_SCRIPT_INGEST
           : script == STORE_SCRIPT_report ? TIME_SCRIPT_REPORT
           : script == STORE_SCRIPT_ack    ? TIME_SCRIPT_ACK
           : script == STORE_SCRIPT_due    ? TIME_SCRIPT_DUE
                                           : TIME_SCRIPT_OTHER;
}

enum rc
link_send_ready(struct link *link, enum time_of what, link_reply *reply, void *ctx, char *bytes,
                size_t len, size_t count)
{
    if (link->state != LINK_UP) {
        free(bytes);
        return RC_AGAIN;
    }
    send_queue_send_ready(link->queue, on_redis_reply, new_request(link, reply, ctx, count, what),
                          bytes, len, count);
    link->pending += (unsigned)count;
    return RC_OK;
}

const char *
link_none_key(const struct link *link)
{
    return link->none_key;
}

enum rc
link_call(struct link *link, enum store_script script, int key_count, link_reply *reply, void *ctx,
          int argc, const char **argv, const size_t *lens)
{
    const size_t none_at = 3 + (size_t)key_count, rest = (size_t)(argc - key_count);
    const char **all = memory_new(sizeof(*all) * (size_t)(argc + 4));
    size_t *all_lens = lens == NULL ? NULL : memory_new(sizeof(*all_lens) * (size_t)(argc + 4));
    char keys[16];
    enum rc rc = RC_AGAIN;

    snprintf(keys, sizeof(keys), "%d", key_count + 1);
    all[0] = "EVALSHA";
    all[1] = link->shas[script];
    all[2] = keys;
    memcpy(all + 3, argv, sizeof(*all) * (size_t)key_count);
    all[none_at] = link->none_key;
    memcpy(all + none_at + 1, argv + key_count, sizeof(*all) * rest);
    if (lens != NULL) {
        for (int i = 0; i < 3; i++)
            all_lens[i] = strlen(all[i]);
        memcpy(all_lens + 3, lens, sizeof(*all_lens) * (size_t)key_count);
        all_lens[none_at] = strlen(link->none_key);
        memcpy(all_lens + none_at + 1, lens + key_count, sizeof(*all_lens) * rest);
    }
    if (link->state == LINK_UP)
        rc = send_now(link, time_of_script(script), reply, ctx, argc + 4, all, all_lens);
    free(all);
    free(all_lens);
    return rc;
}

void
link_send_setup(struct link *link, link_reply *reply, int argc, const char *a, const char *b,
                const char *c)
{
    const char *argv[] = {a, b, c};

    if (send_now(link, TIME_COUNT, reply, link, argc, argv, NULL) != RC_OK)
        link_fail(link, "could not send a command");
}
