/* direct_ask.h: any question to the store, for the files of this room. */
#ifndef CLAIRON_STORE_DIRECT_ASK_H
#define CLAIRON_STORE_DIRECT_ASK_H

#include "store/direct.h"
#include "store/link.h"

#define DIRECT_WORDS_MAX 16

/* The answer lives until the next question. NULL: direct_error says why. At most DIRECT_WORDS_MAX. */
const redisReply *direct_ask(struct direct *direct, int argc, const char **argv);

#endif
