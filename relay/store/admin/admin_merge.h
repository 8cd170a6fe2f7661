/* admin_merge.h: merges console replies of several shards. Pure: no I/O. */
#ifndef CLAIRON_STORE_ADMIN_MERGE_H
#define CLAIRON_STORE_ADMIN_MERGE_H

#include <stddef.h>

#include "wire/bytes.h"

/*
 * Merges replies of overview.lua, by shard; the first `servers` of them are from different servers.
 * The result has the same form; the caller frees it. NULL: one of them is invalid.
 */
char *admin_merge_overviews(const struct bytes *texts, size_t count, size_t servers);

/* The same for errors.lua: one page, newest first. */
char *admin_merge_errors(const struct bytes *texts, size_t count);

/* The same for latest.lua and user.lua, by shard. */
char *admin_merge_latest(const struct bytes *texts, size_t count);
char *admin_merge_users(const struct bytes *texts, size_t count);

#endif
