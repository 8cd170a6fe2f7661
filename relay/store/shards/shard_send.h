/*
 * shard_send.h: sends requests to a shard that is up. Its link is up earlier: until the check of
 * its slot has ended, the node may have only some of the shard's keys (slot_check.h), and a request
 * could create the others again, or treat their notifications as expired.
 */
#ifndef CLAIRON_STORE_SHARD_SEND_H
#define CLAIRON_STORE_SHARD_SEND_H

#include "base/rc.h"
#include "store/servers/link.h"
#include "store/shards/shard.h"

/* Like link_send, link_call and link_send_ready. RC_AGAIN also if the shard is not up. */
MUST_CHECK enum rc shard_send(struct shard *shard, link_reply *reply, void *ctx, int argc,
                              const char **argv, const size_t *lens);
MUST_CHECK enum rc shard_call(struct shard *shard, enum store_script script, int key_count,
                              link_reply *reply, void *ctx, int argc, const char **argv,
                              const size_t *lens);
MUST_CHECK enum rc shard_send_ready(struct shard *shard, enum time_of what, link_reply *reply,
                                    void *ctx, char *bytes, size_t len, size_t count);

#endif
