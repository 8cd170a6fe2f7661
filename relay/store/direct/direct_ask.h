/* direct_ask.h: any question to the store, for the files of this room. */
#ifndef CLAIRON_STORE_DIRECT_ASK_H
#define CLAIRON_STORE_DIRECT_ASK_H

#include "store/connection/link.h"
#include "store/direct.h"

/* One server of store.url alone, from 0 on. As direct_open. */
struct direct *direct_open_server(const struct config *config, unsigned server,
                                  char error[DIRECT_ERROR_MAX]);

/* False: the store was made with another number of shards; direct_error says so. */
bool direct_knows_shards(struct direct *direct);

/* The answer lives until the next question. NULL: direct_error says why. */
const struct redisReply *direct_ask(struct direct *direct, int argc, const char **argv);

#endif
