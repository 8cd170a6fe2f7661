/* suggest.h: finds the valid word closest to a misspelled one. Pure. */
#ifndef CLAIRON_BASE_SUGGEST_H
#define CLAIRON_BASE_SUGGEST_H

#include <stddef.h>

#define SUGGEST_WORD_MAX 40 /* longer words do not match */

/* Levenshtein distance: letters to add, remove or change. SUGGEST_WORD_MAX: a word is too long. */
size_t suggest_distance(const char *left, const char *right);

/* Returns the closest word if at most half the letters of `word` differ, otherwise NULL. */
const char *suggest_word(const char *word, const char *const *words, size_t count);

#endif
