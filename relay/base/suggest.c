/* suggest.c: finds the valid word closest to a misspelled one. */
#include "base/suggest.h"

#include <string.h>

size_t
suggest_distance(const char *left, const char *right)
{
    size_t row[SUGGEST_WORD_MAX + 1], left_len = strlen(left), right_len = strlen(right);

    if (left_len > SUGGEST_WORD_MAX || right_len > SUGGEST_WORD_MAX)
        return SUGGEST_WORD_MAX;
    for (size_t i = 0; i <= right_len; i++)
        row[i] = i;
    for (size_t i = 1; i <= left_len; i++) {
        size_t corner = row[0];

        row[0] = i;
        for (size_t j = 1; j <= right_len; j++) {
            size_t best = corner + (left[i - 1] != right[j - 1]);

            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[right_len];
}

const char *
suggest_word(const char *word, const char *const *words, size_t count)
{
    size_t best = strlen(word) / 2 + 1;
    const char *nearest = NULL;

    for (size_t i = 0; i < count; i++) {
        size_t away = suggest_distance(word, words[i]);

        if (away >= best)
            continue;
        best = away;
        nearest = words[i];
    }
    return nearest;
}
