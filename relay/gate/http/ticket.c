/* ticket.c: tickets, which stand for a token where no header can be set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/memory.h"
#include "gate/gate_request.h"
#include "hub/hub.h"
#include "store/ticket.h"

#define TICKET_BYTES (STORE_TICKET_TEXT / 2)

struct gate_redeem {
    gate_redeemed *done;
    void *owner; /* NULL: gone */
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
tell(const struct gate_redeem *redeem, enum rc rc, struct bytes claims)
{
    char error[TOKEN_ERROR_MAX] = "the store does not answer";
    struct token token = {0};

    if (rc == RC_OK && claims.at == NULL) {
        rc = RC_BAD;
        snprintf(error, sizeof(error), "the ticket is unknown, used or too old");
    } else if (rc == RC_OK) {
        rc = token_read((const char *)claims.at, claims.len, clock_wall_us() / 1000000, &token,
                        error);
    }
    redeem->done(redeem->owner, rc, &token, error);
    token_free(&token);
}

static void
on_redeemed(void *ctx, enum rc rc, struct bytes claims)
{
    struct gate_redeem *redeem = ctx;

    if (redeem->owner != NULL)
        tell(redeem, rc, claims);
    free(redeem);
}

struct gate_redeem *
gate_ticket_redeem(struct gate *gate, const char *ticket, gate_redeemed *done, void *owner)
{
    struct gate_redeem *redeem = memory_new(sizeof(*redeem));

    *redeem = (struct gate_redeem){done, owner};
    /* What is no ticket is asked for all the same, as one that nobody has: one path for both. */
    if (store_ticket_redeem(hub_store(gate->hub), is_ticket(ticket) ? ticket : "-", on_redeemed,
                            redeem) == RC_OK)
        return redeem;
    free(redeem);
    return NULL;
}

void
gate_ticket_forget(struct gate_redeem *redeem)
{
    redeem->owner = NULL;
}
