/* pool.h: a pool of equal items in whole pages, without gaps. */
#ifndef CLAIRON_BASE_POOL_H
#define CLAIRON_BASE_POOL_H

#include <stddef.h>

/* Items of one size; {.size = sizeof(struct x)} is an empty pool. Not thread-safe. */
struct pool {
    size_t size;
    struct pool_item *free_list;
};

/* Never NULL. The item is zeroed and aligned to a cache line. */
void *pool_alloc(struct pool *pool);

/* Keeps the item for reuse: a pool never shrinks. Accepts NULL. */
void pool_release(struct pool *pool, void *item);

#endif
