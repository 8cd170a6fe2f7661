/* entry.h: stream entries, their ids and generations, and positions in streams and in the WAL. */
#ifndef CLAIRON_STORE_ENTRY_H
#define CLAIRON_STORE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "store/scripts/constants.h"
#include "wire/bytes.h"
#include "wire/frame.h"

/* (0, 0): no commit position; lower than all other positions. */
struct position {
    uint64_t lsn;
    uint64_t ordinal;
};

static inline bool
position_less(struct position a, struct position b)
{
    return a.lsn < b.lsn || (a.lsn == b.lsn && a.ordinal < b.ordinal);
}

static inline void
position_raise(struct position *position, struct position to)
{
    if (position_less(*position, to))
        *position = to;
}

/* (0, 0) if the text is not the text of a position. */
struct position position_from(struct bytes text);

#define ENTRY_ID_TEXT_MAX 42 /* two 64-bit numbers, a dash and the zero byte */

/*
 * The id of a stream entry. Ids increase along the stream. In the relay and in cursors, the highest
 * bits of `ms` are the generation of the stream (struct history): ids of a later generation are
 * higher. In the store, and in scripts, they are 0.
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

/* A stream entry (entry_read). Points into the store's reply. */
struct entry {
    struct entry_id id;
    unsigned char shard; /* shard of the stream */
    struct frame frame;  /* from the field `route`, without the data */
    struct bytes uuid;
    struct bytes data;
    /* newer notifications of another shard may have been delivered first */
    bool is_late;
    bool is_early;            /* earlier ones of another shard, which is behind, may follow */
    bool is_retry;            /* delivered only to `retry_users` */
    struct bytes retry_users; /* packed like targets: iterate with frame_next_target */
    int64_t expires_us;       /* expiration; 0: does not expire */
    struct entry_id first;    /* in a pending list: its first stream entry, before any retry */
    bool is_ended;            /* in a pending list: it is not pending any more ... */
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

static inline struct entry_id
entry_id_after(struct entry_id id)
{
    return id.seq < UINT64_MAX ? (struct entry_id){id.ms, id.seq + 1}
                               : (struct entry_id){id.ms + 1, 0};
}

static inline bool
entry_id_equal(struct entry_id a, struct entry_id b)
{
    return a.ms == b.ms && a.seq == b.seq;
}

/*
 * A failover or a crash may lose the end of a stream, and the former primary may still add entries
 * to its own copy. A generation begins when hello.lua first runs on a server that has started or
 * was promoted: it ends the generation before at the newest id that the stream has then. So all
 * streams that contain a generation are equal up to the lower of their ends of it.
 *
 * Entries are labelled with their generation where they are read (history_label), by the history of
 * the connection that they arrive on. A cursor is limited to the end of its generation where it is
 * sent to a server (history_position): all later entries of that server are of another generation,
 * so they are unread, whatever their ids are. A cursor of a generation that a history does not
 * contain is not comparable with it: its entries count as lost (a gap).
 *
 * tests/model/failover.pml is a model of these rules.
 */
#define HISTORY_MAX 64 /* generations; cursors of earlier generations are not accepted */

struct history {
    unsigned count; /* the last one is the current one; 0: unknown, ids are not labelled */
    struct history_generation {
        uint32_t number;
        struct entry_id end; /* id in the store; not used for the current generation */
    } generations[HISTORY_MAX];
};

/* Parses `history` in KEY_META: number and end of each generation, then the current number. */
MUST_CHECK enum rc history_read(struct bytes text, struct history *ret_history);

static inline uint32_t
history_current(const struct history *history)
{
    return history->count > 0 ? history->generations[history->count - 1].number : 0;
}

/* Returns the id of an entry in the store, with its generation. */
struct entry_id history_label(const struct history *history, struct entry_id id);

/*
 * Limits an id to the end of its generation, which it keeps. RC_AGAIN: the generation is later than
 * those of the history: this connection has not followed a failover yet. RC_CLOSED: the history
 * does not contain the generation.
 */
MUST_CHECK enum rc history_limit(const struct history *history, struct entry_id *id);

/*
 * The same for an id from `former`, the history that was read before: if the generation was lost,
 * the id is limited to the end of the newest earlier generation that both histories contain.
 */
MUST_CHECK enum rc history_translate(const struct history *former, const struct history *history,
                                     struct entry_id *id);

/* Returns the id in the store after which entries are unread, if history_limit accepts the id. */
struct entry_id history_position(const struct history *history, struct entry_id id);

/*
 * A user reads two streams: shard 0 and the user's own shard. With a single shard, `own` stays
 * zero.
 */
struct cursor {
    struct entry_id shared; /* cursor in shard 0 */
    struct entry_id own;    /* cursor in the user's own shard */
};

/*
 * Returns the cursor in this shard. A user reads only two shards, so any number other than 0 means
 * the user's own shard.
 */
static inline struct entry_id *
cursor_in(struct cursor *cursor, unsigned shard)
{
    return shard == 0 ? &cursor->shared : &cursor->own;
}

/* True if the stream entry is unread. */
static inline bool
cursor_is_before(const struct cursor *cursor, unsigned shard, struct entry_id id)
{
    return entry_id_less(shard == 0 ? cursor->shared : cursor->own, id);
}

/* Advances the cursor to this stream entry, never backwards. */
static inline void
cursor_advance(struct cursor *cursor, unsigned shard, struct entry_id id)
{
    struct entry_id *at = cursor_in(cursor, shard);

    if (entry_id_less(*at, id))
        *at = id;
}

/* True if every stream entry read at `from` is also read at `cursor`. */
static inline bool
cursor_reaches(struct cursor cursor, struct cursor from)
{
    return !entry_id_less(cursor.shared, from.shared) && !entry_id_less(cursor.own, from.own);
}

static inline bool
cursor_equal(struct cursor a, struct cursor b)
{
    return entry_id_equal(a.shared, b.shared) && entry_id_equal(a.own, b.own);
}

/* Returns a cursor that covers the stream entries read at both cursors. */
static inline struct cursor
cursor_min(struct cursor a, struct cursor b)
{
    return (struct cursor){entry_id_less(b.shared, a.shared) ? b.shared : a.shared,
                           entry_id_less(b.own, a.own) ? b.own : a.own};
}

/* Returns a cursor that covers the stream entries read at either cursor. */
static inline struct cursor
cursor_max(struct cursor a, struct cursor b)
{
    return (struct cursor){entry_id_less(a.shared, b.shared) ? b.shared : a.shared,
                           entry_id_less(a.own, b.own) ? b.own : a.own};
}

/* Returns the cursor of a user with this own shard. `heads` contains one id per shard. */
static inline struct cursor
cursor_from_heads(const struct entry_id *heads, unsigned own)
{
    return (struct cursor){heads[0], own > 0 ? heads[own] : (struct entry_id){0, 0}};
}

/* Reverses cursor_from_heads. The id is 0-0 for a shard that the user does not read. */
static inline void
cursor_to_heads(struct cursor cursor, unsigned own, struct entry_id *ret_heads, unsigned shards)
{
    for (unsigned i = 1; i < shards; i++)
        ret_heads[i] = (struct entry_id){0, 0};
    ret_heads[0] = cursor.shared;
    if (own > 0)
        ret_heads[own] = cursor.own;
}

/* A transaction of the database. */
struct transaction {
    uint64_t xid;
    int64_t commit_us; /* commit time; wall clock */
};

/* The newest transactions when a relay started to read the shard. */
struct transactions {
    struct transaction items[STORE_NEWEST_NOTIFIED + STORE_NEWEST_CHANGES];
    unsigned count;
};

/* Adds a transaction unless xid is 0 or the array is full. */
void transactions_add(struct transactions *transactions, uint64_t xid, int64_t commit_us);

/* Adds the transactions in the result of newest_transactions.lua. */
void transactions_add_packed(struct transactions *transactions, struct bytes packed);

/*
 * A user reads only shard 0 and the user's own shard. So a stream entry of shard 0 names the newest
 * notification of each other shard. An entry of another shard names the newest notification of
 * shard 0. Format, separated by blanks: shard, colon, LSN, dot, ordinal, all in hexadecimal.
 */
#define SHARD_DEPENDENCY_MAX (STORE_SHARDS_MAX * 37 + 1)

/*
 * Writes the dependencies of a stream entry of `shard`. `newest_sent`: the newest notification of
 * each shard; (0, 0): no notification.
 */
void shard_dependency_text(unsigned shard, const struct position *newest_sent, unsigned shards,
                           char ret_text[SHARD_DEPENDENCY_MAX]);

/* Raises `needs` of each shard to the positions in `text`, which may be invalid. */
void shard_dependency_read(struct bytes text, struct position *needs, unsigned shards);

#endif
