/* credentials.h: authenticates a request by its token, or by a ticket that replaces one. */
#ifndef CLAIRON_GATE_HTTP_CREDENTIALS_H
#define CLAIRON_GATE_HTTP_CREDENTIALS_H

#include <stdbool.h>

#include "base/rc.h"
#include "store/store.h"
#include "wire/token.h"

struct gate;
struct gate_redeem; /* a pending redemption in the store */
struct http_head;
struct session_group;

#define GATE_TWO_CREDENTIALS "both a ticket and a token"

/*
 * Returns the token of `Authorization: Bearer`; if it is too long, a string that is never valid;
 * NULL: none.
 */
char *gate_request_bearer(const struct http_head *head);
/* Returns the ticket in the query; NULL: none. */
char *gate_request_ticket(const struct http_head *head);
/* True if the request has both a ticket and a token, which could name different users. */
bool gate_request_has_both(const struct http_head *head);

/* Like token_verify, with the gate's keys and the current time. */
MUST_CHECK enum rc gate_token_verify(const struct gate *gate, const char *text, size_t len,
                                     struct token *ret_token, char error[TOKEN_ERROR_MAX]);

bool gate_ticket_new(char ret_ticket[STORE_TICKET_TEXT + 1]);
/*
 * RC_OK: the caller may move the token out and zero it. RC_IO: the store failed. Other codes: the
 * ticket is invalid.
 */
typedef void gate_redeemed(void *owner, enum rc rc, struct token *token, const char *error);
/* NULL: the store is down. Otherwise `done` is called once, unless cancelled. */
struct gate_redeem *gate_ticket_redeem(struct gate *gate, const char *ticket, gate_redeemed *done,
                                       void *owner);
void gate_ticket_cancel(struct gate_redeem *redeem);

/*
 * Returns the token's groups for a session. They point into the token. The caller frees the array.
 */
struct session_group *gate_groups_of(const struct token *token);

/* Logs a rejected token; rate-limited, because clients retry. `where` is a path. */
void gate_log_rejected_token(struct gate *gate, const char *where, const char *error);

#endif
