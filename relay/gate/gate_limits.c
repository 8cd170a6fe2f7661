/* gate_limits.c: how many connections and requests, from where, how fast. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/networks.h"
#include "gate/gate_request.h"
#include "hub/hub.h"

#define RATE_NAME_MAX (TOKEN_USER_MAX + 2)

static const char LATER[] = "Retry-After: " GATE_TEXT_OF(GATE_RETRY_AFTER_S);

_Static_assert(RATE_NAME_MAX > NETWORKS_ADDRESS_MAX, "an address is a name too");

/* An address with connections. */
struct gate_peer {
    UT_hash_handle hh;
    int count;
    char address[NETWORKS_ADDRESS_MAX];
};

/* The last address of the list that no trusted proxy has: the others are hearsay. */
static void
read_forwarded(const struct gate *gate, struct lws *wsi, char address[NETWORKS_ADDRESS_MAX])
{
    const char *trusted = gate->config->gate.trusted_proxies;
    int len = lws_hdr_total_length(wsi, WSI_TOKEN_X_FORWARDED_FOR);
    char *list = len > 0 ? memory_new((size_t)len + 1) : NULL;
    bool has_more = list != NULL && lws_hdr_copy(wsi, list, len + 1, WSI_TOKEN_X_FORWARDED_FOR) > 0;

    while (has_more && networks_hold(trusted, address)) {
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

static void
read_address(const struct gate *gate, struct lws *wsi, char address[NETWORKS_ADDRESS_MAX])
{
    if (gate_listens_on_unix(gate) ||
        lws_get_peer_simple(wsi, address, NETWORKS_ADDRESS_MAX) == NULL)
        snprintf(address, NETWORKS_ADDRESS_MAX, "%s", NETWORKS_UNIX);
    if (gate->config->gate.trusted_proxies != NULL)
        read_forwarded(gate, wsi, address);
    networks_widen(address);
}

static struct gate_peer *
find_peer(const struct gate *gate, const char *address)
{
    struct gate_peer *peer = NULL;

    HASH_FIND_STR(gate->peers, address, peer);
    return peer;
}

struct gate_peer *
gate_peer_enter(struct gate *gate, struct lws *wsi)
{
    char address[NETWORKS_ADDRESS_MAX] = "";
    struct gate_peer *peer;

    if (gate->config->gate.max_per_address == 0)
        return NULL;
    read_address(gate, wsi, address);
    peer = find_peer(gate, address);
    if (peer == NULL) {
        peer = memory_new(sizeof(*peer));
        snprintf(peer->address, sizeof(peer->address), "%s", address);
        HASH_ADD_STR(gate->peers, address, peer);
    }
    peer->count++;
    return peer;
}

void
gate_peer_leave(struct gate *gate, struct gate_peer *peer)
{
    if (peer == NULL || --peer->count > 0)
        return;
    HASH_DEL(gate->peers, peer);
    free(peer);
}

static bool
address_is_full(const struct gate *gate, struct lws *wsi)
{
    int most = gate->config->gate.max_per_address;
    char address[NETWORKS_ADDRESS_MAX] = "";
    const struct gate_peer *peer;

    if (most == 0)
        return false;
    read_address(gate, wsi, address);
    peer = find_peer(gate, address);
    return peer != NULL && peer->count >= most;
}

bool
gate_serves(const struct gate *gate, bool is_push, struct gate_refusal *ret_refusal)
{
    if (gate->draining)
        *ret_refusal = (struct gate_refusal){503, LATER, "this relay is about to stop"};
    else if (is_push && gate->is_push_off)
        *ret_refusal = (struct gate_refusal){503, LATER, "push is turned off: use /v1/poll"};
    else
        return true;
    return false;
}

bool
gate_admits(struct gate *gate, struct lws *wsi, bool is_push, struct gate_refusal *ret_refusal)
{
    const struct config *config = gate->config;

    if (!gate_serves(gate, is_push, ret_refusal))
        return false;
    if (gate->conn_count + gate->stream_count >= config->gate.max_connections)
        *ret_refusal = (struct gate_refusal){503, LATER, "max_connections is reached"};
    else if (address_is_full(gate, wsi))
        *ret_refusal = (struct gate_refusal){429, LATER, "max_per_address is reached"};
    else if (is_push &&
             !rate_bucket_take(&gate->connects, config->gate.connect_rate, clock_monotonic_us()))
        *ret_refusal = (struct gate_refusal){503, GATE_SOON, "connect_rate is reached"};
    else
        return true;
    return false;
}

bool
gate_admits_user(const struct gate *gate, const char *user)
{
    int most = gate->config->gate.max_per_user;

    return most == 0 || hub_user_sessions(gate->hub, user) < (size_t)most;
}

/* One table for both: a letter tells them apart. */
static void
name_user(const char *user, char name[RATE_NAME_MAX])
{
    snprintf(name, RATE_NAME_MAX, "u%s", user);
}

/* False: who comes by a unix socket, and is not told of, is a proxy, and everybody behind it. */
static bool
name_address(const struct gate *gate, struct lws *wsi, char name[RATE_NAME_MAX])
{
    char address[NETWORKS_ADDRESS_MAX] = "";

    read_address(gate, wsi, address);
    snprintf(name, RATE_NAME_MAX, "a%s", address);
    return strcmp(address, NETWORKS_UNIX) != 0;
}

static bool
take_request(struct gate *gate, const char *name)
{
    if (rates_take(gate->requests_made, name, gate->config->gate.request_rate,
                   clock_monotonic_us()))
        return true;
    stats_add(gate->stats, STAT_GATE_TOO_FAST, 1);
    return false;
}

bool
gate_admits_request(struct gate *gate, struct lws *wsi)
{
    char name[RATE_NAME_MAX];

    if (gate->config->gate.request_rate == 0 || !name_address(gate, wsi, name) ||
        take_request(gate, name))
        return true;
    log_debug("gate", "%s: more than request_rate requests a second", name + 1);
    return false;
}

bool
gate_admits_request_of(struct gate *gate, struct lws *wsi, const char *user)
{
    char name[RATE_NAME_MAX];

    if (gate->config->gate.request_rate == 0)
        return true;
    if (name_address(gate, wsi, name))
        rates_give(gate->requests_made, name);
    name_user(user, name);
    return take_request(gate, name);
}
