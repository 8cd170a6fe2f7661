/* memory.h: small bounded allocations and pools, which log and abort when out of memory. */
#ifndef CLAIRON_BASE_MEMORY_H
#define CLAIRON_BASE_MEMORY_H

#include <stddef.h>

/* Never NULL. The caller has checked the size against a limit. */
void *memory_new(size_t size); /* zeroed */
void *memory_grow(void *old, size_t size);
char *memory_text(const char *text, size_t len); /* zero-terminated copy */

/* A pool of equal items in whole pages, without gaps. */

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
