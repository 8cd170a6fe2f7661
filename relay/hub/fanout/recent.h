/* recent.h: the newest notifications, for sessions that are a little behind. */
#ifndef CLAIRON_HUB_FANOUT_RECENT_H
#define CLAIRON_HUB_FANOUT_RECENT_H

#include "hub/fanout/note.h"
#include "store/store.h"

#define RECENT_NOTES_MAX 4096
#define RECENT_BYTES_MAX (16u << 20)

/* A ring of notes as they were read; it holds every entry of a shard with base < id <= head. */
struct recent {
    struct note *notes[RECENT_NOTES_MAX];
    struct entry_id *reached; /* beside each note: how far each shard was read with it */
    unsigned shards;
    unsigned first;
    unsigned count;
    size_t bytes;
    struct entry_id base[STORE_SHARDS_MAX];
    struct entry_id head[STORE_SHARDS_MAX];
};

void recent_open(struct recent *recent, unsigned shards);
void recent_close(struct recent *recent);

/* Empties it; what comes next follows `head`. */
void recent_reset(struct recent *recent, const struct entry_id *head);
void recent_add(struct recent *recent, struct note *note); /* takes a reference of its own */

/* Where it begins and ends for who reads the shared stream and `own`. */
struct cursor recent_base(const struct recent *recent, unsigned own);
struct cursor recent_head(const struct recent *recent, unsigned own);

/* True when all that follows `after` and was read is here. */
bool recent_goes_on(const struct recent *recent, unsigned own, struct cursor after);
/* .. and something was read up to `after` at least. */
bool recent_covers(const struct recent *recent, unsigned own, struct cursor after);

/* The first note after `after`, NULL when there is none. Only where recent_goes_on. */
struct note *recent_next(const struct recent *recent, unsigned own, struct cursor after);

#endif
