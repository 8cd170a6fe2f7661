/* pool.c: a pool of equal items in whole pages, without gaps. */
#include "base/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define ITEMS_PER_BLOCK 64

struct pool_item {
    struct pool_item *next;
};

/* With a sanitizer each item is a separate allocation, so that use after free is detected. */
#if defined(__SANITIZE_ADDRESS__)
void *
pool_alloc(struct pool *pool)
{
    return memory_new_cache_line(pool->size);
}

void
pool_release(struct pool *pool, void *item)
{
    (void)pool;
    free(item);
}
#else

/* The memory is never freed: pools live as long as the process. */
static void
grow(struct pool *pool, size_t size)
{
    char *items = memory_new_cache_line(ITEMS_PER_BLOCK * size);

    for (size_t i = ITEMS_PER_BLOCK; i-- > 0;)
        /* in reverse, so that pool_alloc returns the items in order of address */
        pool_release(pool, items + i * size);
}

void *
pool_alloc(struct pool *pool)
{
    size_t size = (pool->size + MEMORY_CACHE_LINE - 1) & ~(size_t)(MEMORY_CACHE_LINE - 1);
    struct pool_item *item;

    if (pool->free_list == NULL)
        grow(pool, size);
    item = pool->free_list;
    pool->free_list = item->next;
    return memset(item, 0, pool->size);
}

void
pool_release(struct pool *pool, void *item)
{
    struct pool_item *freed = item;

    if (freed == NULL)
        return;
    freed->next = pool->free_list;
    pool->free_list = freed;
}
#endif
