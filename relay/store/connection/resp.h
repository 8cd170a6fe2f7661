/* resp.h: the numbers of RESP, the protocol of Redis. */
#ifndef CLAIRON_STORE_CONNECTION_RESP_H
#define CLAIRON_STORE_CONNECTION_RESP_H

#include <stddef.h>

#include "wire/bytes.h"

#define RESP_NUMBER_MAX (BYTES_DECIMAL_MAX + 3)

/* Writes the kind, the number and the end of the line. Returns the end. */
static inline char *
resp_number(char *at, char kind, size_t number)
{
    *at++ = kind;
    at = bytes_decimal(number, at);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

#endif
