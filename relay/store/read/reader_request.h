/* reader_request.h: the next XREAD of a server: its streams, positions and count. */
#ifndef CLAIRON_STORE_READER_REQUEST_H
#define CLAIRON_STORE_READER_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "store/read/reader_private.h"

#define READER_WORDS 6 /* arguments before the streams */
#define READER_STREAMS (2 + 2 * STORE_SHARDS_MAX)
#define READER_ARGC (READER_WORDS + 2 * READER_STREAMS)

/* One XREAD. argv points into this struct and into the reader. */
struct reader_request {
    const char *argv[READER_ARGC];
    int argc;
    size_t entries; /* COUNT */
    char count[24];
    char at[STORE_SHARDS_MAX][ENTRY_ID_TEXT_MAX];
};

/* True if the server must not be read until reader_release has delivered some stream entries. */
bool reader_request_is_held_back(const struct server_reader *server);
void reader_request_write(const struct server_reader *server, struct reader_request *ret_request);

#endif
