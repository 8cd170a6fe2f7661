/* ticket.h: tickets that stand for a token for half a minute, on every relay of the store. */
#ifndef CLAIRON_STORE_TICKET_H
#define CLAIRON_STORE_TICKET_H

#include "store/store.h"

#define STORE_TICKET_SECONDS 30
#define STORE_TICKET_TEXT 32 /* hexadecimal digits */

/* Both as the calls of store.h: RC_AGAIN when the store is away. The texts are copied. */

/* Keeps what a ticket stands for. RC_OK to `done`: it is kept. */
typedef void store_kept(void *ctx, enum rc rc);
MUST_CHECK enum rc store_ticket_keep(struct store *store, const char *ticket, const char *claims,
                                     store_kept *done, void *ctx);

/* Takes it: nobody can again. `claims` has no bytes (at: NULL) when there is no such ticket. */
typedef void store_redeemed(void *ctx, enum rc rc, struct bytes claims);
MUST_CHECK enum rc store_ticket_redeem(struct store *store, const char *ticket,
                                       store_redeemed *done, void *ctx);

#endif
