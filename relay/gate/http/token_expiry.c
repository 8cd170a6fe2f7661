/* token_expiry.c: warns a client before its token expires, and detects the expiry. */
#include "gate/http/token_expiry.h"

#include <stdio.h>

#include "base/clock.h"

#define EXPIRING_MIN_US (2 * 1000000)

void
gate_expiry_begin(struct gate_expiry *expiry, const struct config *config, int64_t expires_s)
{
    int64_t end_us = expires_s * 1000000;
    int64_t fifth_us = (end_us - clock_wall_us()) / 5;
    int64_t notice_us = fifth_us > EXPIRING_MIN_US ? fifth_us : EXPIRING_MIN_US;
    int64_t max_us = config->delivery.expiring_ms * 1000;

    *expiry = (struct gate_expiry){
        .expires_s = expires_s, .warn_at_us = end_us - (notice_us < max_us ? notice_us : max_us)};
}

int
gate_expiry_check(struct gate_expiry *expiry, const struct config *config, int64_t wall_us,
                  char ret_line[GATE_EXPIRING_MAX])
{
    int64_t left_us = expiry->expires_s * 1000000 - wall_us;

    if (left_us + config->auth.leeway_ms * 1000 <= 0)
        return -1;
    if (expiry->is_warned || wall_us < expiry->warn_at_us)
        return 0;
    expiry->is_warned = true;
    return snprintf(ret_line, GATE_EXPIRING_MAX, "{\"t\":\"expiring\",\"in\":%lld}",
                    left_us > 0 ? (long long)(left_us / 1000000) : 0);
}
