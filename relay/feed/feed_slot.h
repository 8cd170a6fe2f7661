/* feed_slot.h: the slot as the server has it, and its progress as the store has it. */
#ifndef CLAIRON_FEED_FEED_SLOT_H
#define CLAIRON_FEED_FEED_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"
#include "wire/frame.h"

struct feed;

struct feed_slot {
    bool must_create; /* it does not exist yet */
    bool is_lost;     /* PostgreSQL gave it up, and we may not make another */
    bool in_recovery; /* the server is a standby */
    bool is_standby;  /* another relay reads it */
    struct origin origin;
    uint32_t timeline;
    uint32_t stored_timeline; /* of the store's progress */
    uint64_t lsn;             /* where it goes on, as it was found or made */
    uint64_t read_lsn;        /* up to where the store knows of all WAL; 0: not known */
    char furthest[FRAME_POSITION_TEXT + 1]; /* of the newest frame that is of that timeline */
    uint64_t claimed_lsn;                   /* position up to which the store had all frames */
    uint64_t claimed_ordinal;
    void (*on_claimed)(struct feed *feed); /* what is next, once the progress is known */
};

#endif
