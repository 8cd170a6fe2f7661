/* auth.h: credentials, the expiration of a token, cut-offs, and the keys that verify tokens. */
#ifndef CLAIRON_GATE_HTTP_AUTH_H
#define CLAIRON_GATE_HTTP_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/rc.h"
#include "store/store.h"
#include "wire/token.h"

struct cutoff;
struct cutoff_marks;
struct ev_loop;
struct gate;
struct gate_keys;
struct gate_request;
struct http_head;
struct session_group;
struct store;

#define GATE_NO_TOKEN "missing Authorization: Bearer"
#define GATE_TWO_CREDENTIALS "both a ticket and a token"

/* Returns the token of `Authorization: Bearer`; empty: it is too long; NULL: none. */
char *gate_request_bearer(const struct http_head *head);
/* Returns the ticket in the query; empty: it is too long; NULL: none. */
char *gate_request_ticket(const struct http_head *head);
/* True if the request has both a ticket and a token, which could name different users. */
bool gate_request_has_both(const struct http_head *head);

/*
 * Like token_verify, with the gate's keys and the current time. Counts rejected tokens. RC_AGAIN:
 * gate_token_wait may fetch its key, or wait for the cut-offs. RC_LIMIT: the token is cut off. A
 * server sends the same token with each request, so the tokens that were verified last are kept,
 * without their text.
 */
MUST_CHECK enum rc gate_token_verify(struct gate *gate, const char *text, size_t len,
                                     struct token *ret_token, char error[TOKEN_ERROR_MAX]);

/* Whether the token is cut off: then it is counted as rejected. */
bool gate_token_is_cut_off(struct gate *gate, const struct token *token);

/* Like token_verify_logout. RC_AGAIN: gate_logout_wait may fetch its key. */
MUST_CHECK enum rc gate_logout_verify(struct gate *gate, const char *text, size_t len,
                                      struct token *ret_token, char error[TOKEN_ERROR_MAX]);

void gate_token_open(struct gate *gate);
void gate_token_close(struct gate *gate);
/* Uses the files of keys that were read again, and fetches the keys of URLs. */
void gate_token_reload_keys(struct gate *gate);

/*
 * RC_OK: the caller may move the token out and zero it. RC_IO: the store failed. RC_AGAIN: the keys
 * of the issuer are not available. RC_LIMIT: it is cut off. Other codes: it is invalid.
 */
typedef void gate_redeemed(void *owner, enum rc rc, struct token *token, const char *error);

/* A ticket that the store redeems, or a token that waits for keys. */
struct gate_redeem {
    gate_redeemed *done;
    void *owner; /* NULL: cancelled */
};
/* `done` is not called any more. */
static inline void
gate_redeem_cancel(struct gate_redeem *redeem)
{
    redeem->owner = NULL;
}

#define GATE_KEYS_RETRY_S 5 /* until a client presents a token again whose key was not available */

/*
 * Verifies a token again when the keys of its issuer have been fetched, or the cut-offs were read,
 * after gate_token_verify returned RC_AGAIN. NULL: no fetch is due. Otherwise `done` is called
 * once, unless cancelled.
 */
struct gate_redeem *gate_token_wait(struct gate *gate, const char *text, size_t len,
                                    gate_redeemed *done, void *owner);
/* The cut-offs were read. */
void gate_token_retry(struct gate *gate);
/* Like gate_token_wait, for a logout token, and gate_logout_verify. */
struct gate_redeem *gate_logout_wait(struct gate *gate, const char *text, size_t len,
                                     gate_redeemed *done, void *owner);

/*
 * Returns the token's groups for a session. They point into the token. The caller frees the array.
 */
struct session_group *gate_groups_of(const struct token *token);

/* Logs a rejected token; rate-limited, because clients retry. `where` is a path. */
void gate_log_rejected_token(struct gate *gate, const char *where, const char *error);

struct gate_expiry {
    int64_t expires_s;  /* Unix seconds */
    int64_t warn_at_us; /* Unix time; INT64_MAX: the client was warned */
};

/*
 * Starts tracking the expiration of an accepted token. The client is warned delivery.expiring
 * before it. The client of a short-lived token is warned after four fifths of the lifetime, so that
 * it does not refresh continuously.
 */
void gate_expiry_begin(struct gate_expiry *expiry, const struct config *config, int64_t expires_s);

#define GATE_EXPIRING_MAX 64
/* Writes the warning if it is due. Returns its length; 0: not due; -1: the token has expired. */
int gate_expiry_check(struct gate_expiry *expiry, const struct config *config, int64_t wall_us,
                      char ret_line[GATE_EXPIRING_MAX]);

/* Handles POST /v1/ticket. */
void gate_api_ticket(struct gate_request *request);
/*
 * NULL: the store is down, or the cut-offs are not known. Otherwise `done` is called once, unless
 * cancelled.
 */
struct gate_redeem *gate_ticket_redeem(struct gate *gate, const char *ticket, gate_redeemed *done,
                                       void *owner);

/* ---- cutoffs.c: the cut-offs of the store, in memory (wire/cutoff.h) */

#define GATE_CUT_OFF "access revoked: sign in again"

/*
 * End the connections of these tokens. `cutoff` NULL: of any cut-off (gate_cutoffs_reject), and
 * verify the tokens that wait for the first one (gate_token_retry).
 */
typedef void gate_cutoffs_added(struct gate *gate, const struct cutoff *cutoff);

/* Without the role gate, nothing is read, and no token is rejected. */
void gate_cutoffs_open(struct gate *gate, gate_cutoffs_added *added);
void gate_cutoffs_close(struct gate *gate);

/* A cut-off was stored: it counts from now on. */
void gate_cutoffs_add(struct gate *gate, const struct cutoff *cutoff);

bool gate_cutoffs_reject(const struct gate *gate, const struct cutoff_marks *marks);
/* False until the store was read once: tokens wait until then (gate_token_wait). */
bool gate_cutoffs_are_known(const struct gate *gate);

/* ---- token_keys.c: the keys of the settings and of URLs, which are fetched again when needed */

/*
 * A fetch of the keys of an issuer has ended, and requests wait for it. The keys of another fetch
 * may have changed as well: without waiting requests it is called only if keys have changed.
 */
typedef void gate_keys_changed(void *ctx, size_t issuer, bool is_fetched);

/*
 * Reads the keys of the settings, which config_load has checked, and fetches those of URLs.
 * `store`: keeps the keys that were fetched, for when a fetch fails; NULL: none.
 */
struct gate_keys *gate_keys_open(struct ev_loop *loop, const struct config *config,
                                 struct store *store, gate_keys_changed *changed, void *ctx);
void gate_keys_close(struct gate_keys *keys); /* accepts NULL */

/* Until the next change. */
const struct token_rules *gate_keys_rules(const struct gate_keys *keys);

/*
 * Fetches the keys of an issuer because one of them is not known, at most once a minute. RC_OK: a
 * fetch is in progress, and its end will be reported. RC_AGAIN: none is due.
 */
MUST_CHECK enum rc gate_keys_fetch(struct gate_keys *keys, size_t issuer);

/* Uses the files that were read again, and fetches the URLs. Keeps the keys of an invalid file. */
void gate_keys_reload(struct gate_keys *keys);

/*
 * Checks the JWK Sets in files, for --check and at the start. RC_BAD: `error` is the reason, of at
 * most `room` bytes.
 */
MUST_CHECK enum rc gate_keys_check(const struct config *config, char *error, size_t room);

#define GATE_KEYS_AGE_MIN_MS ((int64_t)60 * 1000)
#define GATE_KEYS_AGE_MAX_MS ((int64_t)24 * 3600 * 1000)

/* The time for which fetched keys are used, by the Cache-Control header (NULL: none). Pure. */
int64_t gate_keys_age_ms(const char *cache_control);

#endif
