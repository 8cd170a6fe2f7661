/* utf8.c: validates UTF-8 by the table of RFC 3629, section 4. */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

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
        char_len = utf8_char_len(text + at, len - at);
        at += char_len;
    }
    if (at < len && !is_begun(text + at, len - at))
        return false;
    *ret_len = at;
    return true;
}
