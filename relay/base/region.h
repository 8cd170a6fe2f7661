/* region.h: an arena for short-lived per-connection state, apart from long-lived memory. */
#ifndef CLAIRON_BASE_REGION_H
#define CLAIRON_BASE_REGION_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Up to `most` items of one size. On the heap, short-lived items between long-lived ones would
 * leave holes that stay resident. {.item_bytes = .., .most = ..} is an empty arena. Not
 * thread-safe.
 */
struct region {
    size_t item_bytes; /* at least the size of a pointer */
    size_t most;       /* items */
    char *first;       /* NULL: nothing allocated yet */
    size_t taken;
    size_t used; /* allocated since the arena was last empty */
    struct region_item *given_back;
};

/* Not initialized, aligned to item_bytes. NULL: all items are in use. */
void *region_take(struct region *region);

/* When the last item is freed, most memory returns to the system. */
void region_give(struct region *region, void *item);

/* True if the pointer is an item of this arena. */
bool region_has(const struct region *region, const void *item);

/* Frees all items; the arena is then empty. */
void region_free(struct region *region);

#endif
