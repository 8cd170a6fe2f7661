/* topology.c: the shards, their slots and connections, and the nodes of a cluster. */
#include "store/servers/topology.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/memory.h"
#include "base/urls.h"
#include "store/connection/reply.h"
#include "wire/bytes.h"

#define PORT_MAX 65535
#define FIRST_NODE 2 /* a range has its first slot, last slot, primary and replicas */

struct topology
topology_of(const struct config *config)
{
    const bool is_cluster = urls_kind(config->store.url) == URLS_CLUSTER;
    const unsigned shards = (unsigned)config->store.shards;

    return (struct topology){.shards = shards,
                             .connections = is_cluster ? shards : 1,
                             .is_cluster = is_cluster,
                             .is_numbered = is_cluster || shards > 1};
}

void
topology_shard_prefix(const struct topology *topology, const char *of_all, unsigned shard,
                      char ret_prefix[STORE_PREFIX_MAX])
{
    if (topology->is_numbered)
        key_shard_prefix(ret_prefix, of_all, shard);
    else
        snprintf(ret_prefix, STORE_PREFIX_MAX, "%s", of_all);
}

unsigned
topology_slot(const struct topology *topology, const char *of_all, unsigned shard)
{
    char prefix[STORE_PREFIX_MAX];

    topology_shard_prefix(topology, of_all, shard, prefix);
    return slots_of_key(prefix);
}

unsigned
topology_connection_of(const struct topology *topology, unsigned shard)
{
    return shard % topology->connections;
}

unsigned
topology_next_shard(const struct topology *topology, unsigned shard)
{
    return shard + topology->connections;
}

unsigned
topology_max_shards(const struct topology *topology)
{
    return topology->shards / topology->connections;
}

bool
topology_is_first_shard(const struct topology *topology, unsigned shard)
{
    return shard < topology->connections;
}

/* CRC-16/XMODEM, as in the cluster specification. */
static unsigned
crc16(const char *bytes, size_t len)
{
    unsigned crc = 0;

    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned)(unsigned char)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1;
    }
    return crc & 0xffff;
}

unsigned
slots_of_key(const char *key)
{
    const char *open = strchr(key, '{');
    const char *end = open != NULL ? strchr(open, '}') : NULL;

    if (end == NULL || end == open + 1)
        return crc16(key, strlen(key)) % SLOTS_COUNT;
    return crc16(open + 1, (size_t)(end - open - 1)) % SLOTS_COUNT;
}

static enum rc
read_node(const struct redisReply *node, const char *queried, struct slots_node *ret_node)
{
    struct bytes host = reply_bytes(reply_at(node, 0));
    const long long port = reply_integer(reply_at(node, 1));

    /* A node that prefers host names but has no host name sends "?", followed by its address. */
    if (host.len == 1 && host.at[0] == '?')
        host = reply_field(reply_at(node, 3), "ip");
    if (!reply_is_array(node, 2) || port < 1 || port > PORT_MAX || host.len >= SLOTS_HOST_MAX)
        return RC_BAD;
    if (host.len > 0)
        snprintf(ret_node->host, SLOTS_HOST_MAX, "%.*s", (int)host.len, (const char *)host.at);
    else
        snprintf(ret_node->host, SLOTS_HOST_MAX, "%s", queried);
    ret_node->port = (int)port;
    return RC_OK;
}

enum rc
slots_primary(const struct redisReply *reply, unsigned slot, const char *queried,
              struct slots_node *ret_node)
{
    for (size_t i = 0; i < reply_count(reply); i++) {
        const struct redisReply *range = reply_at(reply, i);

        if (reply_is_array(range, FIRST_NODE + 1) && reply_is_integer(reply_at(range, 0)) &&
            reply_is_integer(reply_at(range, 1)) && reply_integer(reply_at(range, 0)) <= slot &&
            reply_integer(reply_at(range, 1)) >= slot &&
            read_node(reply_at(range, FIRST_NODE), queried, ret_node) == RC_OK)
            return RC_OK;
    }
    return RC_AGAIN;
}

bool
slots_is_same_node(const struct slots_node *a, const struct slots_node *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

size_t
slots_add_node(struct slots_node *nodes, size_t count, size_t max, const struct slots_node *node)
{
    if (count == max)
        return count;
    for (size_t i = 0; i < count; i++)
        if (slots_is_same_node(&nodes[i], node))
            return count;
    nodes[count] = *node;
    return count + 1;
}

size_t
slots_nodes(const struct redisReply *reply, const char *queried, struct slots_node *ret_nodes,
            size_t max)
{
    struct slots_node node;
    size_t count = 0;

    for (size_t i = 0; i < reply_count(reply); i++) {
        const struct redisReply *range = reply_at(reply, i);

        for (size_t k = FIRST_NODE; k < reply_count(range); k++)
            if (read_node(reply_at(range, k), queried, &node) == RC_OK)
                count = slots_add_node(ret_nodes, count, max, &node);
    }
    return count;
}

/*
 * A node is a line: "ID IP:PORT@BUSPORT,HOSTNAME FLAG,FLAG PRIMARY PING PONG EPOCH STATE SLOTS..".
 * The node that replied also lists its moving slots: "[SLOT->-ID]" to a node, "[SLOT-<-ID]" from
 * it.
 */
struct line {
    struct bytes id;
    struct bytes address;
    struct bytes flags;
    struct bytes slots; /* the rest of the line */
};

/* Reads up to a delimiter, and skips it. */
static struct bytes
cut(struct bytes *text, const char *delimiters)
{
    struct bytes part = {text->at, 0};

    while (part.len < text->len && strchr(delimiters, text->at[part.len]) == NULL)
        part.len++;
    text->at += part.len + (part.len < text->len);
    text->len -= part.len + (part.len < text->len);
    return part;
}

static struct line
read_line(struct bytes *text)
{
    struct bytes rest = cut(text, "\n");
    struct line line;

    line.id = cut(&rest, " ");
    line.address = cut(&rest, " ");
    line.flags = cut(&rest, " ");
    for (int skipped = 0; skipped < 5; skipped++)
        (void)cut(&rest, " ");
    line.slots = rest;
    return line;
}

static bool
has_flag(const struct line *line, const char *flag)
{
    struct bytes flags = line->flags;

    while (flags.len > 0)
        if (bytes_equal_text(cut(&flags, ","), flag))
            return true;
    return false;
}

static bool
has_slots(const struct line *line)
{
    return line->slots.len > 0 && line->slots.at[0] >= '0' && line->slots.at[0] <= '9';
}

/* Returns the announced host name; empty if the node announces none. */
static struct bytes
host_name(const struct line *line)
{
    struct bytes address = line->address;

    (void)cut(&address, ",");
    return cut(&address, ",");
}

/* The port follows the last colon before "@", because an IPv6 address contains colons. */
static bool
read_address(const struct line *line, bool uses_names, struct slots_node *ret_node)
{
    struct bytes address = line->address;
    const struct bytes endpoint = cut(&address, "@,"), name = host_name(line);
    struct bytes host = endpoint;

    while (host.len > 0 && host.at[host.len - 1] != ':')
        host.len--;
    if (host.len == 0)
        return false;
    ret_node->port = (int)strtol((const char *)host.at + host.len, NULL, 10);
    host.len--;
    if (uses_names && name.len > 0)
        host = name;
    if (host.len == 0 || host.len >= SLOTS_HOST_MAX)
        return false;
    snprintf(ret_node->host, SLOTS_HOST_MAX, "%.*s", (int)host.len, (const char *)host.at);
    return true;
}

static void
read_id(struct bytes id, char ret_id[CLUSTER_ID_MAX])
{
    snprintf(ret_id, CLUSTER_ID_MAX, "%.*s", (int)id.len, (const char *)id.at);
}

/* Reads the line of the node that replied. */
static void
read_own(const struct line *line, unsigned slot, struct cluster_nodes *nodes)
{
    struct bytes slots = line->slots;
    char to[16], from[16];

    read_id(line->id, nodes->own_id);
    nodes->is_slotless = has_flag(line, "master") && !has_slots(line);
    snprintf(to, sizeof(to), "[%u->-", slot);
    snprintf(from, sizeof(from), "[%u-<-", slot);
    while (slots.len > 0) {
        struct bytes rest = slots, move = cut(&slots, " ");
        const size_t len = strlen(to);

        if (nodes->moves.len == 0 && move.len > 0 && move.at[0] == '[')
            nodes->moves = rest;
        if (move.len <= len || (memcmp(move.at, to, len) != 0 && memcmp(move.at, from, len) != 0))
            continue;
        move = (struct bytes){move.at + len, move.len - len};
        read_id(cut(&move, "]"), nodes->moves_with);
    }
}

static void
read_other(const struct line *line, bool uses_names, struct cluster_nodes *nodes)
{
    struct cluster_primary primary = {.is_failed = has_flag(line, "fail"),
                                      .has_slots = has_slots(line)};

    if (!has_flag(line, "master") || has_flag(line, "handshake"))
        return;
    if (has_flag(line, "noaddr"))
        primary.is_failed = true;
    else if (!read_address(line, uses_names, &primary.node))
        return;
    read_id(line->id, primary.id);
    nodes->others = memory_grow(nodes->others, (nodes->count + 1) * sizeof(primary));
    nodes->others[nodes->count++] = primary;
}

struct cluster_nodes
cluster_nodes_read(const char *text, const char *queried, unsigned slot)
{
    const struct bytes whole = {(const unsigned char *)text, strlen(text)};
    struct cluster_nodes nodes = {.count = 0};
    bool uses_names = false;

    for (struct bytes rest = whole; rest.len > 0;) {
        const struct line line = read_line(&rest);

        if (!has_flag(&line, "myself"))
            continue;
        read_own(&line, slot, &nodes);
        uses_names = bytes_equal_text(host_name(&line), queried);
    }
    for (struct bytes rest = whole; rest.len > 0;) {
        const struct line line = read_line(&rest);

        if (!has_flag(&line, "myself"))
            read_other(&line, uses_names, &nodes);
    }
    return nodes;
}

bool
cluster_nodes_list(const char *text, const char *id)
{
    for (struct bytes rest = {(const unsigned char *)text, strlen(text)}; rest.len > 0;)
        if (bytes_equal_text(read_line(&rest).id, id))
            return true;
    return false;
}

void
cluster_nodes_free(struct cluster_nodes *nodes)
{
    free(nodes->others);
    *nodes = (struct cluster_nodes){.count = 0};
}
