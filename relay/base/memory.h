/*
 * memory.h: small bounded allocations and pools, which log and abort when out of memory; byte
 * strings that grow, and blocks of bytes with several owners.
 */
#ifndef CLAIRON_BASE_MEMORY_H
#define CLAIRON_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

/* Never NULL. The caller has checked the size against a limit. */
void *memory_new(size_t size); /* zeroed */
void *memory_grow(void *old, size_t size);
char *memory_text(const char *text, size_t len); /* zero-terminated copy */

/* A pool of equal items in whole pages, without gaps. */

/* Items of one size; {.size = sizeof(struct x)} is an empty pool. Not thread-safe. */
struct pool {
    size_t size;
    bool is_line_aligned; /* each item begins a cache line; otherwise it has no padding */
    struct pool_item *free_list;
};

/* Never NULL. The item is zeroed. */
void *pool_alloc(struct pool *pool);

/* Keeps the item for reuse: a pool never shrinks. Accepts NULL. */
void pool_release(struct pool *pool, void *item);

/* ---- a byte string that grows up to a fixed limit */

struct buffer {
    char *bytes; /* zero-terminated after the first addition */
    size_t len;
    size_t room;
    size_t limit; /* maximum bytes; an addition beyond it returns RC_LIMIT and adds nothing */
};

void buffer_init(struct buffer *buffer, size_t limit);
void buffer_free(struct buffer *buffer);  /* also resets to empty */
void buffer_clear(struct buffer *buffer); /* keeps the memory */
MUST_CHECK enum rc buffer_add(struct buffer *buffer, const void *bytes, size_t len);
MUST_CHECK enum rc buffer_addf(struct buffer *buffer, const char *format, ...) PRINTF_LIKE(2, 3);
/* Adds a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
MUST_CHECK enum rc buffer_add_json(struct buffer *buffer, const char *text, size_t len);

/* ---- an immutable block of bytes with several owners */

/*
 * Part of the structure that contains the bytes. Used only by the loop's thread. A block that waits
 * for one or for many sockets counts once in the total of waiting bytes.
 */
struct shared {
    unsigned refs;
    unsigned sockets; /* number of sockets for which it waits */
    size_t size;
    void (*free)(struct shared *block);
};

static inline struct shared *
shared_ref(struct shared *block)
{
    block->refs++;
    return block;
}

/* Accepts NULL. */
static inline void
shared_unref(struct shared *block)
{
    if (block != NULL && --block->refs == 0)
        block->free(block);
}

/* The block waits for one more socket. *waiting_bytes: the total of all blocks. */
static inline void
shared_wait(struct shared *block, size_t *waiting_bytes)
{
    if (block->sockets++ == 0)
        *waiting_bytes += block->size;
}

static inline void
shared_wait_end(struct shared *block, size_t *waiting_bytes)
{
    if (--block->sockets == 0)
        *waiting_bytes -= block->size;
}

#endif
