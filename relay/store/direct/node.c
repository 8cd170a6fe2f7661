/* node.c: a blocking connection to one server. */
#include "store/direct/node.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/connection/fault.h"
#include "store/connection/reply.h"
#include "store/connection/connect.h"

struct node {
    redisContext *redis;
    redisReply *reply; /* the last reply */
    char error[NODE_ERROR_MAX];
};

const char *
node_error(const struct node *node)
{
    return node->error;
}

bool
node_is_lost(const struct node *node)
{
    return node->redis->err != 0;
}

bool
node_is_redirected(const struct node *node)
{
    return reply_is_error(node->reply) && fault_is_redirection(reply_text(node->reply));
}

bool
node_lacks_script(const struct node *node)
{
    return reply_is_error(node->reply) && strncmp(reply_text(node->reply), "NOSCRIPT", 8) == 0;
}

void
node_free_reply(struct redisReply *reply)
{
    if (reply != NULL)
        freeReplyObject(reply);
}

static void
drop_reply(struct node *node)
{
    node_free_reply(node->reply);
    node->reply = NULL;
}

void
node_close(struct node *node)
{
    if (node == NULL)
        return;
    drop_reply(node);
    if (node->redis != NULL)
        redisFree(node->redis);
    free(node);
}

static const struct redisReply *
check_reply(struct node *node)
{
    if (node->reply == NULL)
        snprintf(node->error, sizeof(node->error), "the store does not reply: %s",
                 node->redis->errstr);
    else if (reply_is_error(node->reply))
        snprintf(node->error, sizeof(node->error), "the store rejected the command: %s",
                 reply_text(node->reply));
    else
        return node->reply;
    return NULL;
}

const struct redisReply *
node_request(struct node *node, int argc, const char **argv, const size_t *lens)
{
    drop_reply(node);
    node->reply = redisCommandArgv(node->redis, argc, argv, lens);
    return check_reply(node);
}

struct node_command
node_command_new(int argc, const char **argv, const size_t *lens)
{
    struct node_command command = {NULL, 0};
    /* hiredis before 1.0 returns an int. */
    const long long len = redisFormatCommandArgv(&command.bytes, argc, argv, lens);

    if (len < 0)
        abort(); /* out of memory */
    command.len = (size_t)len;
    return command;
}

void
node_command_free(struct node_command *command)
{
    redisFreeCommand(command->bytes);
    *command = (struct node_command){NULL, 0};
}

void
node_send(struct node *node, const struct node_command *command)
{
    /* If this fails, node_read fails too. */
    (void)redisAppendFormattedCommand(node->redis, command->bytes, command->len);
}

const struct redisReply *
node_read(struct node *node)
{
    drop_reply(node);
    if (redisGetReply(node->redis, (void **)&node->reply) != REDIS_OK)
        node->reply = NULL;
    return check_reply(node);
}

struct redisReply *
node_keep_reply(struct node *node)
{
    redisReply *reply = node->reply;

    node->reply = NULL;
    return reply;
}

static enum rc
request_setup(struct node *node, int argc, const char **argv)
{
    if (node_request(node, argc, argv, NULL) != NULL)
        return RC_OK;
    return node_is_lost(node) || node_is_redirected(node) ? RC_IO : RC_BAD;
}

static enum rc
authenticate(struct node *node, const struct url *address)
{
    const char *auth[3] = {"AUTH", address->user, address->password};
    const bool has_user = address->user[0] != '\0';

    if (address->password[0] == '\0')
        return RC_OK;
    if (!has_user)
        auth[1] = address->password;
    return request_setup(node, has_user ? 3 : 2, auth);
}

static enum rc
select_database(struct node *node, const struct url *address)
{
    char database[16];
    const char *select[2] = {"SELECT", database};

    snprintf(database, sizeof(database), "%d", address->database);
    return address->database != NODE_NO_DATABASE ? request_setup(node, 2, select) : RC_OK;
}

static enum rc
fail_connecting(struct node *node, const struct url *address, enum rc rc, const char *reason)
{
    char where[URL_FORMAT_MAX];

    url_format(address, where);
    snprintf(node->error, sizeof(node->error), "could not connect to the store (%.200s): %s", where,
             reason);
    return rc;
}

static enum rc
secure(struct node *node, const struct config *config, const struct url *address)
{
    char reason[TLS_ERROR_MAX];

    if (!address->tls || tls_start(config, address->host, node->redis, reason) == RC_OK)
        return RC_OK;
    return fail_connecting(node, address, RC_BAD, reason);
}

static enum rc
start(struct node *node, const struct config *config, const struct url *address, int timeout_s)
{
    const struct timeval timeout = {timeout_s, 0};
    enum rc rc;

    node->redis = address->path[0] != '\0'
                      ? redisConnectUnixWithTimeout(address->path, timeout)
                      : redisConnectWithTimeout(address->host, address->port, timeout);
    if (node->redis == NULL)
        return fail_connecting(node, address, RC_IO, "out of memory");
    if (node->redis->err != 0 || redisSetTimeout(node->redis, timeout) != REDIS_OK)
        return fail_connecting(node, address, RC_IO, node->redis->errstr);
    rc = secure(node, config, address);
    if (rc == RC_OK)
        rc = authenticate(node, address);
    return rc == RC_OK ? select_database(node, address) : rc;
}

enum rc
node_open(const struct config *config, const struct url *address, int timeout_s,
          struct node **ret_node, char error[NODE_ERROR_MAX])
{
    struct node *node = memory_new(sizeof(*node));
    enum rc rc = start(node, config, address, timeout_s);

    if (rc == RC_OK) {
        *ret_node = node;
        return RC_OK;
    }
    snprintf(error, NODE_ERROR_MAX, "%s", node->error);
    node_close(node);
    return rc;
}
