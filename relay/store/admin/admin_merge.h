/* admin_merge.h: merges console replies of several shards. Pure: no I/O. */
#ifndef CLAIRON_STORE_ADMIN_MERGE_H
#define CLAIRON_STORE_ADMIN_MERGE_H

#include <stddef.h>

#include "wire/bytes.h"

/*
 * Merges replies of overview.lua, by shard. The result has the same form; the caller frees it.
 * NULL: one of them is invalid.
 */
char *admin_merge_overviews(const struct bytes *texts, size_t count);

/* The same for errors.lua and latest.lua, one page each, newest first, and for user.lua. */
char *admin_merge_errors(const struct bytes *texts, size_t count);
char *admin_merge_latest(const struct bytes *texts, size_t count);
char *admin_merge_users(const struct bytes *texts, size_t count);

#endif
