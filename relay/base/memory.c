/* memory.c: allocates or aborts. A restart is safe: the state is in the slot and the store. */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define CACHE_LINE 64 /* bytes */

static void *
memory_checked(void *memory, size_t size)
{
    if (memory == NULL) {
        log_error("memory", "out of memory", LOG_UINT("size_bytes", size));
        abort();
    }
    return memory;
}

void *
memory_new(size_t size)
{
    return memory_checked(calloc(1, size > 0 ? size : 1), size);
}

void *
memory_grow(void *old, size_t size)
{
    return memory_checked(realloc(old, size > 0 ? size : 1), size);
}

char *
memory_text(const char *text, size_t len)
{
    char *copy = memory_checked(malloc(len + 1), len + 1);

    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

/* Pools. */

#define ITEMS_PER_BLOCK 64

struct pool_item {
    struct pool_item *next;
};

/* Zeroed and aligned to a cache line. */
static void *
new_cache_line(size_t size)
{
    void *new = NULL;

    if (posix_memalign(&new, CACHE_LINE, size) != 0)
        new = NULL;
    return memset(memory_checked(new, size), 0, size);
}

/* With a sanitizer each item is a separate allocation, so that use after free is detected. */
#if defined(__SANITIZE_ADDRESS__)
void *
pool_alloc(struct pool *pool)
{
    return new_cache_line(pool->size);
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
    char *items = new_cache_line(ITEMS_PER_BLOCK * size);

    for (size_t i = ITEMS_PER_BLOCK; i-- > 0;)
        /* in reverse, so that pool_alloc returns the items in order of address */
        pool_release(pool, items + i * size);
}

void *
pool_alloc(struct pool *pool)
{
    size_t size = (pool->size + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
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
