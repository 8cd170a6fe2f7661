/* encode.h: the numbers of the Redis protocol (RESP). */
#ifndef CLAIRON_STORE_CONNECTION_ENCODE_H
#define CLAIRON_STORE_CONNECTION_ENCODE_H

#include <stddef.h>

#include "wire/bytes.h"

#define ENCODE_NUMBER_MAX (BYTES_DECIMAL_MAX + 3)

/* Writes the kind, the number and the end of the line. Returns the end. */
static inline char *
encode_number(char *at, char kind, size_t number)
{
    *at++ = kind;
    at = bytes_decimal(number, at);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

#endif
