/* base64url.c: base64url without padding. */
#include "wire/base64url.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/memory.h"

/* Returns -1 for a character that base64url does not use. */
static int
digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool
base64url_is_digit(char c)
{
    return digit_of(c) >= 0;
}

/* Rejects bits after the last byte: otherwise two texts would have the same bytes. */
char *
base64url_decode(const char *text, size_t len, size_t *ret_len)
{
    char *bytes = memory_new(len / 4 * 3 + 4);
    uint32_t bits = 0;
    unsigned bit_count = 0;
    size_t count = 0;
    bool is_valid = true;

    for (size_t i = 0; i < len && is_valid; i++) {
        is_valid = base64url_is_digit(text[i]);
        bits = (bits << 6 | (uint32_t)digit_of(text[i])) & 0xffff;
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            bytes[count++] = (char)(unsigned char)(bits >> bit_count);
        }
    }
    if (!is_valid || bit_count == 6 || (bits & ((1u << bit_count) - 1)) != 0) {
        free(bytes);
        return NULL;
    }
    *ret_len = count;
    return bytes;
}

void
base64url_encode(const void *bytes, size_t len, char *ret_text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const unsigned char *at = bytes;
    uint32_t bits = 0;
    unsigned bit_count = 0;

    for (size_t i = 0; i < len; i++) {
        bits = (bits << 8 | at[i]) & 0xffff;
        for (bit_count += 8; bit_count >= 6; bit_count -= 6)
            *ret_text++ = digits[bits >> (bit_count - 6) & 63];
    }
    if (bit_count > 0)
        *ret_text++ = digits[bits << (6 - bit_count) & 63];
    *ret_text = '\0';
}

enum rc
base64url_add(struct buffer *out, const void *bytes, size_t len)
{
    char *text = memory_new(BASE64URL_LEN(len) + 1);
    enum rc rc;

    base64url_encode(bytes, len, text);
    rc = buffer_add(out, text, BASE64URL_LEN(len));
    free(text);
    return rc;
}
