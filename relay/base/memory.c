/* memory.c: allocates or aborts. A restart is safe: the state is in the slot and the store. */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

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
memory_new_cache_line(size_t size)
{
    void *new = NULL;

    if (posix_memalign(&new, MEMORY_CACHE_LINE, size) != 0)
        new = NULL;
    return memset(memory_checked(new, size), 0, size);
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
