/* webhook_signature.h: signs requests as Standard Webhooks 1.0 defines (HMAC-SHA256). Pure. */
#ifndef CLAIRON_WIRE_WEBHOOK_SIGNATURE_H
#define CLAIRON_WIRE_WEBHOOK_SIGNATURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define WEBHOOK_SECRETS_MAX 2 /* during a rotation: the new secret and the old one */
#define WEBHOOK_SECRET_BYTES_MIN 24
#define WEBHOOK_SECRET_BYTES_MAX 64

struct webhook_secrets {
    size_t count;
    struct {
        size_t len;
        unsigned char bytes[WEBHOOK_SECRET_BYTES_MAX];
    } secrets[WEBHOOK_SECRETS_MAX];
};

#define WEBHOOK_ERROR_MAX 128

/*
 * Parses a file with one or two secrets, each on its line: whsec_ and the base64 of 24 to 64 bytes.
 * RC_BAD: `error` names the line and the problem, but quotes nothing; *ret_secrets is unchanged.
 */
MUST_CHECK enum rc webhook_secrets_parse(const char *text, size_t len,
                                         struct webhook_secrets *ret_secrets,
                                         char error[WEBHOOK_ERROR_MAX]);

/* "v1," and the base64 of a signature for each secret, separated by a space. */
#define WEBHOOK_SIGNATURE_MAX 104

/*
 * Returns the value of the header webhook-signature. `id` and `timestamp_s` are the values of
 * webhook-id and webhook-timestamp: a repeated request keeps its id, and has a new timestamp.
 */
void webhook_sign(const struct webhook_secrets *secrets, const char *id, int64_t timestamp_s,
                  const char *body, size_t len, char ret_signature[WEBHOOK_SIGNATURE_MAX]);

#endif
