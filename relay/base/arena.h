/* arena.h: an arena for short-lived per-connection state, separate from the heap. */
#ifndef CLAIRON_BASE_ARENA_H
#define CLAIRON_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Up to `max` items of one size. On the heap, short-lived items between long-lived ones would leave
 * holes that remain resident. {.item_bytes = ..., .max = ...} is an empty arena. Not thread-safe.
 */
struct arena {
    size_t item_bytes; /* at least the size of a pointer */
    size_t max;        /* maximum number of items */
    char *first;       /* NULL: no memory is reserved */
    size_t in_use;
    size_t used; /* items allocated since the arena was last empty */
    struct arena_item *free_list;
};

/* Returns an uninitialized item, aligned to item_bytes; NULL if all items are in use. */
void *arena_alloc(struct arena *arena);

/* Returns most memory to the system when the last item is freed. */
void arena_release(struct arena *arena, void *item);

/* True if the pointer is an item of this arena. */
bool arena_contains(const struct arena *arena, const void *item);

/* Frees all items; the arena is then empty. */
void arena_free(struct arena *arena);

#endif
