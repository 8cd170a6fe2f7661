/* cluster_nodes.c: reads the reply to CLUSTER NODES. */
#include "store/servers/cluster_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "wire/bytes.h"

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
        struct bytes move = cut(&slots, " ");
        const size_t len = strlen(to);

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

void
cluster_nodes_free(struct cluster_nodes *nodes)
{
    free(nodes->others);
    *nodes = (struct cluster_nodes){.count = 0};
}
