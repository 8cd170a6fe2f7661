/* query.h: sends one command to a server over a separate connection. */
#ifndef CLAIRON_STORE_QUERY_H
#define CLAIRON_STORE_QUERY_H

#include "base/config.h"
#include "store/connection/connect.h"

#define QUERY_WORDS_MAX 3

struct ev_loop;
struct query;
struct redisReply;

/*
 * A reply, valid during the call; SUBSCRIBE has several. NULL: the query failed with `error`, and
 * is freed after the call.
 */
typedef void query_reply(void *ctx, const struct redisReply *reply, const char *error);

/*
 * Authenticates with `address`, and sends the words up to NULL; they must outlive the query. It
 * fails unless the first reply arrives within `timeout_s`. Callbacks run only from the loop.
 */
struct query *query_start(struct ev_loop *loop, const struct config *config,
                          const struct url *address, const char *const words[QUERY_WORDS_MAX],
                          double timeout_s, query_reply *reply, void *ctx);
/* Stops all callbacks, and may be called by a callback. Accepts NULL. */
void query_stop(struct query *query);

#endif
