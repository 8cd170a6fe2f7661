/* token_expiry.h: warns a client before its token expires, and detects the expiry. */
#ifndef CLAIRON_GATE_HTTP_TOKEN_EXPIRY_H
#define CLAIRON_GATE_HTTP_TOKEN_EXPIRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"

struct gate_expiry {
    int64_t expires_s;  /* Unix seconds */
    int64_t warn_at_us; /* Unix time */
    bool is_warned;
};

/*
 * Starts tracking the expiration of an accepted token. The client is warned delivery.expiring
 * before it. The client of a short-lived token is warned after four fifths of the lifetime, so that
 * it does not refresh continuously.
 */
void gate_expiry_begin(struct gate_expiry *expiry, const struct config *config, int64_t expires_s);

#define GATE_EXPIRING_MAX 64
/* Writes the warning if it is due. Returns its length; 0: not due; -1: the token has expired. */
int gate_expiry_check(struct gate_expiry *expiry, const struct config *config, int64_t wall_us,
                      char ret_line[GATE_EXPIRING_MAX]);

#endif
