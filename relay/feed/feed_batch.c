/* feed_batch.c: collects frames into a batch and tracks the batches in flight to the store. */
#include "feed/feed_batch.h"

#include <stdlib.h>

#include "base/memory.h"
#include "store/store.h"

void
feed_batch_reset(struct feed_batch *batch, struct store *store)
{
    store_batch_free(batch->frames);
    batch->frames = store_batch_new(store);
    feed_batch_release(batch);
    batch->confirm_lsn = 0;
    batch->commit_us = 0;
    batch->lsn = 0;
    batch->ordinal = 0;
}

void
feed_batch_own(struct feed_batch *batch, char *owned, size_t bytes)
{
    if (batch->held_count == batch->held_room) {
        batch->held_room = batch->held_room == 0 ? 64 : batch->held_room * 2;
        batch->held = memory_grow(batch->held, batch->held_room * sizeof(*batch->held));
    }
    batch->held[batch->held_count++] = owned;
    batch->held_bytes += bytes;
}

void
feed_batch_release(struct feed_batch *batch)
{
    for (size_t i = 0; i < batch->held_count; i++)
        free(batch->held[i]);
    batch->held_count = 0;
    batch->held_bytes = 0;
}

void
feed_batch_free(struct feed_batch *batch)
{
    store_batch_free(batch->frames);
    free(batch->held);
}

void
feed_flights_add(struct feed_flights *flights, struct flight flight)
{
    flights->ring[(flights->first + flights->count) % FEED_FLIGHTS_MAX] = flight;
    flights->count++;
    flights->bytes += flight.bytes;
}

struct flight
feed_flights_remove(struct feed_flights *flights)
{
    struct flight flight = flights->ring[flights->first];

    flights->first = (flights->first + 1) % FEED_FLIGHTS_MAX;
    flights->count--;
    flights->bytes -= flight.bytes;
    return flight;
}

void
feed_flights_reset(struct feed_flights *flights)
{
    flights->first = 0;
    flights->count = 0;
    flights->bytes = 0;
}

bool
feed_flights_have_room(const struct feed_flights *flights)
{
    return flights->count < FEED_FLIGHTS_TARGET && flights->bytes < FEED_FLIGHT_BYTES_MAX;
}
