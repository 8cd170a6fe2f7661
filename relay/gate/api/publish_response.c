/*
 * publish_response.c: delays the response of POST /v1/notifications until enough replicas have the
 * notification, and the store has synced it to disk.
 *
 * A notification published over HTTP is not in WAL, so a failover to a replica that lacks it loses
 * it. Replicas report what they have received every second; meanwhile the store syncs.
 *
 * A store with appendfsync everysec may lose more than the last second of acknowledged writes when
 * it is killed. KeyDB has no WAITAOF. So, as in feed_confirm.c, the gate waits for
 * store_fsync_delay_us and then checks that the store still has the notification. If the store
 * restarted meanwhile, it has loaded the notification from disk.
 */
#include "gate/api/publish_response.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/memory.h"
#include "gate/http/response.h"
#include "gate/http/response_writer.h"
#include "gate/http/store_request.h"
#include "gate/net/gate_shared.h"
#include "wire/http_head.h"
#include "gate/api/idempotency_cache.h"
#include "hub/hub.h"
#include "store/store.h"
#include "store/trace.h"

#define SECOND_US INT64_C(1000000)
#define UNCONFIRMED "notification not confirmed by the store"
#define SPACES " \t"
#define PREFER_WAIT_MAX 3600
#define REPLICAS_REPORT_US (2 * SECOND_US) /* replicas report within this time */
#define REPLICAS_TIMEOUT_S 8 /* less than the time limit for a reply of the store (requests.c) */

struct gate_publish_sync {
    struct gate *gate;              /* NULL: the gate is closed */
    struct gate_publish_sync *prev; /* link of publisher->syncing */
    struct gate_publish_sync *next;
    struct store_request *store_request;
    int64_t synced_us; /* monotonic; the store has synced the notification */
    struct ev_timer due;
    bool is_repeated;
    int shard;
    char *key; /* key in the idempotency cache; NULL: none */
    char *user;
    char id[FRAME_UUID_TEXT + 1];
};

static void
syncing_free(struct gate_publish_sync *syncing)
{
    if (syncing->gate != NULL) {
        ev_timer_stop(syncing->gate->loop, &syncing->due);
        DL_DELETE(syncing->gate->publisher->syncing, syncing);
    }
    free(syncing->key);
    free(syncing->user);
    free(syncing);
}

/* The cache must not return a notification that the store has lost. */
static void
remove_key(const struct gate_publish_sync *syncing)
{
    if (syncing->gate != NULL && syncing->key != NULL)
        idempotency_cache_remove(syncing->gate->publisher->idempotency_cache, syncing->user,
                                 syncing->key);
}

static void
respond(struct gate_request *request, bool is_repeated, const char *id, bool is_synced)
{
    struct response response;

    response_init(&response, is_repeated ? 200 : 201, GATE_JSON);
    if (is_repeated)
        response_header(&response, "Idempotency-Replayed: true");
    if (is_synced)
        response_header(&response, "Preference-Applied: wait");
    response_header(&response, "Location: /v1/notifications/%s", id);
    if (buffer_addf(&response.body, "{\"id\":\"%s\"}\n", id) != RC_OK)
        buffer_clear(&response.body);
    gate_request_respond(request, &response);
}

static void
end_sync(struct gate_publish_sync *syncing, const char *problem)
{
    struct gate_request *request = store_request_done(syncing->store_request);

    if (request != NULL && problem == NULL)
        respond(request, syncing->is_repeated, syncing->id, true);
    else if (request != NULL)
        gate_request_problem(request, 503, 0, problem);
    syncing_free(syncing);
}

static void
on_sync_traced(void *ctx, enum rc rc, const struct trace *trace)
{
    struct gate_publish_sync *syncing = ctx;

    if (rc == RC_OK && trace_is_empty(trace)) {
        remove_key(syncing);
        end_sync(syncing, "store lost the notification before it was synced to disk");
    } else {
        end_sync(syncing, rc == RC_OK ? NULL : UNCONFIRMED);
    }
}

static void
on_due(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate_publish_sync *syncing = timer->data;

    (void)loop;
    (void)events;
    if (store_trace(hub_store(syncing->gate->hub), syncing->shard, syncing->id, on_sync_traced,
                    syncing) != RC_OK)
        end_sync(syncing, UNCONFIRMED);
}

static void
wait_for_sync(struct gate_publish_sync *syncing)
{
    int64_t left_us = syncing->synced_us - clock_monotonic_us();

    ev_timer_set(&syncing->due, left_us > 0 ? (double)left_us / SECOND_US : 0., 0.);
    ev_timer_start(syncing->gate->loop, &syncing->due);
}

static void
on_replicated(void *ctx, enum rc rc)
{
    struct gate_publish_sync *syncing = ctx;

    if (rc == RC_OK && syncing->gate != NULL)
        wait_for_sync(syncing);
    else
        end_sync(syncing,
                 rc == RC_AGAIN ? "notification stored, but on too few replicas" : UNCONFIRMED);
}

/* The replicas and the disk receive the notification at the same time. */
static void
wait_for_replicas(struct gate_publish_sync *syncing, int wait_s)
{
    const int timeout_s = wait_s > 0 && wait_s < REPLICAS_TIMEOUT_S ? wait_s : REPLICAS_TIMEOUT_S;
    struct store *store = hub_store(syncing->gate->hub);

    if (store_min_replicas(store) == 0)
        wait_for_sync(syncing);
    else if (store_replicate_shard(store, (unsigned)syncing->shard, timeout_s * SECOND_US,
                                   on_replicated, syncing) != RC_OK)
        end_sync(syncing, UNCONFIRMED);
}

static void
begin_sync(struct gate_request *request, const char *key, bool is_repeated, const char *id)
{
    struct gate *gate = request->gate;
    const char *user = request->token.user;
    struct gate_publish_sync *syncing = memory_new(sizeof(*syncing));
    int64_t delay_us = store_fsync_delay_us(hub_store(gate->hub));

    *syncing = (struct gate_publish_sync){.gate = gate,
                                          .store_request = store_request_new(request),
                                          .is_repeated = is_repeated,
                                          .shard = (int)gate_publication_of(request)->shard,
                                          .key = key != NULL ? memory_text(key, strlen(key)) : NULL,
                                          .user = memory_text(user, strlen(user))};
    memcpy(syncing->id, id, sizeof(syncing->id));
    ev_timer_init(&syncing->due, on_due, 0., 0.);
    syncing->due.data = syncing;
    syncing->synced_us = clock_monotonic_us() + delay_us;
    DL_APPEND(gate->publisher->syncing, syncing);
    wait_for_replicas(syncing, gate_publication_of(request)->wait_s);
}

/* A wait that is too short for a confirmation is ignored. */
static bool
is_sync_wanted(struct gate_request *request)
{
    const struct gate_publication *own = gate_publication_of(request);
    const struct gate *gate = request->gate;
    const struct store *store = hub_store(gate->hub);
    int64_t least_us = store_min_replicas(store) > 0 ? REPLICAS_REPORT_US : 0;

    if (least_us < store_fsync_delay_us(store))
        least_us = store_fsync_delay_us(store);
    return gate->config->store.publish_sync ||
           (own->wait_s > 0 && own->wait_s * SECOND_US >= least_us);
}

void
gate_publish_respond(struct gate_request *request, const char *key, bool is_repeated,
                     const char *id)
{
    if (is_sync_wanted(request))
        begin_sync(request, key, is_repeated, id);
    else
        respond(request, is_repeated, id, false);
}

/* Returns the end of a preference: a comma outside quotes, or the end of the value. */
static const char *
preference_end(const char *text)
{
    bool is_quoted = false;

    for (; *text != '\0' && (*text != ',' || is_quoted); text++) {
        if (*text == '"')
            is_quoted = !is_quoted;
        else if (*text == '\\' && is_quoted && text[1] != '\0')
            text++;
    }
    return text;
}

/* Returns the seconds of a preference "wait", quoted or not; 0: another preference, or invalid. */
static long
wait_of(const char *preference)
{
    static const char WAIT[] = "wait";
    const char *value = preference + strspn(preference, SPACES);
    char *end;
    long seconds;
    bool is_quoted;

    if (strncasecmp(value, WAIT, sizeof(WAIT) - 1) != 0)
        return 0;
    value += sizeof(WAIT) - 1;
    value += strspn(value, SPACES);
    if (*value++ != '=')
        return 0;
    value += strspn(value, SPACES);
    is_quoted = *value == '"';
    value += is_quoted;
    if (*value < '0' || *value > '9')
        return 0;
    seconds = strtol(value, &end, 10);
    if (is_quoted && *end++ != '"')
        return 0;
    end += strspn(end, SPACES);
    return *end == '\0' || *end == ',' || *end == ';' ? seconds : 0;
}

/* RFC 7240: the first of duplicate preferences is used. */
int
gate_publish_wait(const struct http_head *head)
{
    char *prefer = http_head_text(head, "prefer", 255);
    const char *at = prefer;
    long seconds = 0;

    while (at != NULL && seconds == 0) {
        seconds = wait_of(at);
        at = preference_end(at);
        at = *at == ',' ? at + 1 : NULL;
    }
    free(prefer);
    return seconds > 0 && seconds <= PREFER_WAIT_MAX ? (int)seconds : 0;
}

void
gate_publish_respond_stop(struct gate *gate)
{
    struct gate_publish_sync *syncing, *next;

    DL_FOREACH_SAFE (gate->publisher->syncing, syncing, next) {
        bool is_requested = !ev_is_active(&syncing->due);

        if (is_requested) { /* on_replicated or on_sync_traced frees `syncing` */
            DL_DELETE(gate->publisher->syncing, syncing);
            syncing->gate = NULL;
            continue;
        }
        (void)store_request_done(syncing->store_request);
        syncing_free(syncing);
    }
}
