/* node.h: a blocking connection to one server. */
#ifndef CLAIRON_STORE_NODE_H
#define CLAIRON_STORE_NODE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "store/connection/connect.h"

#define NODE_ERROR_MAX 512
#define NODE_NO_DATABASE (-1) /* for a sentinel */

struct node;
struct redisReply;

/*
 * Connects and authenticates. `timeout_s` limits the wait for each reply, including the replies to
 * later requests.
 * RC_IO: the server does not reply. RC_BAD: it rejects the connection. `error` is the reason. Free
 * the node with node_close.
 */
MUST_CHECK enum rc node_open(const struct config *config, const struct url *address, int timeout_s,
                             struct node **ret_node, char error[NODE_ERROR_MAX]);
void node_close(struct node *node); /* accepts NULL */

/* Returns the error of the last failed request. */
const char *node_error(const struct node *node);
bool node_is_lost(const struct node *node); /* the connection failed */
/* True if the server cannot serve the request at the moment, or another server has the shard. */
bool node_is_redirected(const struct node *node);
bool node_lacks_script(const struct node *node); /* the server lacks the script of EVALSHA */

/* `lens` may be NULL. The reply is valid until the next request. NULL: see node_error. */
const struct redisReply *node_request(struct node *node, int argc, const char **argv,
                                      const size_t *lens);

/* An encoded command. */
struct node_command {
    char *bytes;
    size_t len;
};
struct node_command node_command_new(int argc, const char **argv, const size_t *lens);
void node_command_free(struct node_command *command);

/* Each node_send must be followed by a node_read before the next node_request. */
void node_send(struct node *node, const struct node_command *command);
const struct redisReply *node_read(struct node *node);

/* Returns the last reply, which the caller then owns. */
struct redisReply *node_keep_reply(struct node *node);
void node_free_reply(struct redisReply *reply); /* accepts NULL */

#endif
