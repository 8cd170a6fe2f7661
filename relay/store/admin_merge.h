/* admin_merge.h: makes one of what several shards say of themselves. Pure. */
#ifndef CLAIRON_STORE_ADMIN_MERGE_H
#define CLAIRON_STORE_ADMIN_MERGE_H

#include <jansson.h>
#include <stddef.h>

/*
 * Answers of overview.lua by shard, the first `servers` of them on different ones, as one that
 * overview.lua might have given. NULL: one is no overview. The caller owns it.
 */
json_t *admin_merge_overviews(json_t *const *overviews, size_t count, size_t servers);

/* Answers of errors.lua: as long a page as one of them, the newest first. Likewise. */
json_t *admin_merge_errors(json_t *const *pages, size_t count);

#endif
