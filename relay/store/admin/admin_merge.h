/* admin_merge.h: merges console replies of several shards. Pure: no I/O. */
#ifndef CLAIRON_STORE_ADMIN_MERGE_H
#define CLAIRON_STORE_ADMIN_MERGE_H

#include <stddef.h>

#include "wire/bytes.h"

/*
 * Merges replies of overview.lua, by shard; an empty text is a shard without a reply. The result
 * has the same form, except that `relays` is null without shard 0, and the caller frees it. NULL:
 * a reply is invalid, or there is none.
 */
char *admin_merge_overviews(const struct bytes *texts, size_t count);

/* Merge one page per shard of errors.lua or latest.lua, newest first, or replies of user.lua. */
char *admin_merge_errors(const struct bytes *texts, size_t count);
char *admin_merge_latest(const struct bytes *texts, size_t count);
char *admin_merge_users(const struct bytes *texts, size_t count);

#endif
