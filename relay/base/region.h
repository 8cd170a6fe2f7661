/* region.h: memory for what a crowd needs for a moment, apart from what its members keep. */
#ifndef CLAIRON_BASE_REGION_H
#define CLAIRON_BASE_REGION_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Up to so many items of one size. On the heap they would stand between what is kept, and leave
 * holes that stay resident as long as that does. {.item_bytes = .., .most = ..} is an empty one.
 * For one thread.
 */
struct region {
    size_t item_bytes; /* at least a pointer's */
    size_t most;       /* items */
    char *first;       /* NULL: no item was taken yet */
    size_t taken;
    size_t used; /* that were taken since the region was last empty */
    struct region_item *given_back;
};

/* Of any content, aligned as multiples of item_bytes are. NULL: all are taken. */
void *region_take(struct region *region);

/* When it is the last one, all memory but a little goes back to the system. */
void region_give(struct region *region, void *item);

/* Is it one of its items? */
bool region_has(const struct region *region, const void *item);

/* With all items; then it is an empty one. */
void region_free(struct region *region);

#endif
