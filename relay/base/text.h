/* text.h: joined texts, UTF-8, the closest word, hexadecimal digits, and the hash of bytes. */
#ifndef CLAIRON_BASE_TEXT_H
#define CLAIRON_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD, for invalid bytes */

/*
 * Returns the length of the character at `text`, or 0 if the `len` bytes do not start with a valid
 * character (RFC 3629: no overlong form, no surrogate, at most U+10FFFF).
 */
size_t utf8_char_len(const char *text, size_t len);

/*
 * False if no further bytes can make `text` valid. *ret_len: bytes of complete characters; less
 * than `len` if the text ends within a character.
 */
bool utf8_is_prefix(const char *text, size_t len, size_t *ret_len);

/* Like snprintf(to, size, "%s%s%s", ..), which takes ten times as long. */
static inline void
text_join(char *to, size_t size, const char *a, const char *b, const char *c)
{
    const char *const texts[] = {a, b, c};
    size_t room = size - 1;

    for (int i = 0; i < 3; i++) {
        size_t len = strlen(texts[i]);

        len = len < room ? len : room;
        memcpy(to, texts[i], len);
        to += len;
        room -= len;
    }
    *to = '\0';
}

#define SUGGEST_WORD_MAX 40 /* longer words do not match */

/* Levenshtein distance: letters to add, remove or change. SUGGEST_WORD_MAX: a word is too long. */
size_t suggest_distance(const char *left, const char *right);

/* Returns the closest word if at most half the letters of `word` differ, otherwise NULL. */
const char *suggest_word(const char *word, const char *const *words, size_t count);

/* Returns the value of a hexadecimal digit; -1: it is none. Has no branches: ids are random. */
static inline int
hex_value(char digit)
{
    const unsigned byte = (unsigned char)digit, number = byte - '0', letter = (byte | 0x20) - 'a';

    return number < 10 ? (int)number : letter < 6 ? (int)letter + 10 : -1;
}

#define RANDOM_HEX_MAX 32

/* Writes `len` random hexadecimal digits, an even number, and a zero byte. */
void random_hex(char *ret_text, size_t len);

/* FNV-1a with 64 bits. The values must never change: they decide the shard of each user. */
#define HASH_START UINT64_C(0xcbf29ce484222325)

/* Continues `hash`, which is HASH_START at first. */
static inline uint64_t
hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
