/*
 * receipts.h: the receipts of a shard, as the sinks read them. A sink is a consumer group on the
 * stream of receipts of each shard, and each relay is a consumer. The functions return RC_AGAIN if
 * the shard is down; otherwise the callback is called once.
 */
#ifndef CLAIRON_STORE_RECEIPTS_H
#define CLAIRON_STORE_RECEIPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/entry.h"
#include "store/store.h"

#define STORE_GENERATION_TEXT 24

struct store_receipt {
    struct bytes entry; /* its stream entry */
    struct bytes id;    /* as in JSON, without quotes */
    struct bytes data;  /* a JSON object; empty: the entry cannot be read */
    /* The entry's receipts follow each other: it is the one with this number, from 0. */
    unsigned number, count;
};

struct store_receipts_wanted {
    unsigned shard;
    const char *group;
    size_t max_entries; /* 0: none */
    /* "": new receipts; otherwise those after it that this relay has read and not acknowledged */
    const char *after;
    /* heartbeat, receipts of dead relays, and the state of the group; call it every few seconds */
    bool is_periodic;
    bool is_consumer; /* false: no heartbeat, so that other relays take the receipts */
    bool may_count;   /* the store may count the backlog one by one: a few ms, so seldom */
};

/* Valid during the callback. */
struct store_receipts {
    const struct store_receipt *items;
    size_t count;
    size_t entries;                         /* that have these receipts */
    char generation[STORE_GENERATION_TEXT]; /* entries are only valid in it */
    char more[ENTRY_ID_TEXT_MAX];           /* `after` of the next call; "": no more */
    bool has_claimed; /* receipts of dead relays were added to those that this relay has read */
    uint64_t dropped; /* receipts that were trimmed before the sink has taken them */
    bool is_off;      /* the sink is switched off: nothing was read */
    /* with is_periodic: */
    struct entry_id first; /* the oldest receipt in the stream; 0-0: none */
    /*
     * Receipts that no relay has acknowledged; -1: not counted. An estimate if they have many
     * entries. If the store does not know their number, then those of the oldest 1 000 entries that
     * no relay has read are counted.
     */
    int64_t backlog;
    int64_t oldest_us; /* time of the oldest of them; 0: none */
};

typedef void store_receipts_paged(void *ctx, enum rc rc, const struct store_receipts *receipts);
MUST_CHECK enum rc store_receipts_read(struct store *store,
                                       const struct store_receipts_wanted *wanted,
                                       store_receipts_paged *done, void *ctx);

/*
 * Acknowledges receipts that were read in this generation. `position`: of the sink's database, or
 * "". RC_CLOSED: the generation has changed, nothing was done.
 */
MUST_CHECK enum rc store_receipts_ack(struct store *store, unsigned shard, const char *group,
                                      const char *generation, const char *position,
                                      const char *const *entries, size_t count, store_acked *done,
                                      void *ctx);

/*
 * Compares the position of the sink's database with that of the last acknowledgement. If it went
 * back, receipts of the last `back_ms` are read again, and went_back is true.
 */
typedef void store_receipts_rewound(void *ctx, enum rc rc, bool went_back);
MUST_CHECK enum rc store_receipts_rewind(struct store *store, unsigned shard, const char *group,
                                         const char *position, int64_t back_ms,
                                         store_receipts_rewound *done, void *ctx);

/* Switches a sink on or off in a shard, for all relays. */
MUST_CHECK enum rc store_receipts_switch(struct store *store, unsigned shard, const char *group,
                                         bool on, store_acked *done, void *ctx);

/*
 * Reads the JSON of a notification of the shard, if it is still pending; otherwise it has no bytes.
 */
MUST_CHECK enum rc store_receipts_read_notification(struct store *store, unsigned shard,
                                                    const char *id, store_bytes_read *done,
                                                    void *ctx);

#endif
