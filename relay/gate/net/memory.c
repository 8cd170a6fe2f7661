/* memory.c: memory that connections need only until they have asked for something. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/region.h"
#include "gate/gate_request.h"

#define BLOCK_BYTES (16 * 1024)
#define BLOCK_BYTES_MIN (8 * 1024) /* smaller ones leave no holes that others could not fill */
#define CROWD 1024                 /* connections that came or went: worth some milliseconds */
#define CALM 64                    /* .. between two sweeps: no crowd is coming or going now */

/* lws has one allocator for a process. */
static struct region blocks = {.item_bytes = BLOCK_BYTES, .most = GATE_HEADER_POOL + 8};

/* realloc(3) and free(3) of a block. */
static void *
resize_block(void *block, size_t size)
{
    void *new = size > 0 ? malloc(size) : NULL;

    if (new != NULL)
        memcpy(new, block, size < BLOCK_BYTES ? size : BLOCK_BYTES);
    if (new != NULL || size == 0)
        region_give(&blocks, block);
    return new;
}

/* Whatever lws wants to have, or (size 0) has done with. */
static void *
resize(void *memory, size_t size, const char *what)
{
    void *block = NULL;

    (void)what;
    if (region_has(&blocks, memory))
        return resize_block(memory, size);
    if (size == 0) {
        free(memory);
        return NULL;
    }
    if (memory == NULL && size >= BLOCK_BYTES_MIN && size <= BLOCK_BYTES)
        block = region_take(&blocks);
    return block != NULL ? block : realloc(memory, size);
}

void
gate_memory_init(void)
{
    lws_set_allocator(resize);
}

void
gate_memory_sweep(struct gate *gate)
{
    int count = gate->conn_count + gate->stream_count;
    bool is_calm = abs(count - gate->clients_swept) < CALM;

    gate->clients_swept = count;
    if (!is_calm || abs(count - gate->clients_trimmed) < CROWD)
        return;
    gate->clients_trimmed = count;
    (void)malloc_trim(0);
}
