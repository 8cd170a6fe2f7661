/* batch.h: frames as arguments of the ingest script. */
#ifndef CLAIRON_STORE_BATCH_H
#define CLAIRON_STORE_BATCH_H

#include <stddef.h>

#include "store/store.h"

/* The script's arguments from `first` on are free for the caller, records follow. */
#define BATCH_RESERVED 7

struct store_batch {
    const char **argv;
    size_t *lens;
    size_t argc;
    size_t room;
    size_t count; /* frames */
    size_t bytes; /* of what the arguments point at */
    char **texts; /* positions, ids and counts made for this batch */
    size_t text_count;
    size_t text_room;
};

/* Makes room for the caller's arguments, also in a batch that holds nothing. */
void batch_reserve(struct store_batch *batch);

/* Forgets the frames, keeps the memory. */
void batch_clear(struct store_batch *batch);

#endif
