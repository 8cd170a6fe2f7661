/* ingest.h: what claiming, resetting and storing share of a slot's progress. */
#ifndef CLAIRON_STORE_INGEST_H
#define CLAIRON_STORE_INGEST_H

#include "store/shards/store_private.h"

#define INGEST_LSN_TEXT 16 /* hex digits */

/* Sorts as the LSN does; none: "". */
void ingest_lsn_text(uint64_t lsn, char ret_text[INGEST_LSN_TEXT + 1]);

void ingest_progress_key(const struct shard *shard, const char *slot, char ret_key[STORE_KEY_MAX]);

#endif
