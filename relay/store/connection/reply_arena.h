/* reply_arena.h: allocates each reply of the store in one block instead of word by word. */
#ifndef CLAIRON_STORE_REPLY_ARENA_H
#define CLAIRON_STORE_REPLY_ARENA_H

#include <hiredis/hiredis.h>

struct reply_arena;

struct reply_arena *reply_arena_new(void);

/*
 * From now on this reader's answers are kept there; one reader at a time. `expected` says how many
 * are to come, and outlives the reader: one more, unless it is an error, ends the connection.
 */
void reply_arena_use(struct reply_arena *arena, redisReader *reader, const unsigned *expected);

/* Waits for an answer that is still in use, or half read. Accepts NULL. */
void reply_arena_free(struct reply_arena *arena);

#endif
