/* batch.h: frames as arguments of the ingest script. */
#ifndef CLAIRON_STORE_BATCH_H
#define CLAIRON_STORE_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

/* The script's arguments from `first` on are free for the caller, records follow. */
#define BATCH_RESERVED 8

/* What goes to one shard. */
struct batch {
    const char **argv;
    size_t *lens;
    size_t argc;
    size_t room;
    size_t count;   /* frames */
    size_t notes;   /* of them */
    bool is_simple; /* notes that need no ack, and commits: nothing for a script to work out */
    const char *position; /* of the last frame; NULL: there is none */
    size_t bytes;         /* of what the arguments point at */
    char **blocks;        /* of texts made for the batches: positions, ids and counts; kept */
    size_t block_count;
    size_t text_count; /* of this batch */
};

struct store_batch {
    struct store *store;
    size_t count; /* frames, also those that are stored already, or only move the progress */
    size_t bytes;
    unsigned part_count;
    struct batch parts[]; /* one for each shard */
};

/* A note of a simple batch. */
struct batch_note {
    struct bytes id;
    struct bytes route;
    struct bytes data;
};
/* Walks the notes: `*at` is 0 at first. RC_CLOSED behind the last one. */
MUST_CHECK enum rc batch_next_note(const struct batch *batch, size_t *at,
                                   struct batch_note *ret_note);

/* Makes room for the caller's arguments, also in a batch that holds nothing. */
void batch_reserve(struct batch *batch);

/* Moves the progress to `position`, a text that outlives the batch, though no frame is there. */
void batch_add_position(struct batch *batch, const char *position);

/* Forgets the frames, keeps the memory. */
void batch_clear(struct store_batch *batch);

#endif
