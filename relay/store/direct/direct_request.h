/* direct_request.h: any blocking request to the store. */
#ifndef CLAIRON_STORE_DIRECT_REQUEST_H
#define CLAIRON_STORE_DIRECT_REQUEST_H

#include "store/connection/link.h"
#include "store/direct.h"

/* Like direct_open, for one server of store.url, counted from 0. */
struct direct *direct_open_server(const struct config *config, unsigned server,
                                  char error[DIRECT_ERROR_MAX]);

/* False: the store has another number of shards, or a request failed; see direct_error. */
bool direct_check_shards(struct direct *direct);

/* The reply is valid until the next request. NULL: see direct_error. */
const struct redisReply *direct_request(struct direct *direct, int argc, const char **argv);

#endif
