/*
 * constants.h: what the scripts share with C. Where a script names one of these macros, or one of
 * keys.h or frame.h, the build writes its value: a number or a text, no expression.
 */
#ifndef CLAIRON_STORE_CONSTANTS_H
#define CLAIRON_STORE_CONSTANTS_H

#include "store/scripts/keys.h"
#include "wire/frame.h"

#define STORE_SHARDS_MAX                                                                           \
    16 /* [store] shards; the shard is in the ids of the error log, modulo it */

/* A stream entry id as the score of a sorted set: the number of distinct ids per millisecond. */
#define STORE_SCORES_OF_MS 1024

#define STORE_OPEN_MS 86400000 /* how long an open audience without expiration is waited for */

/* Rows that a script of the console returns at most, and that are left when shards are merged. */
#define STORE_OVERVIEW_ROWS 10
#define STORE_ERRORS_ROWS 20
#define STORE_LATEST_ROWS 50
#define STORE_INBOX_ROWS 20

/* A letter for each enum frame_backoff, in its order. */
#define STORE_BACKOFF_LETTERS "ELF"
_Static_assert(FRAME_BACKOFF_EXPONENTIAL == 0 && FRAME_BACKOFF_LINEAR == 1 &&
                   FRAME_BACKOFF_FIXED == 2,
               "STORE_BACKOFF_LETTERS follows enum frame_backoff");

#endif
