/* arena.c: an arena for short-lived per-connection state. */
#include "base/arena.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"

/* Poisons unused memory for the sanitizer. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

/* an empty arena keeps these bytes, so that few items need no system call */
#define KEPT_BYTES (size_t)(256 * 1024)

struct arena_item {
    struct arena_item *next;
};

/* Untouched pages use address space but no memory. */
static void
reserve(struct arena *arena)
{
    size_t bytes = arena->max * arena->item_bytes;
    void *first = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (first == MAP_FAILED) {
        log_error("memory", "could not reserve memory", LOG_UINT("size_bytes", bytes),
                  LOG_TEXT("error", strerror(errno)));
        abort();
    }
    arena->first = first;
}

void *
arena_alloc(struct arena *arena)
{
    struct arena_item *item = arena->free_list;

    if (arena->first == NULL)
        reserve(arena);
    if (item == NULL && arena->used == arena->max)
        return NULL;
    if (item != NULL) {
        ASAN_UNPOISON_MEMORY_REGION(item, arena->item_bytes);
        arena->free_list = item->next;
    } else {
        item = (void *)(arena->first + arena->used++ * arena->item_bytes);
        ASAN_UNPOISON_MEMORY_REGION(item, arena->item_bytes);
    }
    arena->in_use++;
    return item;
}

static void
trim(struct arena *arena)
{
    size_t bytes = arena->used * arena->item_bytes;

    if (bytes > KEPT_BYTES)
        (void)madvise(arena->first + KEPT_BYTES, bytes - KEPT_BYTES, MADV_DONTNEED);
    arena->free_list = NULL;
    arena->used = 0;
}

void
arena_release(struct arena *arena, void *item)
{
    struct arena_item *freed = item;

    freed->next = arena->free_list;
    arena->free_list = freed;
    ASAN_POISON_MEMORY_REGION(item, arena->item_bytes);
    if (--arena->in_use == 0)
        trim(arena);
}

bool
arena_contains(const struct arena *arena, const void *item)
{
    uintptr_t at = (uintptr_t)item, first = (uintptr_t)arena->first;

    return arena->first != NULL && at >= first && at < first + arena->max * arena->item_bytes;
}

void
arena_free(struct arena *arena)
{
    size_t bytes = arena->max * arena->item_bytes;

    if (arena->first != NULL) {
        /* another mapping may reuse these addresses */
        ASAN_UNPOISON_MEMORY_REGION(arena->first, bytes);
        munmap(arena->first, bytes);
    }
    *arena = (struct arena){.item_bytes = arena->item_bytes, .max = arena->max};
}
