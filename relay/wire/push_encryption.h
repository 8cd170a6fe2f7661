/*
 * push_encryption.h: the body of a Web Push request, encrypted for one subscription (RFC 8291), and
 * the relay's signature of the request (VAPID, RFC 8292). Pure: no clock, no log.
 */
#ifndef CLAIRON_WIRE_PUSH_ENCRYPTION_H
#define CLAIRON_WIRE_PUSH_ENCRYPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/rc.h"
#include "wire/base64url.h"

#define WEB_PUSH_POINT_BYTES 65 /* an uncompressed point of P-256 */
#define WEB_PUSH_POINT_TEXT BASE64URL_LEN(WEB_PUSH_POINT_BYTES)
#define WEB_PUSH_AUTH_BYTES 16
#define WEB_PUSH_SALT_BYTES 16

/* Push services accept 4096 bytes: 86 are the header, 17 the end of the record. */
#define WEB_PUSH_PLAIN_MAX 3993
#define WEB_PUSH_BODY_MAX 4096

/* The keys of a subscription. */
struct web_push_keys {
    unsigned char point[WEB_PUSH_POINT_BYTES]; /* p256dh */
    unsigned char auth[WEB_PUSH_AUTH_BYTES];
};

/* True for an uncompressed point on the curve. */
bool web_push_point_is_valid(const unsigned char *bytes, size_t len);

/* ---- private keys of P-256 */

struct web_push_key;

/*
 * Reads a PEM with PKCS#8 or SEC1. NULL: *ret_fault is the problem, "has ..." or "is ...".
 * web_push_key_free accepts NULL.
 */
struct web_push_key *web_push_key_parse(const char *pem, size_t len, const char **ret_fault);
struct web_push_key *web_push_key_generate(void); /* NULL: OpenSSL failed */
void web_push_key_free(struct web_push_key *key);

/* The public key in base64url, as browsers take it. */
const char *web_push_key_public(const struct web_push_key *key);

/* Adds a PEM with PKCS#8. RC_IO: OpenSSL failed. */
MUST_CHECK enum rc web_push_key_write(const struct web_push_key *key, struct buffer *out);

/* ---- encryption */

/* Adds the encrypted body. RC_LIMIT: over WEB_PUSH_PLAIN_MAX. RC_IO: OpenSSL failed. */
MUST_CHECK enum rc web_push_encrypt(const struct web_push_keys *keys, const char *plain, size_t len,
                                    struct buffer *out);

/* As web_push_encrypt, with a sender's key and a salt that must be used only once; for tests. */
MUST_CHECK enum rc web_push_encrypt_with(const struct web_push_keys *keys,
                                         const struct web_push_key *sender,
                                         const unsigned char salt[WEB_PUSH_SALT_BYTES],
                                         const char *plain, size_t len, struct buffer *out);

/* Adds one record of the content encoding aes128gcm (RFC 8188). */
MUST_CHECK enum rc web_push_seal(const unsigned char *secret, size_t secret_len,
                                 const unsigned char salt[WEB_PUSH_SALT_BYTES],
                                 const unsigned char *key_id, size_t key_id_len, const char *plain,
                                 size_t len, struct buffer *out);

/* ---- VAPID */

#define WEB_PUSH_TOKEN_SECONDS 43200 /* lifetime of a token */
#define WEB_PUSH_TOKEN_REUSE 21600   /* a token is reused for this time */

/* Adds the token: header, claims and signature. RC_IO: OpenSSL failed. */
MUST_CHECK enum rc web_push_token_write(const struct web_push_key *key, const char *origin,
                                        const char *subject, int64_t expires_s, struct buffer *out);

/* Signed tokens of one key, by origin. The key and the subject must outlive them. */
struct web_push_tokens;
struct web_push_tokens *web_push_tokens_new(const struct web_push_key *key, const char *subject);
void web_push_tokens_free(struct web_push_tokens *tokens); /* accepts NULL */

/*
 * Returns the value of the Authorization header for a push service. Valid until the next call.
 * NULL: OpenSSL failed.
 */
const char *web_push_authorization(struct web_push_tokens *tokens, const char *origin,
                                   int64_t now_s);

#endif
