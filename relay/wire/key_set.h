/* key_set.h: the keys that verify the tokens of an issuer: JWK Sets (RFC 7517), and single keys. */
#ifndef CLAIRON_WIRE_KEY_SET_H
#define CLAIRON_WIRE_KEY_SET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "wire/jws.h"

#define KEY_SET_BYTES_MAX ((size_t)256 * 1024)
#define KEY_SET_KEYS_MAX 100
#define KEY_SET_SECRET_MIN 32 /* RFC 7518, section 3.2: at least as long as the hash */
#define KEY_SET_ERROR_MAX 160

/* {0} is an empty set. */
struct key_set {
    struct jws_key *keys;
    size_t count;
    size_t skipped; /* keys of JWK Sets that are not usable */
};

/*
 * Adds the usable keys of a JWK Set. Others are skipped, as RFC 7517 requires: malformed, of an
 * unknown type or curve, not for signatures, RSA under 2048 bits, and secrets (`oct`) unless they
 * are allowed. RC_BAD: nothing was added, because it is not a JWK Set or has no usable key; `error`
 * is the reason.
 */
MUST_CHECK enum rc key_set_add_jwks(struct key_set *set, const char *text, size_t len,
                                    bool allow_secrets, char error[KEY_SET_ERROR_MAX]);

/* Adds an HS256 secret, which fits tokens with any kid. */
void key_set_add_secret(struct key_set *set, const char *secret, size_t len);

/* Adds a public key in PEM, for RS256 or ES256 by its type, which fits tokens with any kid. */
MUST_CHECK enum rc key_set_add_pem(struct key_set *set, const char *pem, size_t len);

/* Frees and wipes the keys; the set is empty then. */
void key_set_free(struct key_set *set);

#endif
