/* denials.c: counts what the scripts deny to table owners. */
#include "store/denials.h"

#include <stdlib.h>

#include "base/clock.h"
#include "store/connection/reply.h"
#include "store/shards/store_private.h"

const struct store_denials *
store_denials(const struct store *store, enum store_account account)
{
    return &store->denials[account];
}

static void
count_denied(struct store_denials *denials, uint32_t owner, uint64_t items)
{
    size_t i = 0;

    denials->total += items;
    while (i < denials->count && denials->owners[i].owner != owner)
        i++;
    if (i == STORE_DENIALS_MAX)
        return;
    if (i == denials->count)
        denials->owners[denials->count++] = (struct store_denial){.owner = owner};
    denials->owners[i].items += items;
    denials->owners[i].last_us = clock_wall_us();
}

uint64_t
store_count_denied(struct store *store, enum store_account account, const struct redisReply *reply)
{
    const struct bytes text = reply_bytes(reply);
    const char *at = text.at != NULL ? (const char *)text.at : "";
    uint64_t sum = 0;
    char *end;

    while (*at != '\0') {
        const unsigned long owner = strtoul(at, &end, 10);
        const unsigned long long items = strtoull(end, &end, 10);

        if (end == at)
            break;
        count_denied(&store->denials[account], (uint32_t)owner, items);
        sum += items;
        at = end;
    }
    return sum;
}
