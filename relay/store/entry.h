/* entry.h: one stream entry: a notification, or a retry of it. */
#ifndef CLAIRON_STORE_ENTRY_H
#define CLAIRON_STORE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "wire/frame.h"

#define ENTRY_ID_TEXT_MAX 42 /* two 64-bit numbers, a dash and the zero byte */

/* The id of a stream entry. Ids increase along the stream. */
struct entry_id {
    uint64_t ms;
    uint64_t seq;
};

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
    uint64_t score;           /* in an inbox: entry_id_score of its first stream entry */
};

/* Returns the id as a score of a sorted set, as in the scripts: 1024 scores per millisecond. */
uint64_t entry_id_score(struct entry_id id);
struct entry_id entry_id_of_score(uint64_t score); /* the lowest id with this score */
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
