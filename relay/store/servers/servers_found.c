/* servers_found.c: uses the servers in a reply; logs the shards that moved or have none. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/servers/servers_private.h"
#include "store/servers/shard_list.h"

static bool
is_same_server(const struct servers_shard *a, const struct servers_shard *b)
{
    return a->is_known == b->is_known && slots_is_same_node(&a->server, &b->server);
}

static void
log_moved(const struct servers *servers, const struct servers_shard *to, const bool *is_moved)
{
    char list[SHARD_LIST_MAX] = "", server[URL_FORMAT_MAX];

    for (unsigned k = 0; k < servers->shard_count; k++)
        if (is_moved[k] && is_same_server(&servers->shards[k], to))
            shard_list_add(list, k);
    snprintf(server, sizeof(server), "%s:%d", to->server.host, to->server.port);
    log_info("store", "shards moved to another server", LOG_TEXT("shards", list),
             LOG_TEXT("server", server));
}

/* One message per server: a failover moves all of its shards. */
static void
log_moves(const struct servers *servers, const bool *is_moved)
{
    for (unsigned k = 0; k < servers->shard_count; k++) {
        bool is_logged = !is_moved[k];

        for (unsigned i = 0; i < k; i++)
            is_logged |= is_moved[i] && is_same_server(&servers->shards[i], &servers->shards[k]);
        if (!is_logged)
            log_moved(servers, &servers->shards[k], is_moved);
    }
}

/*
 * True if the shard has returned to its former server, because the nodes of a cluster disagree.
 * Sentinels do not: their epochs order their replies.
 */
static bool
has_returned(const struct servers *servers, const struct servers_shard *from,
             const struct servers_shard *to, int64_t now_us)
{
    return !servers->kind->is_final && from->moved_us != 0 &&
           now_us - from->moved_us < SERVERS_WARN_EVERY_US &&
           slots_is_same_node(&from->former, &to->server);
}

static void
log_disagreement(struct servers *servers, unsigned shard, int64_t now_us)
{
    const struct slots_node *a = &servers->shards[shard].server, *b = &servers->found[shard].server;
    char first[URL_FORMAT_MAX], second[URL_FORMAT_MAX];

    if (servers->disagreed_us != 0 && now_us - servers->disagreed_us < SERVERS_WARN_EVERY_US)
        return;
    servers->disagreed_us = now_us;
    snprintf(first, sizeof(first), "%s:%d", a->host, a->port);
    snprintf(second, sizeof(second), "%s:%d", b->host, b->port);
    log_warn("store", "nodes of the store disagree on the server of a shard",
             LOG_UINT("shard", shard), LOG_TEXT("server", first), LOG_TEXT("other_server", second),
             LOG_TEXT("hint", "if this continues, compare the nodes: redis-cli --cluster check "
                              "HOST:PORT"));
}

static void
log_uncovered(struct servers *servers, int64_t now_us)
{
    char list[SHARD_LIST_MAX] = "";

    for (unsigned k = 0; k < servers->shard_count; k++)
        if (!servers->shards[k].is_known)
            shard_list_add(list, k);
    if (list[0] == '\0' ||
        (servers->uncovered_us != 0 && now_us - servers->uncovered_us < SERVERS_WARN_EVERY_US))
        return;
    servers->uncovered_us = now_us;
    log_warn("store", "shards have no primary: waiting", LOG_TEXT("shards", list),
             LOG_TEXT("hint", "no node has their slots: redis-cli --cluster check HOST:PORT"));
}

bool
servers_adopt_found(struct servers *servers)
{
    bool is_moved[STORE_SHARDS_MAX] = {false};
    const int64_t now_us = clock_monotonic_us();
    bool has_moved = false;

    for (unsigned k = 0; k < servers->shard_count; k++) {
        const struct servers_shard *from = &servers->shards[k];
        struct servers_shard *to = &servers->found[k];

        if (!from->is_known || is_same_server(from, to))
            continue;
        has_moved = true;
        is_moved[k] = !has_returned(servers, from, to, now_us);
        if (!is_moved[k])
            log_disagreement(servers, k, now_us);
        to->former = from->server;
        to->moved_us = now_us;
    }
    memcpy(servers->shards, servers->found, sizeof(servers->shards));
    log_moves(servers, is_moved);
    log_uncovered(servers, now_us);
    return has_moved;
}
