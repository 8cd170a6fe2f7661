/* feed_slot.h: the slot on the server, its checks before streaming, its progress in the store. */
#ifndef CLAIRON_FEED_FEED_SLOT_H
#define CLAIRON_FEED_FEED_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "postgres/libpq.h"
#include "store/store.h"
#include "wire/frame.h"

struct feed;

struct feed_slot {
    bool must_create; /* the slot does not exist yet */
    bool is_lost;     /* PostgreSQL invalidated the slot, and create_slot is off */
    bool in_recovery; /* the server is a standby */
    bool is_standby;  /* another relay reads the slot */
    struct origin origin;
    uint32_t timeline;
    uint32_t stored_timeline; /* timeline of the store's progress */
    uint64_t wal_lsn;         /* end of the server's WAL when it was identified */
    uint64_t lsn;             /* confirmed_flush_lsn, or the start of the new slot */
    uint64_t read_lsn;        /* all WAL before this LSN is stored or irrelevant; 0: unknown */
    char furthest[FRAME_POSITION_TEXT + 1]; /* position of the newest frame on stored_timeline */
    char known[FRAME_POSITION_TEXT + 1];    /* `furthest` before the server was queried */
    uint64_t acquired_lsn;                  /* the store has all frames up to this position */
    uint64_t acquired_ordinal;
    void (*on_acquired)(struct feed *feed); /* called after the reply: starts the next step */
};

void feed_query_slot(struct feed *feed);
void feed_on_slot(struct feed *feed, const PGresult *result);
void feed_create_slot(struct feed *feed);
void feed_on_slot_created(struct feed *feed, const PGresult *result);
void feed_on_slot_dropped(struct feed *feed);
/* Another relay reads the slot: waits until it stops. */
void feed_enter_standby(struct feed *feed);
void feed_fail_lost_slot(struct feed *feed); /* the slot is lost, and create_slot is off */
uint64_t feed_lsn_read(const char *text);    /* parses PostgreSQL's format; 0: invalid */

#endif
