/* follow.h: begins to read the stream of a shard, and merges it with that of shard 0. */
#ifndef CLAIRON_STORE_FOLLOW_H
#define CLAIRON_STORE_FOLLOW_H

#include "store/connection/link.h"
#include "store/read/reader_private.h"

/*
 * A relay reads shard 0, and of a cluster's other shards those whose users are connected to it. A
 * shard that is followed later is read from its newest entry on, and ordered from there on. What
 * was delivered of shard 0 before may depend on entries of the shard that are not stored yet, and
 * the newest entry may depend on entries of shard 0 that were not read yet. Once these are
 * delivered, sessions can continue from here (events.on_followed); they read everything before
 * from the store.
 */

/* Requests where to begin. RC_AGAIN: the link is down. */
MUST_CHECK enum rc follow_request(struct server_reader *server, link_reply *reply);
/* Begins there. NULL, or why it cannot. */
const char *follow_begin(struct server_reader *server, const struct redisReply *reply);
/*
 * Part of reader_seek: the shard begins at its position. Only the first reader_seek has one for a
 * shard that is being opened; after later ones the reply to follow_request has it.
 */
void follow_seek(struct server_reader *server);
/* Calls on_followed for shards to which commit order applies now. Call it after each release. */
void follow_advance(struct reader *reader);
/* A shard is being merged: call follow_advance again later. */
bool follow_waits(const struct reader *reader);

#endif
