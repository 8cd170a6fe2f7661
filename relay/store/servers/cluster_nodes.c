/* cluster_nodes.c: reads the reply to CLUSTER NODES. */
#include "store/servers/cluster_nodes.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/bytes.h"

/*
 * A node is a line: "ID IP:PORT@BUSPORT,HOSTNAME FLAG,FLAG PRIMARY PING PONG EPOCH STATE SLOTS..".
 * The node that replied also lists its moving slots: "[SLOT->-ID]".
 */
struct line {
    const char *id;
    const char *address;
    const char *flags;
};

/* Returns the start of the word after the next blank. */
static const char *
after_blank(const char *at)
{
    at += strcspn(at, " \n");
    return *at == ' ' ? at + 1 : at;
}

/* Advances *at to the next line. */
static struct line
read_line(const char **at)
{
    struct line line;

    line.id = *at;
    line.address = after_blank(line.id);
    line.flags = after_blank(line.address);
    *at += strcspn(*at, "\n");
    *at += **at == '\n';
    return line;
}

static bool
has_flag(const struct line *line, const char *flag)
{
    const char *at = line->flags;
    size_t len;

    for (;; at += len + 1) {
        len = strcspn(at, ", \n");
        if (len == strlen(flag) && memcmp(at, flag, len) == 0)
            return true;
        if (at[len] != ',')
            return false;
    }
}

/* Returns the announced host name; empty if the node announces none. */
static struct bytes
host_name(const struct line *line)
{
    const char *at = line->address + strcspn(line->address, ", \n");

    at += *at == ',';
    return (struct bytes){(const unsigned char *)at, *at == ' ' ? 0 : strcspn(at, ", \n")};
}

/* The port follows the last colon before "@", because an IPv6 address contains colons. */
static bool
node_of_line(const struct line *line, bool uses_names, struct slots_node *ret_node)
{
    const size_t end = strcspn(line->address, "@ \n");
    struct bytes host = host_name(line);
    const char *port = NULL;

    for (size_t i = 0; i < end; i++)
        if (line->address[i] == ':')
            port = line->address + i + 1;
    if (port == NULL)
        return false;
    if (!uses_names || host.len == 0)
        host = (struct bytes){(const unsigned char *)line->address,
                              (size_t)(port - 1 - line->address)};
    if (host.len == 0 || host.len >= SLOTS_HOST_MAX)
        return false;
    snprintf(ret_node->host, SLOTS_HOST_MAX, "%.*s", (int)host.len, (const char *)host.at);
    ret_node->port = (int)strtol(port, NULL, 10);
    return true;
}

static bool
has_slots(const struct line *line)
{
    const char *at = line->flags;

    for (int fields = 0; fields < 6; fields++)
        at = after_blank(at);
    return *at >= '0' && *at <= '9';
}

static void
read_id(const char *id, char ret_id[CLUSTER_ID_MAX])
{
    snprintf(ret_id, CLUSTER_ID_MAX, "%.*s", (int)strcspn(id, " ]\n"), id);
}

struct cluster_nodes
cluster_nodes_begin(const char *text, const char *queried)
{
    const char *at = text;
    bool uses_names = false;

    while (*at != '\0') {
        const struct line line = read_line(&at);

        if (has_flag(&line, "myself"))
            uses_names = bytes_equal_text(host_name(&line), queried);
    }
    return (struct cluster_nodes){text, uses_names};
}

bool
cluster_nodes_next_primary(struct cluster_nodes *nodes, struct cluster_primary *ret_primary)
{
    while (*nodes->at != '\0') {
        const struct line line = read_line(&nodes->at);

        if (!has_flag(&line, "master") || has_flag(&line, "myself") || has_flag(&line, "handshake"))
            continue;
        *ret_primary = (struct cluster_primary){.is_failed = has_flag(&line, "fail"),
                                                .is_suspected = has_flag(&line, "fail?"),
                                                .has_slots = has_slots(&line)};
        if (has_flag(&line, "noaddr"))
            ret_primary->is_failed = true;
        else if (!node_of_line(&line, nodes->uses_names, &ret_primary->node))
            continue;
        read_id(line.id, ret_primary->id);
        return true;
    }
    return false;
}

bool
cluster_nodes_is_slotless(const char *text)
{
    while (*text != '\0') {
        const struct line line = read_line(&text);

        if (has_flag(&line, "myself"))
            return has_flag(&line, "master") && !has_slots(&line);
    }
    return false;
}

void
cluster_nodes_own_id(const char *text, char ret_id[CLUSTER_ID_MAX])
{
    ret_id[0] = '\0';
    while (*text != '\0') {
        const struct line line = read_line(&text);

        if (has_flag(&line, "myself"))
            read_id(line.id, ret_id);
    }
}

bool
cluster_nodes_target(const char *text, unsigned slot, char ret_id[CLUSTER_ID_MAX])
{
    char move[16];
    const char *at;

    snprintf(move, sizeof(move), "[%u->-", slot);
    at = strstr(text, move);
    if (at != NULL)
        read_id(at + strlen(move), ret_id);
    return at != NULL;
}
