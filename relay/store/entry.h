/* entry.h: one stream entry: a notification, or a retry of it. */
#ifndef CLAIRON_STORE_ENTRY_H
#define CLAIRON_STORE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "wire/frame.h"

#define ENTRY_ID_TEXT_MAX 42 /* two 64-bit numbers, a dash and the zero byte */

/*
 * The id of a stream entry. Ids increase along the stream. In the relay and in cursors, the highest
 * bits of `ms` are the generation of the stream (history.h): ids of a later generation are higher.
 * In the store, and in scripts, they are 0.
 */
struct entry_id {
    uint64_t ms;
    uint64_t seq;
};

#define ENTRY_MS_BITS 44 /* until the year 2527 */
#define ENTRY_GENERATION_MAX ((UINT64_C(1) << (64 - ENTRY_MS_BITS)) - 1)

static inline uint32_t
entry_id_generation(struct entry_id id)
{
    return (uint32_t)(id.ms >> ENTRY_MS_BITS);
}

/* Returns the id in the store. */
static inline struct entry_id
entry_id_raw(struct entry_id id)
{
    return (struct entry_id){id.ms & ((UINT64_C(1) << ENTRY_MS_BITS) - 1), id.seq};
}

/* Returns the id of an entry of this generation, from the id in the store. */
static inline struct entry_id
entry_id_of(uint32_t generation, struct entry_id raw)
{
    return (struct entry_id){(uint64_t)generation << ENTRY_MS_BITS | entry_id_raw(raw).ms, raw.seq};
}

static inline bool
entry_id_is_zero(struct entry_id id)
{
    return id.ms == 0 && id.seq == 0;
}

/* A stream entry. Points into the store's reply. */
struct entry {
    struct entry_id id;
    unsigned char shard; /* shard of the stream */
    struct frame frame;  /* from the field `route`, without the data */
    struct bytes uuid;
    struct bytes data;
    /* newer notifications of another shard may have been delivered first */
    bool is_late;
    bool is_retry;            /* delivered only to `retry_users` */
    struct bytes retry_users; /* packed like targets: iterate with frame_next_target */
    bool is_open_ended;       /* every recipient must acknowledge it */
    int64_t expires_us;       /* expiration; 0: does not expire */
    struct entry_id first;    /* in an inbox: its first stream entry, before any retry */
    bool is_ended;            /* in an inbox: it is not pending any more ... */
    bool is_acked;            /* ... because another session acknowledged it */
};

/* Returns the id as a score of a sorted set, as in the scripts: 1024 scores per millisecond. */
uint64_t entry_id_score(struct entry_id id);
/* Returns the lowest id with this score, as in the store. */
struct entry_id entry_id_of_score(uint64_t score);
MUST_CHECK enum rc entry_id_read(const char *text, size_t len, struct entry_id *ret_id);
void entry_id_text(struct entry_id id, char ret_text[ENTRY_ID_TEXT_MAX]);

static inline bool
entry_id_less(struct entry_id a, struct entry_id b)
{
    return a.ms < b.ms || (a.ms == b.ms && a.seq < b.seq);
}

/* Returns the highest id below `id`. */
static inline struct entry_id
entry_id_before(struct entry_id id)
{
    return id.seq > 0 ? (struct entry_id){id.ms, id.seq - 1}
                      : (struct entry_id){id.ms - 1, UINT64_MAX};
}

static inline bool
entry_id_equal(struct entry_id a, struct entry_id b)
{
    return a.ms == b.ms && a.seq == b.seq;
}

#endif
