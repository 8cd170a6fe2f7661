/* region.c: an arena for short-lived per-connection state. */
#include "base/region.h"

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

/* kept by an empty arena, so that a few items need no system call */
#define KEPT_BYTES (size_t)(256 * 1024)

struct region_item {
    struct region_item *next;
};

/* Untouched pages cost address space, not memory. */
static void
reserve(struct region *region)
{
    size_t bytes = region->most * region->item_bytes;
    void *first = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (first == MAP_FAILED) {
        log_error("memory", "could not reserve memory", LOG_UINT("size_bytes", bytes),
                  LOG_TEXT("error", strerror(errno)));
        abort();
    }
    region->first = first;
}

void *
region_take(struct region *region)
{
    struct region_item *item = region->given_back;

    if (region->first == NULL)
        reserve(region);
    if (item == NULL && region->used == region->most)
        return NULL;
    if (item == NULL)
        item = (void *)(region->first + region->used++ * region->item_bytes);
    ASAN_UNPOISON_MEMORY_REGION(item, region->item_bytes);
    if (item == region->given_back)
        region->given_back = item->next;
    region->taken++;
    return item;
}

static void
give_to_system(struct region *region)
{
    size_t bytes = region->used * region->item_bytes;

    if (bytes > KEPT_BYTES)
        (void)madvise(region->first + KEPT_BYTES, bytes - KEPT_BYTES, MADV_DONTNEED);
    region->given_back = NULL;
    region->used = 0;
}

void
region_give(struct region *region, void *item)
{
    struct region_item *given = item;

    given->next = region->given_back;
    region->given_back = given;
    ASAN_POISON_MEMORY_REGION(item, region->item_bytes);
    if (--region->taken == 0)
        give_to_system(region);
}

bool
region_has(const struct region *region, const void *item)
{
    uintptr_t at = (uintptr_t)item, first = (uintptr_t)region->first;

    return region->first != NULL && at >= first && at < first + region->most * region->item_bytes;
}

void
region_free(struct region *region)
{
    size_t bytes = region->most * region->item_bytes;

    if (region->first != NULL) {
        /* another mapping may reuse these addresses */
        ASAN_UNPOISON_MEMORY_REGION(region->first, bytes);
        munmap(region->first, bytes);
    }
    *region = (struct region){.item_bytes = region->item_bytes, .most = region->most};
}
