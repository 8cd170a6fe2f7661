/* reply_arena.h: allocates each reply of the store in one block instead of per element. */
#ifndef CLAIRON_STORE_REPLY_ARENA_H
#define CLAIRON_STORE_REPLY_ARENA_H

#include <hiredis/hiredis.h>

struct reply_arena;

struct reply_arena *reply_arena_new(void);

/*
 * Allocates the replies of this reader in the arena, which serves one reader at a time. `expected`
 * is the number of outstanding replies, and must outlive the reader. An unexpected reply other than
 * an error closes the connection.
 */
void reply_arena_use(struct reply_arena *arena, redisReader *reader, const unsigned *expected);

/* If a reply is in use or incomplete, the memory is freed with the reply. Accepts NULL. */
void reply_arena_free(struct reply_arena *arena);

#endif
