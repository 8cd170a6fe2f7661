/* follow.h: starts to read a shard's stream, and merges it with the stream of shard 0. */
#ifndef CLAIRON_STORE_FOLLOW_H
#define CLAIRON_STORE_FOLLOW_H

#include "store/servers/link.h"
#include "store/read/reader_private.h"

/*
 * A relay reads shard 0. In a cluster it also reads the shards of its connected users. A shard that
 * is followed later is read and ordered from its newest stream entry on. Earlier deliveries from
 * shard 0 may depend on entries of the shard that are not stored yet. The newest entry may depend
 * on entries of shard 0 that were not read yet. Once all of these entries are delivered, sessions
 * can continue from this point (events.on_followed). They read all earlier entries from the store.
 */

/* Requests the start position. RC_AGAIN: the link is down. */
MUST_CHECK enum rc follow_request(struct server_reader *server, link_reply *reply);
/* Starts at the position in the reply. Returns NULL or an error message. */
const char *follow_begin(struct server_reader *server, const struct redisReply *reply);
/*
 * Part of reader_seek: the shard starts at its position. Only the first reader_seek has a position
 * for a shard that is being opened. After later calls the reply to follow_request contains the
 * position. A shard that is being merged remains in that state: other shards may lack the stream
 * entries that it waits for.
 */
void follow_seek(struct server_reader *server);
/* Calls on_followed for shards that have joined the commit order. Call it after each release. */
void follow_advance(struct reader *reader);
/* A shard is being merged: call follow_advance again later. */
bool follow_waits(const struct reader *reader);

#endif
