/* jws.h: verifies the signature of a token in JWS compact form (RFC 7515). Pure. */
#ifndef CLAIRON_WIRE_JWS_H
#define CLAIRON_WIRE_JWS_H

#include <stdbool.h>
#include <stddef.h>

/* The type of the key decides which algorithms are accepted, never the token's header. */
enum jws_key_kind { JWS_KEY_SECRET /* HS256 */, JWS_KEY_PEM /* RS256 or ES256, by its type */ };

struct jws_key {
    enum jws_key_kind kind;
    const char *bytes; /* the secret, or the PEM of the public key */
    size_t len;
};

enum jws_result {
    JWS_VALID,
    JWS_WRONG_ALGORITHM, /* the key is not of this algorithm */
    JWS_WRONG_SIGNATURE
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

/* `algorithm` is the header's alg. It is compared with the case, as RFC 7515 requires. */
enum jws_result jws_verify(const struct jws *jws, const char *algorithm, const struct jws_key *key);

#endif
