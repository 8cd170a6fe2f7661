/* admin_merge.h: makes one of what several shards say of themselves. Pure. */
#ifndef CLAIRON_STORE_ADMIN_MERGE_H
#define CLAIRON_STORE_ADMIN_MERGE_H

#include <stddef.h>

#include "wire/bytes.h"

/*
 * Answers of overview.lua by shard, the first `servers` of them on different ones, as one that
 * overview.lua might have given. NULL: one is no overview. For the caller to free.
 */
char *admin_merge_overviews(const struct bytes *texts, size_t count, size_t servers);

/* Answers of errors.lua: as long a page as one of them, the newest first. Likewise. */
char *admin_merge_errors(const struct bytes *texts, size_t count);

/* Answers of latest.lua, by shard; and of user.lua. Likewise. */
char *admin_merge_latest(const struct bytes *texts, size_t count);
char *admin_merge_users(const struct bytes *texts, size_t count);

#endif
