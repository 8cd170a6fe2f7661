/* ticket.h: tickets, which replace a token once within 30 s, on every relay of the store. */
#ifndef CLAIRON_STORE_TICKET_H
#define CLAIRON_STORE_TICKET_H

#include "store/store.h"

#define STORE_TICKET_SECONDS 30
#define STORE_TICKET_TEXT 32 /* hexadecimal digits */

/* RC_OK and RC_AGAIN as in store.h. The strings are copied. */

/* Stores the claims of a ticket. */
typedef void store_ticket_saved(void *ctx, enum rc rc);
MUST_CHECK enum rc store_ticket_save(struct store *store, const char *ticket, const char *claims,
                                     store_ticket_saved *done, void *ctx);

/*
 * Redeems a ticket. Only the first attempt succeeds. claims.at is NULL if the ticket does not
 * exist.
 */
typedef void store_redeemed(void *ctx, enum rc rc, struct bytes claims);
MUST_CHECK enum rc store_ticket_redeem(struct store *store, const char *ticket,
                                       store_redeemed *done, void *ctx);

#endif
