/* token_expiry.h: when a connection's token expires, and when its client is warned of it. */
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
 * Of a token that was just accepted: its client is warned delivery.expiring before it expires, but
 * with a short-lived one after four fifths, else each new one would be asked for at once.
 */
void gate_expiry_begin(struct gate_expiry *expiry, const struct config *config, int64_t expires_s);

#define GATE_EXPIRING_MAX 64
/* Bytes of the warning, if it is due now; 0: nothing is due; -1: the token has expired. */
int gate_expiry_check(struct gate_expiry *expiry, const struct config *config, int64_t wall_us,
                      char ret_line[GATE_EXPIRING_MAX]);

#endif
