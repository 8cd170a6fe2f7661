/*
 * refusals.c: logs the refusals that a developer meets on the first day, once in a while each:
 * clients repeat them.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gate/gate_request.h"

void
gate_refused_origin(struct gate *gate, const char *origins, const char *origin, const char *host)
{
    unsigned skipped = 0;

    if (!throttle_take(&gate->origin_refused, clock_monotonic_us(), &skipped))
        return;
    if (origins != NULL)
        log_warn("gate", "origin \"%.256s\" not allowed: gate.origins is %.1024s (%u more refused)",
                 origin, origins, skipped);
    else
        log_warn("gate",
                 "origin \"%.256s\" not allowed: only pages of the same host (\"%.256s\") are; if "
                 "it is yours, add it to gate.origins (%u more refused)",
                 origin, host, skipped);
}

/* The usual causes, by what the check says. Nothing of the token itself. */
static const char *
hint_of(const struct gate *gate, const char *error)
{
    if (strcmp(error, TOKEN_BAD_SIGNATURE) != 0)
        return "";
    if (gate->config->auth.public_key_file != NULL)
        return ": is it signed with the private key of auth.public_key_file?";
    if (gate->config->auth.hs256_secret_file != NULL)
        return ": the HS256 key is the text of auth.hs256_secret_file without its final newline, "
               "not decoded";
    return ": the HS256 key is the text of auth.hs256_secret, not decoded";
}

void
gate_refused_token(struct gate *gate, const char *where, const char *error)
{
    unsigned skipped = 0;

    if (throttle_take(&gate->token_refused, clock_monotonic_us(), &skipped))
        log_info("gate", "%s refused a token: %s%s (%u more refused)", where, error,
                 hint_of(gate, error), skipped);
}
