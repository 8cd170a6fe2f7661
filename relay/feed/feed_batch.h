/* feed_batch.h: the batch being collected, and the batches in flight to the store. */
#ifndef CLAIRON_FEED_FEED_BATCH_H
#define CLAIRON_FEED_FEED_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"

#define FEED_FLIGHTS_MAX 1024 /* enough for the batches that one replication message can produce */
#define FEED_FLIGHTS_TARGET 64
/* from this number of batches in flight, only full batches are sent */
#define FEED_FLIGHTS_BATCHING 2
/* Maximum bytes in flight: hiredis moves all unsent bytes at each write. */
#define FEED_FLIGHT_BYTES_MAX (1u << 20)
#define FEED_BATCH_BYTES (128u << 10)
#define FEED_HELD_BYTES (1u << 20) /* maximum bytes of held messages, including sent frames */

struct store;
struct store_batch;

struct feed_batch {
    struct store_batch *frames;
    char **held; /* replication messages that contain the frames */
    size_t held_count;
    size_t held_room;
    size_t held_bytes;
    uint64_t confirm_lsn; /* LSN to confirm once the batch is stored; 0: nothing new */
    int64_t commit_us;    /* commit time of the first transaction that ends in the batch; 0: none */
    uint64_t lsn;         /* WAL position of the last received frame; (0, 0): none */
    uint64_t ordinal;
    char sent_position[FRAME_POSITION_TEXT + 1]; /* position of the last frame sent to the store */
};

/* A batch in flight: the store has not yet acknowledged it. */
struct flight {
    uint64_t confirm_lsn; /* as in struct feed_batch */
    size_t bytes;
    int64_t commit_us;
};

struct feed_flights {
    struct flight ring[FEED_FLIGHTS_MAX]; /* ring, oldest first */
    unsigned first;
    unsigned count;
    size_t bytes;
};

/* Drops the collected frames and the position of the last one. Keeps the position that was sent. */
void feed_batch_reset(struct feed_batch *batch, struct store *store);

/* Takes ownership of the message's bytes (malloc) until the batch that points into them is sent. */
void feed_batch_own(struct feed_batch *batch, char *owned, size_t bytes);
void feed_batch_release(struct feed_batch *batch);
void feed_batch_free(struct feed_batch *batch);

/*
 * feed_flights_add appends a batch; fewer than FEED_FLIGHTS_MAX must be in flight.
 * feed_flights_remove removes the oldest batch.
 */
void feed_flights_add(struct feed_flights *flights, struct flight flight);
struct flight feed_flights_remove(struct feed_flights *flights);
void feed_flights_reset(struct feed_flights *flights);

/* False means backpressure: the feed stops reading. */
bool feed_flights_have_room(const struct feed_flights *flights);

#endif
