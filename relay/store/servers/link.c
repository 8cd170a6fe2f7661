/* link.c: one connection to the store: connects, supervises, reconnects. */
#include "store/servers/link.h"

#include <ev.h>
#include <hiredis/async.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/rates.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/connection/connect.h"
#include "store/connection/reply.h"
#include "store/connection/send_queue.h"
#include "store/scripts/constants.h"
#include "store/servers/servers.h"
#include "store/servers/topology.h"
#include "store/timeouts.h"

#define LINK_REASON_MAX 256
#define CALL_WORDS_FEW 32 /* most calls of scripts have fewer words */

static const struct {
    const char *text, *sha;
} scripts[] = {
#define STORE_SCRIPT_ENTRY(name) {store_script_##name, store_script_sha_##name},
    STORE_SCRIPTS(STORE_SCRIPT_ENTRY)
#undef STORE_SCRIPT_ENTRY
};

/*
 * DOWN -> CONNECTING -> HANDSHAKE -> UP. Each of the last three states may return to DOWN, and UP
 * to HANDSHAKE: a server that is busy with a script is polled like one that loads its dataset.
 */
enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_HANDSHAKE, LINK_UP };

struct link {
    enum link_state state;
    struct ev_loop *loop;
    const char *name;
    struct link_events events;
    struct stats *stats; /* NULL: scripts are not measured */
    struct servers *servers;
    struct servers_listener listener;
    double ping_s; /* an idle connection sends PING at this interval */
    bool may_pause;
    struct url address; /* host "" and path "": unknown */
    struct connect connect;
    struct backoff backoff;
    ev_timer reconnect; /* LINK_DOWN: runs the next attempt; LINK_HANDSHAKE: repeats INFO */
    ev_timer watchdog;
    int64_t watchdog_us; /* time of the last watchdog */
    double timeout_s;
    struct request *requests; /* utlist, in flight */
    unsigned pending;         /* commands in flight */
    int64_t received_us;      /* time of the last reply (or its last bytes), or start of the wait */
    int64_t heard_us;         /* time of the last reply of a usable connection */
    int scripts_missing;      /* on the server, until they are loaded */
    bool is_loading;
    bool is_busy;      /* the server runs a script (fault_is_busy) */
    bool is_usable;    /* the connection works: the backoff is reset */
    int64_t usable_us; /* end of the last usable connection; at first the time of link_open */
    char none_key[STORE_KEY_MAX];
    bool closing;
};

struct request {
    struct request *prev, *next;
    struct link *link;
    link_reply *reply;
    void *ctx;
    size_t left;       /* commands without a reply */
    enum time_of what; /* TIME_COUNT: not a script */
    int64_t sent_us;
};

bool
link_is_redirected(const struct link *link, const char *error)
{
    return servers_can_move(link->servers) && fault_is_redirection(error);
}

/* A failover breaks many connections, and each is retried: log one message per server. */
static void
log_failure(struct link *link, const char *reason, int64_t delay_ms)
{
    const int64_t waited_s = (clock_monotonic_us() - link->usable_us) / 1000000;
    char where[URL_FORMAT_MAX];

    url_format(&link->address, where);
    if (!servers_is_new_failure(link->servers, &link->address))
        log_debug(link->name, "store connection failed", LOG_TEXT("error", reason),
                  LOG_TEXT("server", where), LOG_INT("retry_ms", delay_ms));
    else if (!link_is_redirected(link, reason))
        log_warn(link->name, "store connection failed", LOG_TEXT("error", reason),
                 LOG_TEXT("hint", fault_hint(reason)), LOG_TEXT("server", where),
                 LOG_INT("retry_ms", delay_ms));
    else if (waited_s < LINK_LASTING_S)
        log_info(link->name, "shard is moving to another server: waiting",
                 LOG_TEXT("reason", reason), LOG_TEXT("server", where));
    else
        log_warn(link->name, "shard is unavailable: waiting", LOG_TEXT("reason", reason),
                 LOG_TEXT("hint", "check the nodes: clairon doctor"), LOG_TEXT("server", where),
                 LOG_INT("waited_s", waited_s));
}

/* Seconds since the last reply or, if no command was pending, since the next command. */
static double
link_silent_s(const struct link *link)
{
    return (double)(clock_monotonic_us() - link->received_us) / 1e6;
}

static void
report_failure(const struct link *link, const char *reason)
{
    char server[URL_FORMAT_MAX];

    if (link->events.on_failed == NULL)
        return;
    url_format(&link->address, server);
    link->events.on_failed(link->events.ctx, link->is_usable ? NULL : server, reason);
}

/* The only transition to LINK_DOWN; used in every other state. */
void
link_restart(struct link *link, const char *reason)
{
    char kept[LINK_REASON_MAX];
    int64_t delay_ms;
    bool was_up;

    if (link == NULL || link->state == LINK_DOWN)
        return;
    was_up = link->state == LINK_UP;
    snprintf(kept, sizeof(kept), "%s",
             reason != NULL ? reason : ""); /* `reason` may point into the context */
    if (link->is_usable)
        link->usable_us = clock_monotonic_us();
    else
        link->connect.failures++; /* a replica, which rejects writes, also counts as a failure */
    link->state = LINK_DOWN;
    link->is_busy = false;
    if (reason != NULL && !link->closing)
        report_failure(link, kept);
    connect_stop(&link->connect);
    if (link->closing)
        return;
    delay_ms = backoff_next_ms(&link->backoff);
    if (reason != NULL) {
        log_failure(link, kept, delay_ms);
        servers_recheck(link->servers, &link->listener);
    }
    ev_timer_stop(link->loop, &link->reconnect);
    ev_timer_set(&link->reconnect, (double)delay_ms / 1000.0, 0.0);
    ev_timer_start(link->loop, &link->reconnect);
    if (was_up)
        link->events.on_down(link->events.ctx, kept);
}

static void
ignore_reply(void *ctx, const struct redisReply *reply)
{
    (void)ctx;
    (void)reply;
}

/*
 * The server is busy with a script: pending requests end as if the connection was lost, and the
 * link is down until the server replies again. The connection is kept.
 */
static void
link_wait_while_busy(struct link *link)
{
    char where[URL_FORMAT_MAX];
    const bool was_up = link->state == LINK_UP;
    struct request *request;

    if (!link->is_busy && servers_is_new_failure(link->servers, &link->address)) {
        url_format(&link->address, where);
        log_warn(link->name, "store is busy with a script: waiting", LOG_TEXT("server", where),
                 LOG_TEXT("hint", fault_hint("BUSY ")));
    }
    link->is_busy = true;
    link->state = LINK_HANDSHAKE;
    ev_timer_stop(link->loop, &link->reconnect);
    ev_timer_set(&link->reconnect, LINK_POLL_S, 0.0);
    ev_timer_start(link->loop, &link->reconnect);
    if (!was_up)
        return;
    DL_FOREACH (link->requests, request) {
        link_reply *reply = request->reply;

        request->reply = ignore_reply; /* its replies arrive later */
        for (size_t left = request->left; left > 0; left--)
            reply(request->ctx, NULL);
    }
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
    link->received_us = send_queue_received_us(link->connect.queue);
    if (link->is_usable && reply != NULL)
        link->heard_us = link->received_us;
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

    if (send_queue_send(link->connect.queue, on_redis_reply, request, argc, argv, lens) != RC_OK) {
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

int64_t
link_heard_us(const struct link *link)
{
    return link->heard_us;
}

void
link_measure(struct link *link, struct stats *stats)
{
    link->stats = stats;
}

const char *
link_script_text(enum store_script script)
{
    return scripts[script].text;
}

enum time_of
link_script_time(enum store_script script)
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
    send_queue_send_ready(link->connect.queue, on_redis_reply,
                          new_request(link, reply, ctx, count, what), bytes, len, count);
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
    const bool has_few = argc + 4 <= CALL_WORDS_FEW;
    const char *few[CALL_WORDS_FEW];
    size_t few_lens[CALL_WORDS_FEW];
    const char **all = has_few ? few : memory_new(sizeof(*all) * (size_t)(argc + 4));
    size_t *all_lens = has_few ? few_lens : memory_new(sizeof(*all_lens) * (size_t)(argc + 4));
    char keys[BYTES_DECIMAL_MAX + 1] = "";
    enum rc rc = RC_AGAIN;

    *bytes_decimal((uint64_t)key_count + 1, keys) = '\0';
    all[0] = "EVALSHA";
    all[1] = scripts[script].sha;
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
        rc = send_now(link, link_script_time(script), reply, ctx, argc + 4, all,
                      lens != NULL ? all_lens : NULL);
    if (!has_few) {
        free(all);
        free(all_lens);
    }
    return rc;
}

/* Sends a command of up to three words in any state with a connection. */
static void
link_send_setup(struct link *link, link_reply *reply, int argc, const char *a, const char *b,
                const char *c)
{
    const char *argv[] = {a, b, c};

    if (send_now(link, TIME_COUNT, reply, link, argc, argv, NULL) != RC_OK)
        link_restart(link, "could not send a command");
}

/* Returns false if the link has gone down. */
static bool
handshake_accepted(struct link *link, const struct redisReply *reply)
{
    if (link->state != LINK_HANDSHAKE || reply == NULL)
        return false; /* the disconnect callback logs the reason */
    if (!reply_is_error(reply))
        return true;
    if (fault_is_busy(reply_text(reply)))
        link_wait_while_busy(link);
    else
        link_restart(link, reply_text(reply));
    return false;
}

static void
begin_up(struct link *link)
{
    link->state = LINK_UP;
    link->events.on_up(link->events.ctx);
}

static void
on_loaded(void *ctx, const struct redisReply *reply)
{
    struct link *link = ctx;

    if (link->is_busy || !handshake_accepted(link, reply))
        return; /* the handshake begins again */
    if (--link->scripts_missing == 0)
        begin_up(link);
}

/* A server keeps scripts until it ends, so most connections load none. */
static void
on_exist(void *ctx, const struct redisReply *reply)
{
    struct link *link = ctx;

    if (!handshake_accepted(link, reply))
        return;
    if (!reply_is_array(reply, STORE_SCRIPT_COUNT)) {
        link_restart(link, "invalid reply to SCRIPT EXISTS");
        return;
    }
    link->scripts_missing = 0;
    for (int i = 0; i < STORE_SCRIPT_COUNT; i++)
        link->scripts_missing += reply_integer(reply_at(reply, (size_t)i)) == 0;
    if (link->scripts_missing == 0) {
        begin_up(link);
        return;
    }
    for (int i = 0; i < STORE_SCRIPT_COUNT && link->state == LINK_HANDSHAKE; i++)
        if (reply_integer(reply_at(reply, (size_t)i)) == 0)
            link_send_setup(link, on_loaded, 3, "SCRIPT", "LOAD", scripts[i].text);
}

static void
find_scripts(struct link *link)
{
    const char *argv[2 + STORE_SCRIPT_COUNT] = {"SCRIPT", "EXISTS"};

    for (int i = 0; i < STORE_SCRIPT_COUNT; i++)
        argv[2 + i] = scripts[i].sha;
    if (send_now(link, TIME_COUNT, on_exist, link, 2 + STORE_SCRIPT_COUNT, argv, NULL) != RC_OK)
        link_restart(link, "could not send a command");
}

static void
on_info(void *ctx, const struct redisReply *reply)
{
    struct link *link = ctx;
    const char *info = reply_text(reply);

    if (!handshake_accepted(link, reply))
        return;
    if (info != NULL && strstr(info, "\nrole:slave") != NULL && servers_can_move(link->servers)) {
        link_restart(link, "READONLY this server is a replica");
        return;
    }
    if (info != NULL && strstr(info, "\nloading:1") != NULL) {
        if (!link->is_loading)
            log_warn(link->name, "store is loading its dataset");
        link->is_loading = true;
        ev_timer_set(&link->reconnect, LINK_POLL_S, 0.0);
        ev_timer_start(link->loop, &link->reconnect);
        return;
    }
    link->is_loading = link->is_busy = false;
    find_scripts(link);
}

static void
on_selected(void *ctx, const struct redisReply *reply)
{
    struct link *link = ctx;

    if (handshake_accepted(link, reply)) /* KeyDB replies to PING while it loads its dataset */
        link_send_setup(link, on_info, 1, "INFO", NULL, NULL);
}

static void
send_select(struct link *link)
{
    char database[16];

    snprintf(database, sizeof(database), "%d", link->address.database);
    link_send_setup(link, on_selected, 2, "SELECT", database, NULL);
}

static void
on_authenticated(void *ctx, const struct redisReply *reply)
{
    struct link *link = ctx;

    if (handshake_accepted(link, reply))
        send_select(link);
}

/* Authenticates, waits until the dataset is loaded, and loads the scripts; then on_up is called. */
static void
link_begin_handshake(struct link *link)
{
    if (link->address.password[0] == '\0')
        send_select(link);
    else if (link->address.user[0] == '\0')
        link_send_setup(link, on_authenticated, 2, "AUTH", link->address.password, NULL);
    else
        link_send_setup(link, on_authenticated, 3, "AUTH", link->address.user,
                        link->address.password);
}

bool
link_is_up(const struct link *link)
{
    return link->state == LINK_UP;
}

bool
link_is_busy(const struct link *link)
{
    return link->is_busy;
}

void
link_set_usable(struct link *link)
{
    backoff_reset(&link->backoff);
    link->is_usable = true;
    servers_confirm(link->servers, &link->listener);
}

static void
on_connected(void *ctx)
{
    struct link *link = ctx;

    link->state = LINK_HANDSHAKE;
    link_begin_handshake(link);
}

static void
on_disconnected(void *ctx, const char *reason)
{
    link_restart(ctx, reason);
}

static void
link_connect(struct link *link)
{
    if (servers_find(link->servers, link->listener.shard, &link->address) != RC_OK)
        return; /* on_found is called later */
    link->state = LINK_CONNECTING;
    link->is_usable = false;
    link->received_us = clock_monotonic_us();
    connect_start(&link->connect);
}

static bool
is_waiting(const struct link *link)
{
    return link->pending > 0 || link->state == LINK_CONNECTING;
}

/* The servers have replied. A working connection is kept unless the result is final. */
static void
on_found(void *ctx, bool is_final)
{
    struct link *link = ctx;
    bool works = link->state == LINK_UP && !link->listener.searches &&
                 (!is_waiting(link) || link_silent_s(link) < LINK_SLOW_S);
    struct url address;
    char where[URL_FORMAT_MAX], reason[LINK_REASON_MAX];
    bool has_moved =
        servers_find(link->servers, link->listener.shard, &address) == RC_OK &&
        (address.port != link->address.port || strcmp(address.host, link->address.host) != 0);

    if (!has_moved || (works && !is_final))
        return; /* the backoff timer starts another attempt */
    backoff_reset(&link->backoff);
    url_format(&address, where);
    snprintf(reason, sizeof(reason), "MOVED to %.200s", where);
    link_restart(link, reason);
    ev_timer_stop(link->loop, &link->reconnect);
    link_connect(link);
}

static void
on_reconnect(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct link *link = timer->data;

    (void)loop;
    (void)events;
    if (link->state == LINK_DOWN)
        link_connect(link);
    else if (link->state == LINK_HANDSHAKE)
        link_begin_handshake(link);
}

static void
on_watchdog(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct link *link = timer->data;
    const struct link_events *of = &link->events;
    const int64_t now_us = clock_monotonic_us(), since_us = link->watchdog_us;
    const int64_t bytes_us = send_queue_received_us(link->connect.queue);

    (void)loop;
    (void)events;
    link->watchdog_us = now_us;
    if (bytes_us > link->received_us)
        link->received_us = bytes_us; /* a large reply may take longer than the timeout */
    if (link->state == LINK_DOWN)
        return;
    if (link->may_pause && now_us - since_us > LINK_PAUSED_US) {
        link->received_us = now_us; /* replies that have arrived are read next */
    } else if (servers_can_move(link->servers) && now_us - since_us > LINK_PAUSED_US) {
        /* Meanwhile a shard may have moved, and its move may have been repaired only in part. */
        link->heard_us = now_us;
        link_restart(link, "the relay was paused");
    } else if (is_waiting(link) && link_silent_s(link) > LINK_SEARCH_S) {
        /* The peer may be unreachable, and its replica may soon become the primary. */
        if (of->ignores_timeout != NULL && of->ignores_timeout(of->ctx))
            link->received_us =
                clock_monotonic_us(); /* the wait begins when replies are expected */
        else if (link_silent_s(link) > link->timeout_s)
            link_restart(link, "reply timed out");
        else
            servers_recheck(link->servers, &link->listener);
    } else {
        if (link->is_usable)
            servers_confirm(link->servers, &link->listener);
        if (link->pending == 0 && link->state == LINK_UP && link_silent_s(link) >= link->ping_s)
            link_send_setup(link, ignore_reply, 1, "PING", NULL, NULL);
    }
}

struct link *
link_open(struct ev_loop *loop, const struct config *config, const struct link_target *target,
          double timeout_s, const struct link_events *events)
{
    const struct topology topology = topology_of(config);
    struct link *link = memory_new(sizeof(*link));
    bool can_move = servers_can_move(target->servers);
    char prefix[STORE_PREFIX_MAX];

    link->loop = loop;
    link->name = target->name;
    link->events = *events;
    link->timeout_s = timeout_s;
    link->backoff = (struct backoff){LINK_BACKOFF_BASE_MS,
                                     can_move ? LINK_MOVE_CAP_MS : LINK_BACKOFF_CAP_MS, 0};
    link->servers = target->servers;
    link->may_pause = target->may_pause;
    link->ping_s =
        topology_is_first_shard(&topology, target->shard) ? LINK_PING_S : LINK_PING_FURTHER_S;
    link->listener =
        (struct servers_listener){.shard = target->shard, .on_found = on_found, .ctx = link};
    topology_shard_prefix(&topology, config->store.prefix, target->shard, prefix);
    key_write(link->none_key, prefix, KEY_NONE);
    link->connect = (struct connect){.loop = loop,
                                     .config = config,
                                     .address = &link->address,
                                     .queue = send_queue_new(loop),
                                     .arena = reply_arena_new(),
                                     .expected = &link->pending,
                                     .on_up = on_connected,
                                     .on_down = on_disconnected,
                                     .ctx = link};
    ev_timer_init(&link->reconnect, on_reconnect, 0.0, 0.0);
    link->reconnect.data = link;
    ev_timer_init(&link->watchdog, on_watchdog, LINK_WATCHDOG_S, LINK_WATCHDOG_S);
    link->watchdog.data = link;
    link->watchdog_us = link->usable_us = clock_monotonic_us();
    ev_timer_start(loop, &link->watchdog);
    servers_join(link->servers, &link->listener);
    /* Connects from the loop: no callback runs before link_open returns. */
    ev_timer_start(loop, &link->reconnect);
    return link;
}

void
link_close(struct link *link)
{
    if (link == NULL)
        return;
    link->closing = true;
    link_restart(link, "closing");
    servers_leave(link->servers, &link->listener);
    ev_timer_stop(link->loop, &link->reconnect);
    ev_timer_stop(link->loop, &link->watchdog);
    explicit_bzero(&link->address, sizeof(link->address));
    send_queue_free(link->connect.queue);
    reply_arena_free(link->connect.arena);
    free(link);
}
