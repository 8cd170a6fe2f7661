/* client_limits.c: limits connections and requests, by address, by user and in total. */
#include "gate/net/client_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/addresses.h"
#include "base/rates.h"
#include "gate/net/conn.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "wire/http_head.h"

#define TEXT_OF_(value) #value
#define TEXT_OF(value) TEXT_OF_(value)
#define RATE_KEY_MAX (TOKEN_USER_MAX + 2)
#define EVICTION_CANDIDATES 64

static const char RETRY_LATER[] = "Retry-After: " TEXT_OF(GATE_RETRY_AFTER_S);

_Static_assert(RATE_KEY_MAX > NETWORKS_ADDRESS_MAX, "an address fits a key");

/* Loopback, private and link-local networks: proxies and local hosts. */
#define OWN_NETWORKS                                                                               \
    "127.0.0.0/8 ::1 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 169.254.0.0/16 "        \
    "fc00::/7 fe80::/10"

struct gate_peer {
    UT_hash_handle hh;
    int count;
    int waiting; /* number of connections that have not sent "connect" */
    char address[NETWORKS_ADDRESS_MAX];
};

/*
 * Source of a request. `is_proxy`: the address may represent many clients, because it is a Unix
 * socket, a trusted proxy that does not report its client, or a peer in OWN_NETWORKS. Default
 * limits do not apply to it, so that an unconfigured proxy works. Explicit limits apply.
 */
struct gate_source {
    bool is_proxy;
    bool is_unix;
    char address[NETWORKS_ADDRESS_MAX];
};

struct limits {
    void (*evict)(void *owner);
    int conn_count;
    int evicted_count; /* number of evicted connections that are not yet closed */
    int stream_count;
    struct gate_peer *peers;
    struct waiting_client *waiting; /* connections that have not sent "connect", oldest first */
    struct rate_bucket connects;
    struct rates *request_rates; /* by user and by address */
    struct throttle address_rejected;
};

void
gate_limits_open(struct gate *gate, void (*evict)(void *owner))
{
    gate->limits = memory_new(sizeof(*gate->limits));
    *gate->limits = (struct limits){.evict = evict, .request_rates = rates_new(1)};
}

void
gate_limits_free(struct gate *gate)
{
    rates_free(gate->limits->request_rates);
    free(gate->limits);
    gate->limits = NULL;
}

int
gate_limits_conns(const struct gate *gate)
{
    return gate->limits->conn_count;
}

/* Returns the last address that is not a trusted proxy: clients can forge earlier addresses. */
static void
read_forwarded(const struct conn *conn, char address[NETWORKS_ADDRESS_MAX])
{
    const char *trusted = conn->gate->config->gate.trusted_proxies;
    char *list = NULL;
    bool has_more =
        http_head_text(conn->head, "x-forwarded-for", SIZE_MAX, &list) == RC_OK && list != NULL;

    while (has_more && networks_contain(trusted, address)) {
        char *comma = strrchr(list, ',');
        char *last = comma != NULL ? comma + 1 : list;

        last += strspn(last, " \t");
        last[strcspn(last, " \t")] = '\0';
        if (!networks_is_address(last))
            break;
        snprintf(address, NETWORKS_ADDRESS_MAX, "%s", last);
        has_more = comma != NULL;
        if (has_more)
            *comma = '\0';
    }
    free(list);
}

static struct gate_source
source_of(const struct conn *conn)
{
    const char *trusted = conn->gate->config->gate.trusted_proxies;
    struct gate_source source = {0};
    char peer[NETWORKS_ADDRESS_MAX];

    if (conn_is_unix(conn) || !conn_address(conn, source.address, NETWORKS_ADDRESS_MAX))
        snprintf(source.address, NETWORKS_ADDRESS_MAX, "%s", NETWORKS_UNIX);
    memcpy(peer, source.address, sizeof(peer));
    if (trusted != NULL)
        read_forwarded(conn, source.address);
    source.is_unix = strcmp(source.address, NETWORKS_UNIX) == 0;
    source.is_proxy =
        source.is_unix || networks_contain(trusted, source.address) ||
        (strcmp(peer, source.address) == 0 && networks_contain(OWN_NETWORKS, source.address));
    networks_aggregate(source.address);
    return source;
}

/* `is_set`: the limit is configured explicitly. */
static bool
is_limited(const struct gate_source *source, bool is_set)
{
    return is_set ? !source->is_unix : !source->is_proxy;
}

static struct gate_peer *
find_peer(const struct gate *gate, const char *address)
{
    struct gate_peer *peer = NULL;

    HASH_FIND_STR(gate->limits->peers, address, peer);
    return peer;
}

static struct gate_peer *
peer_add(const struct conn *conn)
{
    struct gate *gate = conn->gate;
    const struct gate_source source = source_of(conn);
    struct gate_peer *peer = find_peer(gate, source.address);

    if (peer == NULL) {
        peer = memory_new(sizeof(*peer));
        memcpy(peer->address, source.address, sizeof(peer->address));
        HASH_ADD_STR(gate->limits->peers, address, peer);
    }
    peer->count++;
    return peer;
}

static void
peer_remove(struct gate *gate, struct gate_peer *peer)
{
    if (--peer->count > 0)
        return;
    HASH_DEL(gate->limits->peers, peer);
    free(peer);
}

static bool
address_is_full(struct gate *gate, const struct gate_source *source)
{
    int max = gate->config->gate.max_per_address;
    const struct gate_peer *peer = find_peer(gate, source->address);
    unsigned skipped = 0;

    if (max == 0 || peer == NULL || peer->count < max ||
        !is_limited(source, gate->config->gate.max_per_address_is_set))
        return false;
    if (throttle_allows(&gate->limits->address_rejected, clock_monotonic_us(), &skipped))
        log_warn("gate", "connection rejected: gate.max_per_address reached",
                 LOG_TEXT("address", peer->address), LOG_INT("count", peer->count),
                 LOG_UINT("suppressed", skipped),
                 LOG_TEXT("hint", "if it is a proxy, add it to gate.trusted_proxies"));
    return true;
}

/*
 * The default rate does not apply to proxies: all clients of a site may reconnect through one proxy
 * simultaneously.
 */
static bool
connect_rate_allows(struct gate *gate, const struct gate_source *source)
{
    int rate = gate->config->gate.connect_rate;

    if (!gate->config->gate.connect_rate_is_set && source->is_proxy)
        return true;
    return rate_bucket_consume(&gate->limits->connects, rate, clock_monotonic_us());
}

void
gate_waiting_remove(struct gate *gate, struct waiting_client *client)
{
    if (client->prev == NULL)
        return;
    DL_DELETE(gate->limits->waiting, client);
    client->peer->waiting--;
    client->prev = NULL;
}

/*
 * Evicts a connection that has not sent "connect", so that idle connections cannot block other
 * clients. Among the oldest, selects a connection of the address with the most waiting connections.
 * False: none.
 */
static bool
evict_waiting(struct gate *gate)
{
    struct waiting_client *victim = gate->limits->waiting;
    struct waiting_client *client = victim;

    for (int i = 0; client != NULL && i < EVICTION_CANDIDATES; i++, client = client->next) {
        if (client->peer->waiting > victim->peer->waiting)
            victim = client;
    }
    if (victim == NULL)
        return false;
    stats_add(gate->stats, STAT_GATE_REJECTED, 1);
    gate->limits->evicted_count++;
    gate->limits->evict(victim->owner);
    return true;
}

int
gate_limits_clients(const struct gate *gate)
{
    return gate->limits->conn_count + gate->limits->stream_count;
}

struct gate_peer *
gate_limits_add_conn(struct conn *conn, struct waiting_client *client)
{
    struct gate *gate = conn->gate;

    client->peer = peer_add(conn);
    gate->limits->conn_count++;
    stats_set(gate->stats, STAT_GATE_CONNECTIONS, (uint64_t)gate->limits->conn_count);
    DL_APPEND(gate->limits->waiting, client);
    client->peer->waiting++;
    return client->peer;
}

void
gate_limits_remove_conn(struct gate *gate, struct gate_peer *peer, bool is_evicted)
{
    gate->limits->conn_count--;
    gate->limits->evicted_count -= is_evicted;
    stats_set(gate->stats, STAT_GATE_CONNECTIONS, (uint64_t)gate->limits->conn_count);
    peer_remove(gate, peer);
}

struct gate_peer *
gate_limits_add_stream(struct conn *conn)
{
    struct gate *gate = conn->gate;

    gate->limits->stream_count++;
    stats_set(gate->stats, STAT_GATE_STREAMS, (uint64_t)gate->limits->stream_count);
    return peer_add(conn);
}

void
gate_limits_remove_stream(struct gate *gate, struct gate_peer *peer)
{
    gate->limits->stream_count--;
    stats_set(gate->stats, STAT_GATE_STREAMS, (uint64_t)gate->limits->stream_count);
    peer_remove(gate, peer);
}

/*
 * Evicted connections close in the next loop iteration and are not counted. Connections that wait
 * for their next request are evicted first.
 */
static bool
is_full(struct gate *gate)
{
    int count = gate_limits_clients(gate) - gate->limits->evicted_count;

    return count + gate->conns->in[CONN_KEPT].count >= gate->config->gate.max_connections &&
           !conns_evict_kept(gate) && !evict_waiting(gate);
}

void
gate_limit_kept(struct gate *gate)
{
    if (gate_limits_clients(gate) + gate->conns->in[CONN_KEPT].count >
        gate->config->gate.max_connections)
        (void)conns_evict_kept(gate);
}

bool
gate_serves(const struct gate *gate, bool is_realtime, struct gate_rejection *ret_rejection)
{
    if (gate->state == GATE_DRAINING)
        *ret_rejection = (struct gate_rejection){503, 0, RETRY_LATER, "relay is shutting down"};
    else if (is_realtime && gate->is_realtime_off)
        *ret_rejection =
            (struct gate_rejection){503, 0, RETRY_LATER, "real-time delivery is off, use /v1/poll"};
    else
        return true;
    return false;
}

bool
gate_admits(struct conn *conn, bool is_realtime, struct gate_rejection *ret_rejection)
{
    struct gate *gate = conn->gate;
    struct gate_source source;

    if (!gate_serves(gate, is_realtime, ret_rejection))
        return false;
    source = source_of(conn);
    if (address_is_full(gate, &source))
        *ret_rejection = (struct gate_rejection){429, 0, RETRY_LATER, "max_per_address reached"};
    else if (is_realtime && !connect_rate_allows(gate, &source))
        *ret_rejection = (struct gate_rejection){503, 0, GATE_RETRY_SOON, "connect_rate exceeded"};
    else if (is_full(gate))
        *ret_rejection = (struct gate_rejection){503, 0, RETRY_LATER, "max_connections reached"};
    else
        return true;
    return false;
}

bool
gate_admits_user(const struct gate *gate, const char *user)
{
    int max = gate->config->gate.max_per_user;

    return max == 0 || hub_user_sessions(gate->hub, user) < (size_t)max;
}

/* False: the rate limit does not apply to this address. */
static bool
address_rate_key(const struct conn *conn, char name[RATE_KEY_MAX])
{
    const struct gate_source source = source_of(conn);

    snprintf(name, RATE_KEY_MAX, "a%s", source.address);
    return is_limited(&source, conn->gate->config->gate.request_rate_is_set);
}

static bool
count_request(struct gate *gate, const char *name)
{
    if (rates_consume(gate->limits->request_rates, name, gate->config->gate.request_rate,
                      clock_monotonic_us()))
        return true;
    stats_add(gate->stats, STAT_GATE_RATE_LIMITED, 1);
    return false;
}

bool
gate_admits_request(struct conn *conn)
{
    struct gate *gate = conn->gate;
    char name[RATE_KEY_MAX];

    if (gate->config->gate.request_rate == 0 || !address_rate_key(conn, name) ||
        count_request(gate, name))
        return true;
    log_debug("gate", "request rejected: gate.request_rate exceeded",
              LOG_TEXT("address", name + 1));
    return false;
}

bool
gate_admits_user_request(struct conn *conn, const char *user)
{
    struct gate *gate = conn->gate;
    char name[RATE_KEY_MAX];

    if (gate->config->gate.request_rate == 0)
        return true;
    if (address_rate_key(conn, name))
        rates_refund(gate->limits->request_rates, name, 1);
    /* Users and addresses share one table; the first letter of a key is its kind. */
    snprintf(name, RATE_KEY_MAX, "u%s", user);
    return count_request(gate, name);
}

void
gate_refund_upgrade(struct gate *gate, const struct gate_peer *peer)
{
    char name[RATE_KEY_MAX];

    snprintf(name, RATE_KEY_MAX, "a%s", peer->address);
    rates_refund(gate->limits->request_rates, name, 1);
}
