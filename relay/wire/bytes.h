/* bytes.h: views of byte strings, big-endian integers, digits. */
#ifndef CLAIRON_WIRE_BYTES_H
#define CLAIRON_WIRE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A view of bytes that are owned elsewhere. */
struct bytes {
    const unsigned char *at;
    size_t len;
};

static inline struct bytes
bytes_of_text(const char *text)
{
    return (struct bytes){(const unsigned char *)text, strlen(text)};
}

static inline bool
bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* `text` is zero-terminated. */
static inline bool
bytes_equal_text(struct bytes bytes, const char *text)
{
    return bytes_equal(bytes, bytes_of_text(text));
}

static inline uint16_t
bytes_get_u16(const unsigned char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return be16toh(value);
}

static inline uint32_t
bytes_get_u32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return be32toh(value);
}

static inline uint64_t
bytes_get_u64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return be64toh(value);
}

static inline void
bytes_put_u16(unsigned char *at, uint16_t value)
{
    value = htobe16(value);
    memcpy(at, &value, sizeof(value));
}

static inline void
bytes_put_u32(unsigned char *at, uint32_t value)
{
    value = htobe32(value);
    memcpy(at, &value, sizeof(value));
}

static inline void
bytes_put_u64(unsigned char *at, uint64_t value)
{
    value = htobe64(value);
    memcpy(at, &value, sizeof(value));
}

#define BYTES_DECIMAL_MAX 20 /* maximum number of digits of a 64-bit integer */

/*
 * Writes decimal digits and returns their end, without a terminating zero. printf is ten times
 * slower.
 */
static inline char *
bytes_decimal(uint64_t number, char *at)
{
    size_t len = 1;
    char *end;

    for (uint64_t limit = 10; number >= limit && len < BYTES_DECIMAL_MAX; limit *= 10)
        len++; /* the limit after 10^19 does not fit, but no number has more digits */
    end = at + len;
    for (; len > 0; number /= 10)
        at[--len] = (char)('0' + number % 10);
    return end;
}

/* Writes two lower case digits per byte and a terminating zero. */
static inline void
bytes_hex(const unsigned char *at, size_t len, char *ret_text)
{
    for (size_t i = 0; i < len; i++) {
        ret_text[2 * i] = "0123456789abcdef"[at[i] >> 4];
        ret_text[2 * i + 1] = "0123456789abcdef"[at[i] & 15];
    }
    ret_text[2 * len] = '\0';
}

#endif
