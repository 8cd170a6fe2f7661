/* credentials.h: authenticates a request by its token, or by a ticket that replaces one. */
#ifndef CLAIRON_GATE_HTTP_CREDENTIALS_H
#define CLAIRON_GATE_HTTP_CREDENTIALS_H

#include <stdbool.h>

#include "base/rc.h"
#include "store/ticket.h"
#include "wire/token.h"

struct gate;
struct gate_redeem; /* a pending redemption in the store */
struct lws;
struct session_group;

#define GATE_TWO_CREDENTIALS "both a ticket and a token"

/*
 * The token of `Authorization: Bearer`; a text that never verifies if it is too long. NULL: none.
 */
char *gate_request_bearer(struct lws *wsi);
/* The ticket in the query; NULL: none. */
char *gate_request_ticket(struct lws *wsi);
/* Does the request have both a ticket and a token? They could name two users. */
bool gate_request_has_both(struct lws *wsi);

/* As token_verify, with the gate's keys and the current time. */
MUST_CHECK enum rc gate_token_verify(const struct gate *gate, const char *text, size_t len,
                                     struct token *ret_token, char error[TOKEN_ERROR_MAX]);

bool gate_ticket_new(char ret_ticket[STORE_TICKET_TEXT + 1]);
/*
 * RC_OK: the caller may move the token out and zero it. RC_IO: the store failed. Otherwise the
 * ticket is invalid.
 */
typedef void gate_redeemed(void *owner, enum rc rc, struct token *token, const char *error);
/* NULL if the store is down. Otherwise `done` is called once, unless cancelled. */
struct gate_redeem *gate_ticket_redeem(struct gate *gate, const char *ticket, gate_redeemed *done,
                                       void *owner);
void gate_ticket_cancel(struct gate_redeem *redeem);

/* The token's groups for a session, as views of the token. The caller frees the array. */
struct session_group *gate_groups_of(const struct token *token);

/* Logs a rejected token, rate-limited because clients retry. `where` is a path. */
void gate_log_rejected_token(struct gate *gate, const char *where, const char *error);

#endif
