/* pool.h: memory for what there are very many of, side by side: few pages, no gaps between them. */
#ifndef CLAIRON_BASE_POOL_H
#define CLAIRON_BASE_POOL_H

#include <stddef.h>

/* Of items of one size; {.size = sizeof(struct x)} is an empty one. For one thread. */
struct pool {
    size_t size;
    struct pool_item *given_back;
};

/* Never NULL: zeroed, at the start of a cache line. */
void *pool_take(struct pool *pool);

/* Kept for the next one: a pool is as large as it ever was. Accepts NULL. */
void pool_give(struct pool *pool, void *item);

#endif
