/* reader_reply.h: handles the replies to XREAD. */
#ifndef CLAIRON_STORE_READER_REPLY_H
#define CLAIRON_STORE_READER_REPLY_H

#include <stdbool.h>

#include "store/read/reader_private.h"

/*
 * Delivers the stream entries of a reply and advances the positions. If `is_stale`, notifications
 * are dropped: their positions are outdated.
 */
void reader_handle_reply(struct server_reader *server, const struct redisReply *reply,
                         bool is_stale);

#endif
