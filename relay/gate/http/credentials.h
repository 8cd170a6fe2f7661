/* credentials.h: who makes a request: a token, or a ticket that stands for one. */
#ifndef CLAIRON_GATE_HTTP_CREDENTIALS_H
#define CLAIRON_GATE_HTTP_CREDENTIALS_H

#include <stdbool.h>

#include "base/rc.h"
#include "store/ticket.h"
#include "wire/token.h"

struct gate;
struct gate_redeem; /* a ticket that the store is asked for */
struct lws;
struct session_group;

#define GATE_TWO_CREDENTIALS "a ticket and a token were given: give one"

/* The token of `Authorization: Bearer`; one that does not fit is a text that fails. NULL: none. */
char *gate_request_bearer(struct lws *wsi);
/* The ticket of the query; NULL: none. */
char *gate_request_ticket(struct lws *wsi);
/* Both a ticket and a token: who it is would be a guess. */
bool gate_request_has_both(struct lws *wsi);

/* As token_verify, with the gate's keys and the current time. */
MUST_CHECK enum rc gate_token_verify(const struct gate *gate, const char *text, size_t len,
                                     struct token *ret_token, char error[TOKEN_ERROR_MAX]);

bool gate_ticket_new(char ret_ticket[STORE_TICKET_TEXT + 1]);
/* RC_OK: the caller may keep the token and zero it. RC_IO: the store failed. Else no ticket. */
typedef void gate_redeemed(void *owner, enum rc rc, struct token *token, const char *error);
/* NULL when the store is away; else `done` is called once, unless it is cancelled. */
struct gate_redeem *gate_ticket_redeem(struct gate *gate, const char *ticket, gate_redeemed *done,
                                       void *owner);
void gate_ticket_cancel(struct gate_redeem *redeem);

/* A token's groups as a session wants them; views of the token. The caller frees. */
struct session_group *gate_groups_of(const struct token *token);

/*
 * Logs a refusal that developers meet on the first day, once in a while: clients repeat it.
 * `where`: a path.
 */
void gate_log_refused_token(struct gate *gate, const char *where, const char *error);

#endif
