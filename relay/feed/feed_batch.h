/* feed_batch.h: the batch of frames that is gathered, and those on their way to the store. */
#ifndef CLAIRON_FEED_FEED_BATCH_H
#define CLAIRON_FEED_FEED_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"

#define FEED_FLIGHTS_MAX 1024 /* most of them is room for what one packet may give */
#define FEED_FLIGHTS_ENOUGH 64
#define FEED_FLIGHTS_HURRY 2 /* from so many on, frames wait until a batch is full */
/* Unanswered by the store; hiredis moves all that it has not sent. */
#define FEED_FLIGHT_BYTES_MAX (1u << 20)
#define FEED_BATCH_BYTES (128u << 10)
#define FEED_HELD_BYTES (1u << 20) /* of which the store may have had most */

struct store;
struct store_batch;

struct feed_batch {
    struct store_batch *frames;
    char **held; /* messages whose bytes the frames point into */
    size_t held_count;
    size_t held_room;
    size_t held_bytes;
    uint64_t confirm_lsn; /* what may be confirmed once it is stored; 0: nothing new */
    int64_t commit_us;    /* of its first transaction; 0: none has ended in it */
    uint64_t lsn;         /* position of its last frame */
    uint64_t ordinal;
    char sent_position[FRAME_POSITION_TEXT + 1]; /* of the last frame handed to the store */
};

/* A batch on its way to the store. */
struct flight {
    uint64_t confirm_lsn; /* as in struct feed_batch */
    size_t bytes;
    int64_t commit_us;
};

struct feed_flights {
    struct flight ring[FEED_FLIGHTS_MAX]; /* oldest first */
    unsigned first;
    unsigned count;
    size_t bytes;
};

/* Forgets what it holds, all but its last position. */
void feed_batch_reset(struct feed_batch *batch, struct store *store);

/* Keeps a message's bytes (malloc) until the batch that points into them is sent. */
void feed_batch_hold(struct feed_batch *batch, char *owned, size_t bytes);
void feed_batch_release(struct feed_batch *batch);
void feed_batch_free(struct feed_batch *batch);

/* Adds one behind the last, of which there are fewer than FEED_FLIGHTS_MAX; takes out the first. */
void feed_flights_add(struct feed_flights *flights, struct flight flight);
struct flight feed_flights_land(struct feed_flights *flights);
void feed_flights_reset(struct feed_flights *flights);

/* Backpressure: while there is none, nothing more is read. */
bool feed_flights_have_room(const struct feed_flights *flights);

#endif
