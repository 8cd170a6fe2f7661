/*
 * jws.h: verifies the signature of a token in JWS compact form (RFC 7515); and the keys of an
 * issuer: JWK Sets (RFC 7517), and single keys. Pure.
 */
#ifndef CLAIRON_WIRE_JWS_H
#define CLAIRON_WIRE_JWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"
#include "base/rc.h"

#define JWS_ALGORITHM_MAX 7
#define KEY_SET_BYTES_MAX ((size_t)256 * 1024)
#define KEY_SET_KEYS_MAX 100
#define KEY_SET_SECRET_MIN 32 /* RFC 7518, section 3.2: at least as long as the hash */
#define KEY_SET_ERROR_MAX 160

/* The type of the key decides which algorithms are accepted, never the token's header. */
enum jws_key_kind {
    JWS_KEY_SECRET, /* HS256 */
    JWS_KEY_RSA,    /* RS and PS, 256 to 512 */
    JWS_KEY_P256,   /* ES256 */
    JWS_KEY_P384,   /* ES384 */
    JWS_KEY_ED25519 /* EdDSA */
};

struct evp_pkey_st;    /* OpenSSL's EVP_PKEY */
struct evp_mac_ctx_st; /* OpenSSL's EVP_MAC_CTX */

struct jws_key {
    enum jws_key_kind kind;
    /* the only algorithm for which the key may be used; "": any one of its type */
    char algorithm[JWS_ALGORITHM_MAX + 1];
    char *id;                   /* kid; NULL: none */
    bool fits_any_id;           /* a single key of the settings, which has no kid */
    struct evp_mac_ctx_st *mac; /* of JWS_KEY_SECRET, after the secret */
    struct evp_pkey_st *public; /* of the other types */
};

/* The three parts of a token, separated by dots, in base64url. */
struct jws {
    const char *text;
    size_t header_len;
    size_t signed_len; /* header, dot and payload */
    size_t len;
};

/* Returns false unless the text is three base64url parts joined by dots. */
bool jws_split(const char *text, size_t len, struct jws *ret_jws);

/*
 * Decode a part, and add a terminating zero. The caller frees the bytes. NULL: not the base64url
 * encoding of bytes (RFC 4648).
 */
char *jws_header(const struct jws *jws, size_t *ret_len);
char *jws_payload(const struct jws *jws, size_t *ret_len);

/*
 * Whether the key may verify signatures of `algorithm`, the header's alg, which is compared with
 * the case, as RFC 7515 requires.
 */
bool jws_key_fits(const struct jws_key *key, const char *algorithm);

/* Whether public keys verify signatures of `algorithm`. */
bool jws_is_public(const char *algorithm);

/*
 * Adds a token with these claims, a JSON object, signed with HS256. RC_LIMIT: `out` is full. RC_IO:
 * OpenSSL failed.
 */
MUST_CHECK enum rc jws_sign_secret(const char *secret, size_t secret_len, const char *claims,
                                   struct buffer *out);

/* Whether the signature is that of a key which fits. */
bool jws_verify(const struct jws *jws, const char *algorithm, const struct jws_key *key);

/* ---- the keys of an issuer */

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
