/* jws.h: verifies the signature of a token in JWS compact form (RFC 7515). Pure. */
#ifndef CLAIRON_WIRE_JWS_H
#define CLAIRON_WIRE_JWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"
#include "base/rc.h"

#define JWS_ALGORITHM_MAX 7

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
    struct evp_mac_ctx_st *mac; /* of JWS_KEY_SECRET; see jws_mac_new */
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

/*
 * Returns the state of HS256 after the secret, which each signature begins with; it is freed with
 * EVP_MAC_CTX_free. NULL: the secret is empty, or OpenSSL failed; then no signature is valid.
 */
struct evp_mac_ctx_st *jws_mac_new(const void *secret, size_t len);

/* Whether the signature is that of a key which fits. */
bool jws_verify(const struct jws *jws, const char *algorithm, const struct jws_key *key);

#endif
