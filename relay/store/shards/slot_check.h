/*
 * slot_check.h: checks that no other node of a cluster has keys of a shard. `redis-cli --cluster
 * fix` may assign the slot of an interrupted move to a node before it moves the remaining keys
 * there, and a replica that takes over the slot does not know of the move. Scripts on that node
 * would create the missing keys again.
 */
#ifndef CLAIRON_STORE_SLOT_CHECK_H
#define CLAIRON_STORE_SLOT_CHECK_H

struct shard;
struct slot_check;

/*
 * Calls `done` from the loop if no other primary has keys of the shard; while some have keys, it
 * restarts the shard's link instead. A primary that does not reply, or rejects the connection, is
 * ignored, unless it may have keys: since the last complete check, the slot was moving to it or
 * from it, or it has had keys. If that node does not work, a primary with slots may have taken over
 * its keys. The link must be up; stop the check when it goes down. Returns NULL if it could not
 * send a command.
 */
struct slot_check *slot_check_start(struct shard *shard, void (*done)(struct shard *shard));
void slot_check_stop(struct slot_check *check); /* may be called by `done`; accepts NULL */

#endif
