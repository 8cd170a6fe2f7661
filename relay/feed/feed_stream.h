/* feed_stream.h: streams frames from the slot into the store, and confirms them. */
#ifndef CLAIRON_FEED_FEED_STREAM_H
#define CLAIRON_FEED_FEED_STREAM_H

#include <stdbool.h>

#include "wire/bytes.h"

struct feed;

void feed_stream_start(struct feed *feed);
/* Reads messages until libpq has no more messages, or too many batches are in flight. */
void feed_stream_pump(struct feed *feed);
void feed_stream_flush(struct feed *feed); /* sends the batch unless it is empty */
/* if nothing is in flight, confirms all WAL that the server has read */
void feed_stream_idle(struct feed *feed);
/*
 * Handles a message of frames and takes ownership of its bytes (malloc). Returns false if the feed
 * was restarted.
 */
bool feed_stream_receive(struct feed *feed, char *owned, struct bytes frames);
/* Sends a status message with the confirmed LSN. */
void feed_send_feedback(struct feed *feed);
/* Updates the lag metrics. */
void feed_update_lag(struct feed *feed);

#endif
