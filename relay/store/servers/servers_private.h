/* servers_private.h: the state of servers.h, shared by its files. */
#ifndef CLAIRON_STORE_SERVERS_PRIVATE_H
#define CLAIRON_STORE_SERVERS_PRIVATE_H

#include <ev.h>

#include "base/rates.h"
#include "store/connection/connect.h"
#include "store/servers/servers.h"
#include "store/servers/topology.h"
#include "store/scripts/constants.h"

#define SERVERS_NODES_MAX 64
#define SERVERS_FAILURE_MAX 512

struct redisReply;
struct sentinels;

/* How to find the servers with one kind of store.url. */
struct servers_kind {
    const char *source; /* name of the source in messages, such as "cluster" */
    bool is_final;      /* see on_found */
    /*
     * Reads a reply into servers->found. RC_BAD: the reply is invalid; RC_AGAIN: the reply is
     * outdated.
     */
    enum rc (*read)(struct servers *servers, const struct redisReply *reply);
};

struct servers_shard {
    unsigned slot;
    bool is_known;
    struct slots_node server;
    struct slots_node former; /* the server before the last move */
    int64_t moved_us;         /* 0: never moved */
};

struct servers {
    struct ev_loop *loop;
    const struct config *config;
    const struct servers_kind *kind; /* NULL: one server, `single` */
    struct url single;
    struct url as_server;  /* user, password and TLS settings of the shards' servers */
    struct url as_queried; /* credentials of the queried servers: the sentinels' or as_server */
    struct servers_listener *listeners;
    unsigned shard_count;
    struct servers_shard shards[STORE_SHARDS_MAX];
    struct servers_shard found[STORE_SHARDS_MAX]; /* set while a reply is read */
    struct slots_node seeds[SERVERS_NODES_MAX];   /* nodes in the URL */
    size_t seed_count;
    struct slots_node nodes[SERVERS_NODES_MAX]; /* nodes of the last reply, then the seeds */
    size_t node_count;
    size_t at; /* the queried node; the next query uses the next node */
    const char *words[QUERY_WORDS_MAX];
    struct query *query; /* NULL: no query in flight */
    ev_timer again;      /* starts the next query */
    struct backoff backoff;
    size_t failures;   /* queries since the last valid reply */
    int64_t failed_us; /* time of the first of them */
    char failure[SERVERS_FAILURE_MAX];
    /* throttles of messages */
    struct throttle search_failed; /* reset by a valid reply */
    struct throttle disagreed;     /* nodes that disagree */
    struct throttle uncovered;     /* shards without a primary */
    struct throttles failed;       /* by failed server */
    struct sentinels *sentinels;
    long long epoch; /* epoch of the sentinels' newest reply */
    /* bit i: since the newest accepted reply, the sentinel seeds[i] has reported a lower epoch */
    uint64_t outdated_sentinels;
};

extern const struct servers_kind servers_cluster;
extern const struct servers_kind servers_sentinel;

#endif
