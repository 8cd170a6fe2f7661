/* ingest.h: a slot's progress, which is acquired, rewound and advanced. */
#ifndef CLAIRON_STORE_INGEST_H
#define CLAIRON_STORE_INGEST_H

#include "store/shards/store_private.h"

#define INGEST_LSN_TEXT 16 /* length in hex digits */

/* Writes an LSN of fixed width, so that the strings sort like LSNs; "" for 0. */
void ingest_lsn_text(uint64_t lsn, char ret_text[INGEST_LSN_TEXT + 1]);

void ingest_progress_key(const struct shard *shard, const char *slot, char ret_key[STORE_KEY_MAX]);

#endif
