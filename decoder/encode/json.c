/* json.c: escape strings, strip and indent JSON, encode base64. */
#include "json.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define REPLACEMENT 0xFFFDu

static const char hex_digits[] = "0123456789abcdef";

/* True for a byte that needs no escape in a JSON string. */
static inline bool
is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/*
 * Copies leading bytes that need no escape and returns their number. Copies 16 bytes at a time, so
 * `dst` must have room for `len` bytes even if fewer are copied.
 */
static inline size_t
copy_plain(char *dst, const char *src, size_t len)
{
    size_t at = 0;

#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i space = _mm_set1_epi8(0x20);

    for (; at + 16 <= len; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(src + at));
        /*
         * The comparison is signed: bytes from 0x80 are negative and are found together with
         * control characters.
         */
        __m128i special = _mm_or_si128(
            _mm_cmplt_epi8(bytes, space),
            _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)));
        unsigned mask = (unsigned)_mm_movemask_epi8(special);

        _mm_storeu_si128((__m128i *)(void *)(dst + at), bytes);
        if (mask != 0)
            return at + (size_t)__builtin_ctz(mask);
    }
#endif
    while (at < len && is_plain((unsigned char)src[at])) {
        dst[at] = src[at];
        at++;
    }
    return at;
}

/*
 * Returns the length and the code point of the UTF-8 sequence at `src`. Returns 0 for a sequence
 * that is too short, overlong, a surrogate, or beyond U+10FFFF.
 */
static size_t
utf8_read(const unsigned char *src, size_t len, uint32_t *ret_code)
{
    uint32_t code;
    uint32_t min;
    size_t need;

    if (src[0] >= 0xC2 && src[0] <= 0xDF) {
        need = 2, min = 0x80, code = src[0] & 0x1Fu;
    } else if ((src[0] & 0xF0) == 0xE0) {
        need = 3, min = 0x800, code = src[0] & 0x0Fu;
    } else if (src[0] >= 0xF0 && src[0] <= 0xF4) {
        need = 4, min = 0x10000, code = src[0] & 0x07u;
    } else {
        return 0;
    }
    if (len < need)
        return 0;
    for (size_t i = 1; i < need; i++) {
        if ((src[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (src[i] & 0x3Fu);
    }
    if (code < min || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return 0;
    *ret_code = code;
    return need;
}

static char *
write_u(char *dst, uint32_t unit)
{
    *dst++ = '\\';
    *dst++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        *dst++ = hex_digits[unit >> shift & 0xF];
    return dst;
}

static char *
write_control(char *dst, unsigned char c)
{
    static const char letters[] = "btn\0fr"; /* 8 to 13 except 11 */

    if (c == '"' || c == '\\') {
        *dst++ = '\\';
        *dst++ = (char)c;
        return dst;
    }
    if (c >= 8 && c <= 13 && letters[c - 8] != 0) {
        *dst++ = '\\';
        *dst++ = letters[c - 8];
        return dst;
    }
    return write_u(dst, c);
}

static char *
write_code(char *dst, uint32_t code)
{
    if (code < 0x10000)
        return write_u(dst, code);
    code -= 0x10000;
    dst = write_u(dst, 0xD800 + (code >> 10));
    return write_u(dst, 0xDC00 + (code & 0x3FF));
}

/* Writes one non-ASCII sequence; *ret_used is its length in the input. */
static char *
write_wide(char *dst, const char *src, size_t len, bool ascii, size_t *ret_used)
{
    uint32_t code = REPLACEMENT;
    size_t used = utf8_read((const unsigned char *)src, len, &code);

    *ret_used = used == 0 ? 1 : used;
    if (ascii)
        return write_code(dst, code);
    if (used == 0) {
        memcpy(dst, "\xEF\xBF\xBD", 3);
        return dst + 3;
    }
    memcpy(dst, src, used);
    return dst + used;
}

char *
json_escape(char *dst, const char *src, size_t len, bool ascii)
{
    size_t at = 0;

    while (at < len) {
        size_t run = copy_plain(dst, src + at, len - at);
        size_t used = 1;

        dst += run;
        at += run;
        if (at == len)
            break;
        if ((unsigned char)src[at] < 0x80)
            dst = write_control(dst, (unsigned char)src[at]);
        else
            dst = write_wide(dst, src + at, len - at, ascii, &used);
        at += used;
    }
    return dst;
}

char *
json_clean(char *dst, const char *src, size_t len)
{
    size_t at = 0;

    while (at < len) {
        size_t used = 1;

        if ((unsigned char)src[at] < 0x80)
            *dst++ = src[at];
        else
            dst = write_wide(dst, src + at, len - at, false, &used);
        at += used;
    }
    return dst;
}

char *
json_compact(char *dst, const char *src, size_t len, bool ascii)
{
    bool in_string = false;
    size_t at = 0;

    while (at < len) {
        unsigned char c = (unsigned char)src[at];

        if (c >= 0x80) {
            size_t used;

            dst = write_wide(dst, src + at, len - at, ascii, &used);
            at += used;
            continue;
        }
        at++;
        if (!in_string && (c == ' ' || c == '\t' || c == '\n' || c == '\r'))
            continue;
        *dst++ = (char)c;
        if (c == '"')
            in_string = !in_string;
        else if (in_string && c == '\\' && at < len)
            *dst++ = src[at++];
    }
    return dst;
}

/* Indents the JSON; with dst NULL, only counts the bytes. */
static size_t
pretty_walk(char *dst, const char *src, size_t len)
{
    size_t written = 0;
    size_t depth = 0;
    bool in_string = false;

#define PUT(c)                                                                                     \
    do {                                                                                           \
        if (dst != NULL)                                                                           \
            dst[written] = (c);                                                                    \
        written++;                                                                                 \
    } while (0)
#define NEW_LINE()                                                                                 \
    do {                                                                                           \
        PUT('\n');                                                                                 \
        if (dst != NULL)                                                                           \
            memset(dst + written, ' ', 2 * depth);                                                 \
        written += 2 * depth;                                                                      \
    } while (0)

    for (size_t at = 0; at < len; at++) {
        char c = src[at];
        bool closes_empty = at + 1 < len && (src[at + 1] == '}' || src[at + 1] == ']');

        if (in_string) {
            PUT(c);
            if (c == '\\' && at + 1 < len) {
                at++;
                PUT(src[at]);
            } else if (c == '"') {
                in_string = false;
            }
            continue;
        }
        if (c == '}' || c == ']') {
            bool was_empty = at > 0 && (src[at - 1] == '{' || src[at - 1] == '[');

            if (!was_empty) {
                depth -= depth > 0;
                NEW_LINE();
            }
        }
        PUT(c);
        in_string = c == '"';
        if ((c == '{' || c == '[') && !closes_empty) {
            depth++;
            NEW_LINE();
        } else if (c == ',') {
            NEW_LINE();
        } else if (c == ':') {
            PUT(' ');
        }
    }
#undef NEW_LINE
#undef PUT
    return written;
}

size_t
json_pretty_len(const char *src, size_t len)
{
    return pretty_walk(NULL, src, len);
}

char *
json_pretty(char *dst, const char *src, size_t len)
{
    return dst + pretty_walk(dst, src, len);
}

char *
json_base64(char *dst, const unsigned char *src, size_t len)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t at = 0;

    for (; at + 3 <= len; at += 3) {
        uint32_t three = (uint32_t)src[at] << 16 | (uint32_t)src[at + 1] << 8 | src[at + 2];

        for (int shift = 18; shift >= 0; shift -= 6)
            *dst++ = letters[three >> shift & 63];
    }
    if (at < len) {
        uint32_t rest = (uint32_t)src[at] << 16;
        bool two = at + 1 < len;

        if (two)
            rest |= (uint32_t)src[at + 1] << 8;
        *dst++ = letters[rest >> 18 & 63];
        *dst++ = letters[rest >> 12 & 63];
        *dst++ = two ? letters[rest >> 6 & 63] : '=';
        *dst++ = '=';
    }
    return dst;
}

size_t
json_cut(const char *src, size_t len, size_t cut)
{
    if (cut >= len)
        return len;
    /* A UTF-8 sequence has at most three continuation bytes; other input may be cut anywhere. */
    for (int back = 0; back < 3 && cut > 0; back++) {
        if (((unsigned char)src[cut] & 0xC0) != 0x80)
            break;
        cut--;
    }
    return cut == 0 ? 1 : cut;
}
