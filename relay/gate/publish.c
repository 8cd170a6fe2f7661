/*
 * publish.c: POST /v1/notifications, and GET /v1/notifications/ID, which returns the trace.
 *
 * If store.publish_sync or the request requires it, the response is delayed until enough replicas
 * have the notification, and the store has synced it to disk.
 *
 * A notification published over HTTP is not in WAL, so a failover to a replica that lacks it loses
 * it. Replicas report what they have received every second; meanwhile the store syncs.
 *
 * A store with appendfsync everysec may lose more than the last second of acknowledged writes when
 * it is killed. KeyDB has no WAITAOF. So, as in feed/stream.c, the gate waits for
 * store_fsync_delay_us and then checks that the store still has the notification. If the store
 * restarted meanwhile, it has loaded the notification from disk.
 */
#include "gate/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/sha.h>

#include <uthash.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/store.h"
#include "store/admin.h"
#include "store/timeouts.h"
#include "wire/http_fields.h"
#include "wire/http_head.h"
#include "wire/publication.h"

#define SECOND_US INT64_C(1000000)
#define UNCONFIRMED "notification not confirmed by the store"
#define KEY_MAX 255
#define TRACEPARENT_MAX 255 /* maximum bytes of the header */

struct publisher {
    struct gate_publish_pending *pending; /* by Idempotency-Key */
    struct gate_publish_sync *syncing;
    struct idempotency_cache *idempotency_cache; /* recently used keys */
};

/* A publish request in progress, which locks its idempotency key. */
struct gate_publish_pending {
    UT_hash_handle hh;
    struct gate *gate;                   /* NULL: the gate is closed */
    struct store_request *store_request; /* may outlive its HTTP request */
    char *key;                           /* NULL: not in publisher->pending */
    char *user;
    char digest[STORE_DIGEST_TEXT + 1];
    char traceparent[TRACEPARENT_LEN + 1];
    int64_t since_us; /* monotonic; start of the store request */
};

/* A stored notification that is not synced yet. */
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

static struct gate_publication *
publication_of(struct gate_request *request)
{
    return (struct gate_publication *)request->route_state;
}

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
        /* The cache must not return a notification that the store has lost. */
        if (syncing->gate != NULL && syncing->key != NULL)
            idempotency_cache_remove(syncing->gate->publisher->idempotency_cache, syncing->user,
                                     syncing->key);
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
    const int64_t wait_us = wait_s * SECOND_US;

    store_await_replicas(hub_store(syncing->gate->hub), (unsigned)syncing->shard,
                         wait_us > 0 && wait_us < REPLICAS_PUBLISH_US ? wait_us
                                                                      : REPLICAS_PUBLISH_US,
                         on_replicated, syncing);
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
                                          .shard = (int)publication_of(request)->shard,
                                          .key = key != NULL ? memory_text(key, strlen(key)) : NULL,
                                          .user = memory_text(user, strlen(user))};
    memcpy(syncing->id, id, sizeof(syncing->id));
    ev_timer_init(&syncing->due, on_due, 0., 0.);
    syncing->due.data = syncing;
    syncing->synced_us = clock_monotonic_us() + delay_us;
    DL_APPEND(gate->publisher->syncing, syncing);
    wait_for_replicas(syncing, publication_of(request)->wait_s);
}

/* A wait that is too short for a confirmation is ignored. */
static bool
is_sync_wanted(struct gate_request *request)
{
    const struct gate_publication *own = publication_of(request);
    const struct gate *gate = request->gate;
    const struct store *store = hub_store(gate->hub);
    int64_t least_us = store_min_replicas(store) > 0 ? REPLICAS_REPORT_US : 0;

    if (least_us < store_fsync_delay_us(store))
        least_us = store_fsync_delay_us(store);
    return gate->config->store.publish_sync ||
           (own->wait_s > 0 && own->wait_s * SECOND_US >= least_us);
}

/*
 * Responds with 201, or 200 for a repeat. Waits for the sync if store.publish_sync or the request
 * requires it.
 */
static void
respond_or_sync(struct gate_request *request, const char *key, bool is_repeated, const char *id)
{
    if (is_sync_wanted(request))
        begin_sync(request, key, is_repeated, id);
    else
        respond(request, is_repeated, id, false);
}

/* A preference without seconds: as long as the store may take. */
static int
prefer_wait(const struct http_head *head)
{
    char *prefer = NULL;
    int seconds = 0;

    if (http_head_text(head, "prefer", 255, &prefer) == RC_OK && prefer != NULL)
        seconds = prefer_wait_s(prefer, REPLICAS_PUBLISH_US / SECOND_US);
    free(prefer);
    return seconds;
}

static struct gate_publish_pending *
pending_new(struct gate_request *request, char *key)
{
    struct gate_publish_pending *pending = memory_new(sizeof(*pending));

    *pending = (struct gate_publish_pending){
        .gate = request->gate,
        .store_request = store_request_new(request),
        .key = key,
        .user = memory_text(request->token.user, strlen(request->token.user)),
        .since_us = clock_monotonic_us()};
    if (key != NULL)
        HASH_ADD_KEYPTR(hh, request->gate->publisher->pending, pending->key, strlen(pending->key),
                        pending);
    return pending;
}

static bool
is_key_pending(const struct gate *gate, const char *key)
{
    struct gate_publish_pending *pending = NULL;

    if (key != NULL)
        HASH_FIND_STR(gate->publisher->pending, key, pending);
    return pending != NULL;
}

/* The caller frees store_request. */
static void
pending_free(struct gate_publish_pending *pending)
{
    if (pending->gate != NULL && pending->key != NULL)
        HASH_DELETE(hh, pending->gate->publisher->pending, pending);
    free(pending->key);
    free(pending->user);
    free(pending);
}

void
gate_publish_open(struct gate *gate)
{
    gate->publisher = memory_new(sizeof(*gate->publisher));
    gate->publisher->idempotency_cache = idempotency_cache_new();
}

void
gate_publish_close(struct gate *gate)
{
    struct gate_publish_pending *pending, *next;
    struct gate_publish_sync *syncing, *next_syncing;

    HASH_ITER (hh, gate->publisher->pending, pending, next) {
        HASH_DELETE(hh, gate->publisher->pending, pending);
        pending->gate = NULL;
    }
    DL_FOREACH_SAFE (gate->publisher->syncing, syncing, next_syncing) {
        bool is_requested = !ev_is_active(&syncing->due);

        if (is_requested) { /* on_replicated or on_sync_traced frees `syncing` */
            DL_DELETE(gate->publisher->syncing, syncing);
            syncing->gate = NULL;
            continue;
        }
        (void)store_request_done(syncing->store_request);
        syncing_free(syncing);
    }
    idempotency_cache_free(gate->publisher->idempotency_cache);
    free(gate->publisher);
    gate->publisher = NULL;
}

static void
respond_key_reused(struct gate_request *request)
{
    gate_request_problem(request, 422, GATE_ERR_BAD_REQUEST,
                         "Idempotency-Key reused with a different body");
}

static void
respond_expired(struct gate_request *request)
{
    gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, "metadata.expiration is in the past");
}

static void
on_published(void *ctx, enum rc rc, enum store_publish outcome, const char *id)
{
    struct gate_publish_pending *pending = ctx;
    struct gate_request *request = store_request_done(pending->store_request);
    struct gate *gate = pending->gate;
    bool is_new = rc == RC_OK && outcome == STORE_PUBLISHED;

    /* Caches only new notifications: the remaining lifetime of an older key is unknown. */
    if (is_new && gate != NULL && pending->key != NULL)
        idempotency_cache_add(gate->publisher->idempotency_cache, store_epoch(hub_store(gate->hub)),
                              pending->user, pending->key, pending->digest, id, pending->since_us);
    if (rc == RC_OK && outcome == STORE_PUBLISHED_BEFORE && gate != NULL)
        stats_add(gate->stats, STAT_REPEATS_STORE, 1);
    /* Logs the trace id with the notification's id, which other log messages contain. */
    if (is_new && pending->traceparent[0] != '\0')
        log_event(traceparent_is_sampled(pending->traceparent) ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG,
                  "gate", "notification published", LOG_TEXT("id", id),
                  LOG_TEXT("traceparent", pending->traceparent));
    if (request != NULL && rc != RC_OK)
        gate_request_problem(request, 503, 0, "store did not accept the notification");
    else if (request != NULL && outcome == STORE_PUBLISHED_DIFFERENT)
        respond_key_reused(request);
    else if (request != NULL && outcome == STORE_PUBLISHED_EXPIRED)
        respond_expired(request);
    else if (request != NULL)
        respond_or_sync(request, pending->key, outcome == STORE_PUBLISHED_BEFORE, id);
    pending_free(pending);
}

/* Responds from the idempotency cache. False: the key is not cached. */
static bool
respond_from_cache(struct gate_request *request, const char *key, const char *digest)
{
    struct gate *gate = request->gate;
    char id[FRAME_UUID_TEXT + 1];
    bool is_same;

    if (key == NULL || !idempotency_cache_find(
                           gate->publisher->idempotency_cache, store_epoch(hub_store(gate->hub)),
                           request->token.user, key, digest, clock_monotonic_us(),
                           STORE_IDEMPOTENCY_RETENTION_MS * INT64_C(1000), &is_same, id))
        return false;
    stats_add(gate->stats, STAT_REPEATS_MEMORY, is_same ? 1 : 0);
    if (is_same)
        respond_or_sync(request, key, true, id);
    else
        respond_key_reused(request);
    return true;
}

/* Starts with the length of the user's name, so that keys of two users never collide. */
static char *
key_of(struct gate_request *request)
{
    struct gate_publication *own = publication_of(request);
    size_t room = strlen(request->token.user) + KEY_MAX + 32;
    char *key;

    if (own->key == NULL)
        return NULL;
    key = memory_new(room);
    snprintf(key, room, "%zu:%s:%s", strlen(request->token.user), request->token.user, own->key);
    return key;
}

static void
publish(struct gate_request *request, const struct publication *publication)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    char digest[STORE_DIGEST_TEXT + 1] = "";
    char *key = key_of(request);
    struct gate_publish_pending *pending;

    /* with a key, it may repeat a request that was made before the expiration */
    if (publication->is_expired && key == NULL) {
        respond_expired(request);
        return;
    }
    /* A repeat must have the same bytes: two forms of one JSON document are two requests. */
    if (key != NULL) {
        SHA256((const unsigned char *)request->body.bytes, request->body.len, hash);
        bytes_hex(hash, sizeof(hash), digest);
    }
    publication_of(request)->shard =
        store_publish_shard(hub_store(request->gate->hub), publication, key);
    if (respond_from_cache(request, key, digest)) {
        free(key);
        return;
    }
    if (is_key_pending(request->gate, key)) {
        free(key);
        gate_request_problem(request, 409, 0, "request with this Idempotency-Key in progress");
        return;
    }
    pending = pending_new(request, key);
    memcpy(pending->digest, digest, sizeof(digest));
    memcpy(pending->traceparent, publication->traceparent, sizeof(pending->traceparent));
    if (store_publish(hub_store(request->gate->hub), publication, key, digest, on_published,
                      pending) != RC_OK) {
        struct store_request *store_request = pending->store_request;

        pending_free(pending);
        store_request_sent(store_request, RC_IO);
    }
}

void
gate_publish_free(struct gate_request *request)
{
    free(publication_of(request)->key);
    free(publication_of(request)->traceparent);
}

void
gate_publish_headers(struct gate_request *request)
{
    struct gate_publication *own = publication_of(request);
    const struct http_head *head = request->conn->head;
    static const char KEY[] = "idempotency-key";

    /* An empty key is a client error: if it were treated as absent, each repeat would be stored. */
    own->is_bad_key = http_head_text(head, KEY, KEY_MAX, &own->key) != RC_OK ||
                      (own->key == NULL && http_head_has(head, KEY));
    own->wait_s = prefer_wait(head);
    if (http_head_text(head, "traceparent", TRACEPARENT_MAX, &own->traceparent) != RC_OK)
        own->traceparent = NULL; /* invalid ones are ignored */
}

void
gate_publish(struct gate_request *request)
{
    struct gate_publication *own = publication_of(request);
    const char *prefix = request->gate->config->feed.topic_prefix;
    struct publication_origin origin = {
        .emitter = request->token.user,
        .topic_prefix = prefix != NULL ? prefix : store_topic_prefix(hub_store(request->gate->hub)),
        .traceparent = own->traceparent,
        .now_us = clock_wall_us()};
    struct publication publication = {0};
    char error[WIRE_ERROR_MAX];

    if (own->is_bad_key) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "Idempotency-Key must have 1 to 255 bytes");
    } else if (getrandom(origin.random, sizeof(origin.random), 0) !=
               (ssize_t)sizeof(origin.random)) {
        gate_request_problem(request, 500, 0, "random number generator failed");
    } else if (publication_parse(request->body.len > 0 ? request->body.bytes : "",
                                 request->body.len, &origin, &publication, error) != RC_OK) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST, error);
    } else if (!token_may_publish(&request->token, publication.audience, publication.topic)) {
        gate_request_problem(request, 403, GATE_ERR_PERMISSION,
                             "token claim \"publish\" does not allow this audience and topic");
        publication_free(&publication);
    } else if (publication.web_push != NULL && request->gate->web_push == NULL) {
        gate_request_problem(request, 400, GATE_ERR_BAD_REQUEST,
                             "web_push requires webpush.vapid_key_file in the relay");
        publication_free(&publication);
    } else {
        publish(request, &publication);
        publication_free(&publication);
    }
}
