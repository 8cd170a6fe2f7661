/* bytes.h: views of byte strings, and big-endian integers in them. */
#ifndef CLAIRON_WIRE_BYTES_H
#define CLAIRON_WIRE_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* A run of bytes that somebody else owns. */
struct bytes {
    const unsigned char *at;
    size_t len;
};

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

#endif
