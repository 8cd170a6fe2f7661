/*
 * store.c: opens and closes the store; whether it is up, and with which of its shards.
 *
 * The store is up while all of its shards are up. In a cluster it comes up without shards whose
 * connection is lost, or that wait for their keys (shard.h): PostgreSQL retains the WAL with their
 * notifications until they return. At the start all shards are required.
 */
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/connection/reply.h"
#include "store/shards/shard.h"
#include "store/shards/shard_request.h"
#include "store/timeouts.h"

unsigned
shard_of_user(unsigned shard_count, const char *user, size_t len)
{
    if (shard_count == 1)
        return 0;
    return 1 + (unsigned)(hash_bytes(HASH_START, user, len) % (shard_count - 1));
}

static bool
has_reader(const struct store *store)
{
    for (unsigned c = 0; c < store->topology.connections; c++) {
        if (store->shards[c].lacks_reader && !store->shards[c].is_left_out)
            return false;
    }
    return true;
}

static void
update_connected(const struct store *store)
{
    stats_set(store->stats, STAT_STORE_CONNECTED, store->is_up && has_reader(store) ? 1 : 0);
}

/* The only function that changes is_up, until store_close. */
static void
set_up(struct store *store, bool is_up)
{
    store->is_up = is_up;
    if (!is_up)
        replicas_down(store);
    update_connected(store);
    for (struct store_listener *l = store->listeners; l != NULL; l = l->next) {
        if (store->is_up)
            l->on_up(l->ctx);
        else if (l->on_down != NULL)
            l->on_down(l->ctx);
    }
}

static unsigned
count_down(const struct store *store)
{
    unsigned count = 0;

    for (unsigned k = 0; k < store->shard_count; k++)
        count += !store->shards[k].is_up;
    return count;
}

/* With several shards, the store's epoch changes when the epoch of any shard changes. */
static void
make_epoch(struct store *store)
{
    uint64_t hash = HASH_START ^ store->shard_count;

    if (store->shard_count == 1) {
        memcpy(store->epoch, store->shards[0].epoch, sizeof(store->epoch));
        return;
    }
    for (unsigned k = 0; k < store->shard_count; k++) {
        hash = hash_bytes(hash, store->shards[k].epoch, strlen(store->shards[k].epoch));
        hash = hash_bytes(hash, ":", 1);
    }
    snprintf(store->epoch, sizeof(store->epoch), "%016" PRIx64, hash);
}

static void
go_up(struct store *store)
{
    char list[SHARD_LIST_MAX] = "";

    store->has_begun = true;
    log_info("store", "store connected", LOG_TEXT("epoch", store->epoch));
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (store->shards[k].is_left_out)
            shard_list_add(list, k);
    }
    if (list[0] != '\0')
        log_warn("store", "shards are unavailable: storing and delivering without them",
                 LOG_TEXT("shards", list),
                 LOG_TEXT("hint", "PostgreSQL retains WAL until they are available again"));
    set_up(store, true);
}

/*
 * Shards are prepared at different times, so their newest stream entries have different WAL
 * positions. A search moves store->newest of each shard back to the lowest of these positions, if
 * it is found nearby, and then the store goes up, unless a shard goes down meanwhile.
 */
struct start_position {
    struct shard_request request;
    struct position min;
    bool is_superseded; /* replaced by a later search */
};

/*
 * If the search fails in a shard, the shard keeps its position. If a connection is lost, the store
 * goes up later.
 */
static void
finish_start_position(struct shard_request *request, enum rc rc)
{
    struct start_position *start = (struct start_position *)request;
    struct store *store = request->store;

    (void)rc;
    if (start->is_superseded)
        return;
    store->start = NULL;
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (request->is_disconnected || !store->shards[k].is_up)
            return;
    }
    go_up(store);
}

static void
send_start_position(struct start_position *start, struct shard *shard, const char *last)
{
    struct arguments arguments = {.argc = 0};
    char position[FRAME_POSITION_TEXT + 1];

    frame_position_text(start->min.lsn, start->min.ordinal, position);
    argument(&arguments, shard->stream_key);
    argument(&arguments, position);
    argument(&arguments, last);
    shard_request_send_script(&start->request, shard, STORE_SCRIPT_start_position, 1, &arguments);
}

static bool
on_start_position_reply(struct shard_request *request, struct shard *shard,
                        const struct redisReply *reply)
{
    struct start_position *start = (struct start_position *)request;
    const struct bytes found = reply_bytes(reply);
    struct entry_id id;

    if (!start->is_superseded && found.len > 0 && found.at[0] == '(') {
        send_start_position(start, shard, (const char *)found.at); /* continues after many bytes */
        return true;
    }
    if (start->is_superseded || found.at == NULL ||
        entry_id_read((const char *)found.at, found.len, &id) != RC_OK)
        return true;
    request->store->newest[shard->number] = history_label(&shard->history, id);
    request->store->newest_position[shard->number] = start->min;
    return true;
}

static const struct shard_request_kind start_kind = {.failure = "could not find the start position",
                                                     .on_reply = on_start_position_reply,
                                                     .finish = finish_start_position};

/* A new call replaces a search in flight. */
static void
start_position_find(struct store *store)
{
    struct start_position *start = shard_request_new(sizeof(*start), store, &start_kind);
    bool has_failed;

    if (store->start != NULL)
        store->start->is_superseded = true;
    store->start = start;
    for (unsigned k = 0; k < store->shard_count; k++) {
        const struct position to = store->newest_position[k];

        /* the lowest known position: an emptied shard has none */
        if (to.lsn != 0 && (start->min.lsn == 0 || position_less(to, start->min)))
            start->min = to;
    }
    for (unsigned k = 0; k < store->shard_count; k++) {
        char newest[ENTRY_ID_TEXT_MAX];

        entry_id_text(history_position(&store->shards[k].history, store->shards[k].seen), newest);
        if (position_less(start->min, store->newest_position[k]))
            send_start_position(start, &store->shards[k], newest);
    }
    has_failed = start->request.has_failed; /* a shard went down */
    start->is_superseded = has_failed;
    if (shard_request_sent(&start->request) == RC_OK && !has_failed)
        return;
    store->start = NULL;
    if (!has_failed)
        go_up(store);
}

/*
 * A shard records its progress less often than shard 0 (ingest.c). With its newest notification, it
 * has everything up to the position in shard 0.
 */
static struct position
newest_position_of(const struct store *store, unsigned k)
{
    const struct shard_cut *cut = &store->shards[0].cut;
    struct position position = store->shards[k].seen_position;

    if (k == 0 || store->shards[0].is_left_out)
        return position;
    if (!position_less(position, cut->sent[k]))
        position_raise(&position, cut->position);
    return position;
}

/* Goes up with the available shards. Listeners see each change of the set as down, then up. */
static void
regroup(struct store *store)
{
    ev_timer_stop(store->loop, &store->regroup);
    if (store->is_up)
        set_up(store, false);
    for (unsigned k = 0; k < store->shard_count; k++) {
        struct shard *shard = &store->shards[k];

        shard->is_left_out = !shard->is_up;
        store->newest[k] = shard->seen;
        store->newest_position[k] = newest_position_of(store, k);
    }
    make_epoch(store);
    if (store->shard_count > 1 && !store->has_begun)
        start_position_find(store);
    else
        go_up(store);
}

static void
on_regroup(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct store *store = timer->data;
    bool is_grouped = store->is_up;

    (void)events;
    ev_timer_stop(loop, timer);
    for (unsigned k = 0; k < store->shard_count; k++)
        is_grouped = is_grouped && store->shards[k].is_left_out != store->shards[k].is_up;
    /* If all shards are down, the return of a shard restarts the timer. */
    if (count_down(store) < store->shard_count && !is_grouped)
        regroup(store);
}

/* On a single server all shards are up or down together. */
static void
regroup_later(struct store *store)
{
    if (!store->has_begun || !store->topology.is_cluster || ev_is_active(&store->regroup))
        return;
    ev_timer_set(&store->regroup, REGROUP_TOGETHER_S, 0.0);
    ev_timer_start(store->loop, &store->regroup);
}

static void
on_shard_up(struct shard *shard)
{
    struct store *store = shard->store;
    const unsigned down = count_down(store);

    stats_set(store->stats, STAT_STORE_UNAVAILABLE, down);
    if (down == 0)
        regroup(store);
    else
        regroup_later(store);
}

static void
on_shard_down(struct shard *shard)
{
    struct store *store = shard->store;

    stats_set(store->stats, STAT_STORE_UNAVAILABLE, count_down(store));
    if (shard->is_left_out)
        return;
    if (store->is_up)
        set_up(store, false);
    regroup_later(store);
}

static void
on_shard_rejected(struct shard *shard)
{
    for (struct store_listener *l = shard->store->listeners; l != NULL; l = l->next)
        if (l->on_rejected != NULL)
            l->on_rejected(l->ctx);
}

static const struct shard_events shard_events = {
    .on_up = on_shard_up, .on_down = on_shard_down, .on_rejected = on_shard_rejected};

static void
set_script_settings(const struct config *config, struct script_settings *ret_settings)
{
    struct script_settings *d = ret_settings;

    snprintf(d->ack_timeout, sizeof(d->ack_timeout), "%" PRId64, config->delivery.ack_timeout_ms);
    snprintf(d->backoff_base, sizeof(d->backoff_base), "%" PRId64,
             config->delivery.backoff_base_ms);
    snprintf(d->backoff_cap, sizeof(d->backoff_cap), "%" PRId64, config->delivery.backoff_cap_ms);
    snprintf(d->retention, sizeof(d->retention), "%" PRId64, config->store.retention_ms);
    snprintf(d->owner_pairs, sizeof(d->owner_pairs), "%d", config->feed.owner_pairs);
    if (config->webpush.vapid_key_file != NULL)
        snprintf(d->web_push_delay, sizeof(d->web_push_delay), "%" PRId64,
                 config->webpush.delay_ms);
    snprintf(d->receipts_retention, sizeof(d->receipts_retention), "%" PRId64,
             config->receipts.retention_ms);
    snprintf(d->receipts_bytes, sizeof(d->receipts_bytes), "%" PRId64, config->receipts.max_bytes);
}

static void
free_shards(struct store *store)
{
    for (unsigned k = 0; k < store->shard_count; k++)
        shard_close(&store->shards[k]);
    for (unsigned k = 0; k < store->shard_count; k++)
        maintenance_free(store->shards[k].maintenance);
    free(store->shards);
    servers_close(store->servers);
}

struct store *
store_open_with(struct ev_loop *loop, const struct config *config, struct stats *stats,
                const struct shard_events *events, struct command *command)
{
    struct store *store = memory_new(sizeof(*store));

    store->loop = loop;
    store->config = config;
    store->stats = stats;
    store->command = command;
    store->min_replicas = config->store.min_replicas;
    random_hex(store->relay_id, STORE_TOKEN_TEXT);
    set_script_settings(config, &store->script_settings);
    store->shard_count = (unsigned)config->store.shards;
    store->topology = topology_of(config);
    store->servers = servers_open(loop, config);
    if (store->servers == NULL) {
        free(store);
        return NULL;
    }
    ev_timer_init(&store->regroup, on_regroup, 0.0, 0.0);
    store->regroup.data = store;
    store->shards = memory_new(store->shard_count * sizeof(*store->shards));
    for (unsigned k = 0; k < store->shard_count; k++)
        shard_open(&store->shards[k], store, k, config, events);
    return store;
}

struct store *
store_open(struct ev_loop *loop, const struct config *config, struct stats *stats)
{
    return store_open_with(loop, config, stats, &shard_events, NULL);
}

void
store_close(struct store *store)
{
    if (store == NULL)
        return;
    store->is_up = false; /* callbacks from free_shards must not find a shard */
    replicas_down(store); /* ends a pending wait for replicas */
    ev_timer_stop(store->loop, &store->regroup);
    free_shards(store);
    free(store);
}

unsigned
store_shards(const struct store *store)
{
    return store->shard_count;
}

unsigned
store_shard_of(const struct store *store, const char *user)
{
    return shard_of_user(store->shard_count, user, strlen(user));
}

void
store_listen(struct store *store, struct store_listener *listener)
{
    listener->next = store->listeners;
    store->listeners = listener;
}

bool
store_replies(const struct store *store)
{
    for (unsigned k = 0; store->is_up && k < store->shard_count; k++) {
        if (!store->shards[k].is_left_out && !link_is_up(store->shards[k].link))
            return false;
    }
    return store->is_up;
}

bool
store_is_complete(const struct store *store)
{
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (store->shards[k].is_left_out)
            return false;
    }
    return true;
}

bool
store_has_shared(const struct store *store)
{
    return store->is_up && !store->shards[0].is_left_out;
}

bool
store_serves(const struct store *store, const char *user)
{
    const unsigned own = shard_of_user(store->shard_count, user, strlen(user));

    return store_has_shared(store) && !store->shards[own].is_left_out;
}

bool
store_is_serving(const struct store *store)
{
    return store_replies(store) && store_has_shared(store) && has_reader(store);
}

bool
store_has_progress(const struct store *store)
{
    return store->has_progress;
}

bool
store_is_acquired(const struct store *store)
{
    return store->is_acquired;
}

void
store_set_reader_follows(struct store *store, unsigned connection, bool follows)
{
    store->shards[connection].lacks_reader = !follows;
    update_connected(store);
}

bool
store_rejects_heartbeats(const struct store *store)
{
    for (unsigned k = 0; store_replies(store) && k < store->shard_count; k++) {
        if (!store->shards[k].is_left_out && shard_rejects_heartbeats(&store->shards[k]))
            return true;
    }
    return false;
}

const char *
store_relay_id(const struct store *store)
{
    return store->relay_id;
}

const char *
store_epoch(const struct store *store)
{
    return store->epoch;
}

void
store_record_entry(struct store *store, unsigned shard, struct entry_id id)
{
    if (shard < store->shard_count && entry_id_less(store->shards[shard].seen, id))
        store->shards[shard].seen = id;
}

enum rc
store_translate_id(const struct store *store, unsigned shard, struct entry_id *id)
{
    const struct shard *of = &store->shards[shard];

    return history_translate(&of->former_history, &of->reader_history, id);
}

bool
store_is_read(const struct store *store, unsigned shard)
{
    const struct shard *of = &store->shards[shard];

    return history_current(&of->history) == history_current(&of->reader_history);
}

void
store_record_position(struct store *store, unsigned shard, struct entry_id id, struct position to)
{
    store_record_entry(store, shard, id);
    if (shard < store->shard_count)
        position_raise(&store->shards[shard].seen_position, to);
}

struct position
store_newest_position(const struct store *store, unsigned shard)
{
    return store->newest_position[shard];
}

int64_t
store_fsync_delay_us(const struct store *store)
{
    for (unsigned k = 0; k < store->shard_count; k++) {
        if (!store->shards[k].syncs_always)
            return STORE_FSYNC_DELAY_US;
    }
    return 0;
}

const struct entry_id *
store_newest(const struct store *store)
{
    return store->newest;
}

uint64_t
store_undone_count(const struct store *store)
{
    uint64_t sum = 0;

    for (unsigned k = 0; k < store->shard_count; k++)
        sum += store->shards[k].undone_count;
    return sum;
}

const struct transactions *
store_newest_transactions(const struct store *store, unsigned shard)
{
    return &store->shards[shard].newest_transactions;
}

const char *
store_topic_prefix(const struct store *store)
{
    return store->topic_prefix;
}

static void
on_stored(void *ctx, const struct redisReply *reply)
{
    (void)shard_check_reply(ctx, reply, "could not store the topic prefix");
}

void
store_set_topic_prefix(struct store *store, const char *prefix)
{
    struct arguments arguments = {.argc = 0};
    char key[STORE_KEY_MAX];

    if (strlen(prefix) >= STORE_TOPIC_PREFIX_MAX)
        return;
    snprintf(store->topic_prefix, sizeof(store->topic_prefix), "%s", prefix);
    key_write(key, store->shards[0].prefix, KEY_META);
    argument(&arguments, "HSET");
    argument(&arguments, key);
    argument(&arguments, META_TOPIC_PREFIX);
    argument(&arguments, prefix);
    if (shard_send(&store->shards[0], on_stored, &store->shards[0], (int)arguments.argc,
                   arguments.argv, arguments.lens) != RC_OK)
        log_debug("store", "could not store the topic prefix: the feed retries at its next start");
}
