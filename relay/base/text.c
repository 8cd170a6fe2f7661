/* text.c: validates UTF-8 by the table of RFC 3629, section 4; finds words; random digits. */
#include "base/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

size_t
utf8_char_len(const char *text, size_t len)
{
    const uint8_t *byte = (const uint8_t *)text;
    uint8_t low = 0x80, high = 0xbf; /* valid range of the second byte */
    size_t need;

    if (len == 0)
        return 0;
    if (byte[0] < 0x80)
        return 1;
    if (byte[0] >= 0xc2 && byte[0] <= 0xdf)
        need = 2;
    else if (byte[0] >= 0xe0 && byte[0] <= 0xef)
        need = 3;
    else if (byte[0] >= 0xf0 && byte[0] <= 0xf4)
        need = 4;
    else
        return 0;
    if (byte[0] == 0xe0)
        low = 0xa0;
    else if (byte[0] == 0xed)
        high = 0x9f;
    else if (byte[0] == 0xf0)
        low = 0x90;
    else if (byte[0] == 0xf4)
        high = 0x8f;
    if (len < need || byte[1] < low || byte[1] > high)
        return 0;
    for (size_t i = 2; i < need; i++)
        if (byte[i] < 0x80 || byte[i] > 0xbf)
            return 0;
    return need;
}

/* Tries the lowest and the highest continuation byte. */
static bool
is_begun(const char *text, size_t len)
{
    const int rests[] = {0x80, 0xbf};
    char whole[4];

    for (size_t i = 0; len < sizeof(whole) && i < 2; i++) {
        memset(whole, rests[i], sizeof(whole));
        memcpy(whole, text, len);
        if (utf8_char_len(whole, sizeof(whole)) > len)
            return true;
    }
    return false;
}

bool
utf8_is_prefix(const char *text, size_t len, size_t *ret_len)
{
    size_t at = 0;
    size_t char_len = 1;

    while (at < len && char_len > 0) {
        uint64_t bytes;

        /* Most text is ASCII, which is read in steps of eight bytes. */
        while (len - at >= sizeof(bytes)) {
            memcpy(&bytes, text + at, sizeof(bytes));
            if ((bytes & UINT64_C(0x8080808080808080)) != 0)
                break;
            at += sizeof(bytes);
        }
        if (at == len)
            break;
        char_len = utf8_char_len(text + at, len - at);
        at += char_len;
    }
    if (at < len && !is_begun(text + at, len - at))
        return false;
    *ret_len = at;
    return true;
}

/* ---- similar words */

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

void
random_hex(char *ret_text, size_t len)
{
    unsigned char bytes[RANDOM_HEX_MAX / 2];

    if (len / 2 > sizeof(bytes) || getrandom(bytes, len / 2, 0) != (ssize_t)(len / 2))
        abort();
    for (size_t i = 0; i < len; i++)
        ret_text[i] = "0123456789abcdef"[i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15];
    ret_text[len] = '\0';
}
