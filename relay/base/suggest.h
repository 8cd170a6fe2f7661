/* suggest.h: which of the valid words a misspelt one is near to. Pure. */
#ifndef CLAIRON_BASE_SUGGEST_H
#define CLAIRON_BASE_SUGGEST_H

#include <stddef.h>

#define SUGGEST_WORD_MAX 40 /* longer words are near to none */

/* Levenshtein distance: letters to add, remove or change. SUGGEST_WORD_MAX: a word is longer. */
size_t suggest_distance(const char *left, const char *right);

/* The nearest word if at most every second letter of `word` differs, else NULL. */
const char *suggest_word(const char *word, const char *const *words, size_t count);

#endif
