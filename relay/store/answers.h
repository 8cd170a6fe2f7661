/*
 * answers.h: memory for the store's answers: an answer in one block, not in a piece for each word.
 */
#ifndef CLAIRON_STORE_ANSWERS_H
#define CLAIRON_STORE_ANSWERS_H

#include <hiredis/hiredis.h>

struct answers;

struct answers *answers_new(void);

/*
 * From now on this reader's answers are kept there; one reader at a time. `expected` says how many
 * are to come, and outlives the reader: one more, unless it is an error, ends the connection.
 */
void answers_use(struct answers *answers, redisReader *reader, const unsigned *expected);

/* Waits for an answer that is still in use, or half read. Accepts NULL. */
void answers_free(struct answers *answers);

#endif
