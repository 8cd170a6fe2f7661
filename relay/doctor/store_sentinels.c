/* store_sentinels.c: the checks of a store with replicas and sentinels. */
#include "doctor/store_sentinels.h"

#include <stdio.h>
#include <string.h>

#include "doctor/store_probe.h"
#include "store/connection/reply.h"
#include "store/servers/sentinel_reply.h"

#define REPLICAS_MAX 16
#define FEW_SENTINELS 3

#define SENTINEL_HINT                                                                              \
    "Start this sentinel (redis-sentinel FILE), or correct [store] url, sentinel_user and "        \
    "sentinel_password_file"

struct sentinels {
    const struct config *config;
    struct findings *findings;
    unsigned reachable;
    long long known;           /* the most that a sentinel reports, including itself */
    long long quorum;          /* the highest reported */
    struct slots_node primary; /* port 0: unknown */
    long long epoch;
    struct slots_node replicas[REPLICAS_MAX];
    size_t replica_count;
};

/* Reads the primary as one sentinel reports it. */
static void
read_sentinel_state(struct sentinels *sentinels, const char *where, const struct redisReply *state)
{
    const long long others = sentinel_read_number(state, "num-other-sentinels");
    const long long quorum = sentinel_read_number(state, "quorum");
    struct sentinel_primary primary;
    bool is_certain;

    if (others + 1 > sentinels->known)
        sentinels->known = others + 1;
    if (quorum > sentinels->quorum)
        sentinels->quorum = quorum;
    if (sentinel_read_primary(state, &primary) != RC_OK)
        return;
    is_certain = !primary.is_down && !primary.is_switching;
    findings_add(sentinels->findings, STORE, "sentinel", is_certain,
                 "Start the primary, or wait for the failover; if none follows, see the sentinels' "
                 "logs",
                 "%s: primary %s:%d%s%s, %lld replicas, %lld other sentinels, quorum %lld", where,
                 primary.server.host, primary.server.port, primary.is_down ? " is down" : "",
                 primary.is_switching ? ", failover in progress" : "",
                 sentinel_read_number(state, "num-slaves"), others, quorum);
    if (primary.epoch > sentinels->epoch) {
        sentinels->epoch = primary.epoch;
        sentinels->primary = primary.server;
    }
}

static void
read_known_replicas(struct sentinels *sentinels, const struct redisReply *replicas)
{
    struct slots_node replica;

    for (size_t i = 0; i < reply_count(replicas); i++)
        if (sentinel_read_server(reply_at(replicas, i), &replica) == RC_OK)
            sentinels->replica_count = slots_add_node(sentinels->replicas, sentinels->replica_count,
                                                      REPLICAS_MAX, &replica);
}

static const char *
hint_of_rejection(const char *error)
{
    if (strstr(error, "No such master") != NULL)
        return "[store] url must end in the primary's name, as in sentinel monitor";
    if (strstr(error, "NOPERM") != NULL)
        return "The sentinels' user needs +sentinel|master, +sentinel|replicas, +subscribe and "
               "&+switch-master";
    return SENTINEL_HINT;
}

static void
query_sentinel(struct sentinels *sentinels, struct probe *node, const char *where)
{
    const char *name = urls_rest(sentinels->config->store.url);
    const char *master[] = {"SENTINEL", "MASTER", name};
    const char *replicas[] = {"SENTINEL", "REPLICAS", name};
    const char *subscribe[] = {"SUBSCRIBE", "+switch-master"};
    const struct redisReply *reply = probe_request(node, 3, master);

    if (reply == NULL) {
        findings_add(sentinels->findings, STORE, "sentinel", false,
                     hint_of_rejection(probe_error(node)), "%s: %s", where, probe_error(node));
        return;
    }
    sentinels->reachable++;
    read_sentinel_state(sentinels, where, reply);
    reply = probe_request(node, 3, replicas);
    if (reply != NULL)
        read_known_replicas(sentinels, reply);
    if (reply == NULL || probe_request(node, 2, subscribe) == NULL)
        findings_warn(sentinels->findings, STORE, "sentinel user",
                      hint_of_rejection(probe_error(node)), "%s: %s", where, probe_error(node));
}

static void
check_sentinel(struct sentinels *sentinels, unsigned number)
{
    char error[PROBE_ERROR_MAX], where[URL_FORMAT_MAX];
    struct probe *node = NULL;
    struct url address;

    if (!store_named_address(sentinels->config, number, &address))
        return;
    url_format(&address, where);
    node = probe_open(sentinels->config, &address, STORE_QUERY_TIMEOUT_S, error);
    if (node != NULL)
        query_sentinel(sentinels, node, where);
    else
        findings_add(sentinels->findings, STORE, "sentinel", false, SENTINEL_HINT, "%s: %s", where,
                     error);
    probe_close(node);
    explicit_bzero(&address, sizeof(address));
}

/* A failover needs the quorum to detect the failure, and a majority to elect its leader. */
static void
check_sentinel_quorum(const struct sentinels *sentinels)
{
    const long long majority = sentinels->known / 2 + 1;
    const long long needed = majority > sentinels->quorum ? majority : sentinels->quorum;

    findings_add(sentinels->findings, STORE, "sentinels", sentinels->reachable >= needed,
                 "No failover without them: start the other sentinels and name them in [store] url",
                 "%u of %lld reachable, %lld required for a failover", sentinels->reachable,
                 sentinels->known, needed);
    if (sentinels->known < FEW_SENTINELS)
        findings_warn(sentinels->findings, STORE, "number of sentinels",
                      "Add sentinels: with fewer than 3, the loss of one prevents a failover",
                      "%lld", sentinels->known);
}

/* Returns false if the server does not reply. */
static bool
check_known_server(const struct sentinels *sentinels, const struct slots_node *node,
                   bool is_replica)
{
    struct store_probe probe = {
        .config = sentinels->config, .findings = sentinels->findings, .is_replica = is_replica};
    struct url address;
    bool is_up;

    snprintf(probe.where, sizeof(probe.where), "%s:%d: ", node->host, node->port);
    is_up =
        store_node_address(sentinels->config, node, &address) && store_probe_open(&probe, &address);
    if (is_up)
        store_probe_check(&probe);
    if (is_up && !is_replica)
        store_probe_check_replicas(&probe);
    store_probe_close(&probe);
    explicit_bzero(&address, sizeof(address));
    return is_up;
}

bool
store_sentinels_check(const struct config *config, struct findings *findings)
{
    struct sentinels sentinels = {.config = config, .findings = findings, .epoch = -1};
    const unsigned count = urls_count(config->store.url);
    bool is_up;

    for (unsigned i = 0; i < count; i++)
        check_sentinel(&sentinels, i);
    if (sentinels.reachable > 0)
        check_sentinel_quorum(&sentinels);
    if (sentinels.primary.port == 0)
        return false;
    is_up = check_known_server(&sentinels, &sentinels.primary, false);
    for (size_t i = 0; i < sentinels.replica_count; i++)
        (void)check_known_server(&sentinels, &sentinels.replicas[i], true);
    return is_up;
}
