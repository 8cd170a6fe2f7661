/*
 * place.h: which node of a cluster has the keys of a shard, and whether it has all of them.
 *
 * While redis-cli moves a slot, the server itself rejects the relay's requests (KEY_NONE). But
 * `redis-cli --cluster fix`, a person, or a replica that takes over can make a node the owner of a
 * slot whose other keys are on another node, and a script there would create the missing keys
 * again. So whenever the connection of a shard comes up, all other primaries are asked for their
 * number of keys in the slot (CLUSTER COUNTKEYSINSLOT).
 *
 *   UNKNOWN -> VERIFYING -> SOLE   the node has all keys: hello.lua may prepare the shard
 *                        -> SPLIT  another node has keys, or must reply and does not: the shard
 *                                  waits, the log names the node and the command of a person, and
 *                                  after 2 s the shard is VERIFYING again
 *
 * Only nodes that a move involves must reply: a move that the shard's node reports, or one that has
 * rejected a request. Other primaries without a reply are ignored, so a dead one delays only its
 * own shards. That the node was SOLE is stored in the shard's `meta` (field `place`) until another
 * move begins. So a relay that starts, or a replica that takes over, needs no reply of such nodes
 * either; without that verdict, every primary must reply if the node has keys of the slot. A slot
 * without keys is taken as new.
 *
 * If a node that must reply is lost, a person decides: `clairon store accept` adds it to the field
 * `without` of `meta`, and its keys are abandoned.
 */
#ifndef CLAIRON_STORE_PLACE_H
#define CLAIRON_STORE_PLACE_H

#include <ev.h>
#include <stdint.h>

#include "base/rates.h"
#include "store/servers/topology.h"

#define PLACE_WITHOUT_MAX 1024 /* bytes of META_WITHOUT */
#define PLACE_KEYS_UNKNOWN 1   /* own_keys of a node that denies the count */

struct redisReply;
struct shard;
struct store;

enum place_state { PLACE_UNKNOWN, PLACE_VERIFYING, PLACE_SOLE, PLACE_SPLIT };

/* Only place.c writes it. Without a cluster it is always SOLE. */
struct shard_place {
    enum place_state state;
    /* was the last to have all keys, or is the source of a move; "": none */
    char node[CLUSTER_ID_MAX];
    /*
     * May have keys since then: the other node of a move (`node` itself while that is unknown), or
     * one that was found to have some. "": none.
     */
    char other_node[CLUSTER_ID_MAX];
    struct place_check *check; /* NULL: not VERIFYING */
    void (*verified)(struct shard *shard);
    ev_timer again;        /* SPLIT: repeats the check */
    struct throttle waits; /* of the message that the shard waits; reset by SOLE */
};

/* A primary other than the shard's node. */
struct place_other {
    const struct cluster_primary *primary;
    long long keys; /* in the slot; -1: no reply */
};

/* What the nodes have replied. */
struct place_facts {
    long long own_keys;              /* of the shard's node, in the slot */
    char verdict[CLUSTER_ID_MAX];    /* META_PLACE in meta, or "" */
    char without[PLACE_WITHOUT_MAX]; /* META_WITHOUT in meta, or "" */
    const struct place_other *others;
    size_t count;
};

/* Returns SOLE, or SPLIT and the node that the shard waits for. */
enum place_state place_decide(const struct shard_place *place, const struct place_facts *facts,
                              const struct place_other **ret_awaited);

/* True if a person has abandoned the keys on this node. */
bool place_is_abandoned(const struct place_facts *facts, const char *id);

/* Reads HMGET of both fields. A reply that is an error leaves them empty. */
void place_read_meta(const struct redisReply *reply, struct place_facts *facts);

void place_open(struct shard *shard);
/*
 * The link is up. Calls `verified` from the loop when the state is SOLE; until then it repeats the
 * check.
 */
void place_verify(struct shard *shard, void (*verified)(struct shard *shard));
/*
 * The link is down, or the shard is closed. `reason`: the error, or ""; a move may have made the
 * server reject a request.
 */
void place_stop(struct shard *shard, const char *reason);

#endif
