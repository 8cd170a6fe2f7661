/* shard_list.h: a list of shards as a string, such as "3,7". */
#ifndef CLAIRON_STORE_SHARD_LIST_H
#define CLAIRON_STORE_SHARD_LIST_H

#include <stdio.h>
#include <string.h>

#include "store/scripts/constants.h"

#define SHARD_LIST_MAX (3 * STORE_SHARDS_MAX)

static inline void
shard_list_add(char list[SHARD_LIST_MAX], unsigned shard)
{
    size_t len = strlen(list);

    snprintf(list + len, SHARD_LIST_MAX - len, len > 0 ? ",%u" : "%u", shard);
}

#endif
