/* sentinel_reply.c: reads the replies of sentinels. */
#include "store/servers/sentinel_reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/connection/reply.h"

#define PORT_MAX 65535

/* A reply's strings end with a zero byte. */
long long
sentinel_read_number(const struct redisReply *reply, const char *name)
{
    const struct bytes field = reply_field(reply, name);

    return field.at != NULL ? strtoll((const char *)field.at, NULL, 10) : -1;
}

enum rc
sentinel_read_server(const struct redisReply *reply, struct slots_node *ret_node)
{
    const struct bytes host = reply_field(reply, "ip");
    const long long port = sentinel_read_number(reply, "port");

    if (host.len == 0 || host.len >= SLOTS_HOST_MAX || port < 1 || port > PORT_MAX)
        return RC_BAD;
    snprintf(ret_node->host, SLOTS_HOST_MAX, "%.*s", (int)host.len, (const char *)host.at);
    ret_node->port = (int)port;
    return RC_OK;
}

enum rc
sentinel_read_primary(const struct redisReply *reply, struct sentinel_primary *ret_primary)
{
    const char *flags = (const char *)reply_field(reply, "flags").at;
    struct sentinel_primary primary = {.epoch = sentinel_read_number(reply, "config-epoch")};

    if (flags == NULL || primary.epoch < 0 || sentinel_read_server(reply, &primary.server) != RC_OK)
        return RC_BAD;
    primary.is_down = strstr(flags, "_down") != NULL;
    primary.is_switching = strstr(flags, "failover_in_progress") != NULL;
    *ret_primary = primary;
    return RC_OK;
}

void
sentinel_credentials(const struct config *config, struct url *address)
{
    const char *user = config->store.sentinel_user, *password = config->store.sentinel_password;

    explicit_bzero(address->user, sizeof(address->user));
    explicit_bzero(address->password, sizeof(address->password));
    if (user != NULL)
        snprintf(address->user, sizeof(address->user), "%s", user);
    if (password != NULL)
        snprintf(address->password, sizeof(address->password), "%s", password);
}
