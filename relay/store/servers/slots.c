/* slots.c: computes the slot of a key, and reads the servers of each slot. */
#include "store/servers/slots.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "store/connection/reply.h"

#define PORT_MAX 65535
#define FIRST_NODE 2 /* a range has its first slot, last slot, primary and replicas */

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

/* A node that prefers host names but has no host name sends "?", followed by its address. */
static struct bytes
host_of(const struct redisReply *node)
{
    const struct bytes host = reply_bytes(reply_at(node, 0));

    if (host.len == 1 && host.at[0] == '?')
        return reply_field(reply_at(node, 3), "ip");
    return host;
}

static enum rc
read_node(const struct redisReply *node, const char *queried, struct slots_node *ret_node)
{
    const struct bytes host = host_of(node);
    const long long port = reply_integer(reply_at(node, 1));

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
