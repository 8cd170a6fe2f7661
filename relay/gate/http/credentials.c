/*
 * credentials.c: authenticates a request by its token, or by a ticket if the client cannot set a
 * header.
 */
#include "gate/http/credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/net/gate_shared.h"
#include "hub/hub.h"
#include "store/store.h"
#include "wire/http_head.h"

#define AUTHORIZATION_MAX (TOKEN_BYTES_MAX + 64)
#define TICKET_ARGUMENT_MAX 64
#define TICKET_BYTES (STORE_TICKET_TEXT / 2)

struct gate_redeem {
    gate_redeemed *done;
    void *owner; /* NULL: cancelled */
};

bool
gate_ticket_new(char ret_ticket[STORE_TICKET_TEXT + 1])
{
    unsigned char bytes[TICKET_BYTES];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return false;
    bytes_hex(bytes, sizeof(bytes), ret_ticket);
    return true;
}

static bool
is_ticket(const char *text)
{
    return strlen(text) == STORE_TICKET_TEXT &&
           strspn(text, "0123456789abcdef") == STORE_TICKET_TEXT;
}

static void
report(const struct gate_redeem *redeem, enum rc rc, struct bytes claims)
{
    char error[TOKEN_ERROR_MAX] = "store does not reply";
    struct token token = {0};

    if (rc == RC_OK && claims.at == NULL) {
        rc = RC_BAD;
        snprintf(error, sizeof(error), "ticket unknown, used or expired");
    } else if (rc == RC_OK) {
        rc = token_parse((const char *)claims.at, claims.len, clock_wall_us() / 1000000, &token,
                         error);
    }
    redeem->done(redeem->owner, rc, &token, error);
    token_free(&token);
}

static void
on_claims_read(void *ctx, enum rc rc, struct bytes claims)
{
    struct gate_redeem *redeem = ctx;

    if (redeem->owner != NULL)
        report(redeem, rc, claims);
    free(redeem);
}

struct gate_redeem *
gate_ticket_redeem(struct gate *gate, const char *ticket, gate_redeemed *done, void *owner)
{
    struct gate_redeem *redeem = memory_new(sizeof(*redeem));

    *redeem = (struct gate_redeem){done, owner};
    /*
     * A malformed ticket is looked up under a name that no ticket has, so that it is rejected like
     * an unknown ticket.
     */
    if (store_ticket_redeem(hub_store(gate->hub), is_ticket(ticket) ? ticket : "-", on_claims_read,
                            redeem) == RC_OK)
        return redeem;
    free(redeem);
    return NULL;
}

void
gate_ticket_cancel(struct gate_redeem *redeem)
{
    redeem->owner = NULL;
}

enum rc
gate_token_verify(const struct gate *gate, const char *text, size_t len, struct token *ret_token,
                  char error[TOKEN_ERROR_MAX])
{
    return token_verify(&gate->rules, text, len, clock_wall_us() / 1000000, ret_token, error);
}

char *
gate_request_bearer(const struct http_head *head)
{
    static const char SCHEME[] = "Bearer ";
    char *header = http_head_text(head, "authorization", AUTHORIZATION_MAX);
    char *token = NULL;

    if (header != NULL && strcmp(header, HTTP_TOO_LONG) == 0)
        return header;
    if (header != NULL && strncasecmp(header, SCHEME, sizeof(SCHEME) - 1) == 0) {
        const char *text = header + sizeof(SCHEME) - 1;

        text += strspn(text, " ");
        token = memory_text(text, strcspn(text, " "));
    }
    free(header);
    return token;
}

char *
gate_request_ticket(const struct http_head *head)
{
    return http_head_argument(head, "ticket=", TICKET_ARGUMENT_MAX);
}

bool
gate_request_has_both(const struct http_head *head)
{
    char *bearer = gate_request_bearer(head);
    char *ticket = gate_request_ticket(head);
    bool has_both = bearer != NULL && ticket != NULL;

    free(bearer);
    free(ticket);
    return has_both;
}

struct session_group *
gate_groups_of(const struct token *token)
{
    struct session_group *groups = memory_new((token->group_count + 1) * sizeof(*groups));

    for (size_t i = 0; i < token->group_count; i++)
        groups[i] = (struct session_group){.audience = token->groups[i].audience,
                                           .target = token->groups[i].target};
    return groups;
}

/* Returns a hint on the usual cause of this error. It contains no part of the token. */
static const char *
hint_of(const struct gate *gate, const char *error)
{
    if (strcmp(error, TOKEN_BAD_SIGNATURE) != 0)
        return NULL;
    if (gate->config->auth.public_key_file != NULL)
        return "sign tokens with the private key of auth.public_key_file";
    if (gate->config->auth.hs256_secret_file != NULL)
        return "the HS256 key is the content of auth.hs256_secret_file without its final newline, "
               "not decoded";
    return "the HS256 key is the value of auth.hs256_secret, not decoded";
}

void
gate_log_rejected_token(struct gate *gate, const char *where, const char *error)
{
    unsigned skipped = 0;

    if (throttle_allows(&gate->token_rejected, clock_monotonic_us(), &skipped))
        log_info("gate", "token rejected", LOG_TEXT("path", where), LOG_TEXT("error", error),
                 LOG_UINT("suppressed", skipped), LOG_TEXT("hint", hint_of(gate, error)));
}
