/* shared.h: an immutable block of bytes with several owners. */
#ifndef CLAIRON_BASE_SHARED_H
#define CLAIRON_BASE_SHARED_H

#include <stddef.h>

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
