/* position.h: the WAL position of a notification, which defines commit order across shards. */
#ifndef CLAIRON_STORE_POSITION_H
#define CLAIRON_STORE_POSITION_H

#include <stdbool.h>
#include <stdint.h>

/* (0, 0): no commit position; lower than all other positions. */
struct position {
    uint64_t lsn;
    uint64_t ordinal;
};

static inline bool
position_less(struct position a, struct position b)
{
    return a.lsn < b.lsn || (a.lsn == b.lsn && a.ordinal < b.ordinal);
}

static inline void
position_raise(struct position *position, struct position to)
{
    if (position_less(*position, to))
        *position = to;
}

#endif
