/* memory.h: small bounded allocations and pools, which log and abort when out of memory. */
#ifndef CLAIRON_BASE_MEMORY_H
#define CLAIRON_BASE_MEMORY_H

#include <stddef.h>

#define MEMORY_CACHE_LINE 64 /* bytes */

/* Never NULL. The caller has checked the size against a limit. */
void *memory_new(size_t size); /* zeroed */
/* Zeroed and aligned to a cache line, for frequently used items. */
void *memory_new_cache_line(size_t size);
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
