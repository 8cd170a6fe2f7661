/* feed_connect.h: the steps from a connection string to a streaming slot. */
#ifndef CLAIRON_FEED_FEED_CONNECT_H
#define CLAIRON_FEED_FEED_CONNECT_H

struct feed;

/* Starts the first step. Call it in state WAITING. */
void feed_connect(struct feed *feed);
/*
 * Handles data that the server sent before STREAMING. Starts the next step once a result is
 * complete.
 */
void feed_on_result(struct feed *feed);

#endif
