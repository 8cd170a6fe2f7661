/* webhook_signature.c: parses the secrets of a webhook, and signs a request with each. */
#include "wire/webhook_signature.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#define PREFIX "whsec_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)
#define DIGEST_BYTES 32
#define DIGEST_TEXT_LEN 44 /* of its base64 */
#define STAMP_MAX 24
/* of the longest secret in base64, and of one more group */
#define TEXT_LEN_MAX ((WEBHOOK_SECRET_BYTES_MAX + 2) / 3 * 4)

_Static_assert(WEBHOOK_SIGNATURE_MAX >= WEBHOOK_SECRETS_MAX * (sizeof(" v1,") + DIGEST_TEXT_LEN),
               "the signatures fit");

/*
 * Decodes base64 with its padding. False for every text that an encoder does not write, so that
 * the receiver's library cannot read another secret from it.
 */
static bool
decode(const char *text, size_t len, unsigned char *ret_bytes, size_t *ret_len)
{
    unsigned char bytes[TEXT_LEN_MAX / 4 * 3], encoded[TEXT_LEN_MAX + 1];
    bool is_valid;
    size_t padding;
    int decoded;

    if (len == 0 || len > TEXT_LEN_MAX || len % 4 != 0)
        return false;
    decoded = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len);
    padding = text[len - 1] != '=' ? 0 : text[len - 2] != '=' ? 1 : 2;
    is_valid = decoded > (int)padding;
    if (is_valid) {
        *ret_len = (size_t)decoded - padding;
        (void)EVP_EncodeBlock(encoded, bytes, (int)*ret_len);
        is_valid = memcmp(encoded, text, len) == 0 && *ret_len <= WEBHOOK_SECRET_BYTES_MAX;
    }
    if (is_valid)
        memcpy(ret_bytes, bytes, *ret_len);
    explicit_bzero(bytes, sizeof(bytes));
    explicit_bzero(encoded, sizeof(encoded));
    return is_valid;
}

/* Returns NULL for a valid secret, otherwise the problem. */
static const char *
parse_line(const char *line, size_t len, struct webhook_secrets *secrets)
{
    size_t at = secrets->count;

    if (len == 0)
        return "is empty; must be whsec_ and base64";
    if (at == WEBHOOK_SECRETS_MAX)
        return "is a third secret; must be one secret, or two during a rotation";
    if (len < PREFIX_LEN || memcmp(line, PREFIX, PREFIX_LEN) != 0)
        return "does not start with whsec_";
    if (len - PREFIX_LEN > TEXT_LEN_MAX)
        return "is too long; must be whsec_ and the base64 of 24 to 64 bytes";
    if (!decode(line + PREFIX_LEN, len - PREFIX_LEN, secrets->secrets[at].bytes,
                &secrets->secrets[at].len))
        return "is not base64 after whsec_; must be the base64 of 24 to 64 bytes, without blanks";
    if (secrets->secrets[at].len < WEBHOOK_SECRET_BYTES_MIN)
        return "is too short; must be whsec_ and the base64 of 24 to 64 bytes";
    secrets->count++;
    return NULL;
}

enum rc
webhook_secrets_parse(const char *text, size_t len, struct webhook_secrets *ret_secrets,
                      char error[WEBHOOK_ERROR_MAX])
{
    struct webhook_secrets secrets = {.count = 0};
    const char *wrong = len == 0 ? "is empty; must be whsec_ and base64" : NULL;
    unsigned number = 1;

    for (size_t at = 0; at < len && wrong == NULL; number++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line_len = end != NULL ? (size_t)(end - text) - at : len - at;

        wrong = parse_line(text + at, line_len, &secrets);
        at += line_len + 1;
    }
    if (wrong == NULL)
        *ret_secrets = secrets;
    else
        (void)snprintf(error, WEBHOOK_ERROR_MAX, "line %u %s", len == 0 ? 1U : number - 1, wrong);
    explicit_bzero(&secrets, sizeof(secrets));
    return wrong == NULL ? RC_OK : RC_BAD;
}

/* Fails only if memory is exhausted, or OpenSSL has no HMAC. */
static bool
digest(const unsigned char *secret, size_t secret_len, const char *stamp, const char *id,
       const char *body, size_t len, unsigned char ret_digest[DIGEST_BYTES])
{
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, secret, secret_len);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t digest_len = DIGEST_BYTES;
    bool is_ok = key != NULL && context != NULL &&
                 EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
                 EVP_DigestSignUpdate(context, id, strlen(id)) == 1 &&
                 EVP_DigestSignUpdate(context, stamp, strlen(stamp)) == 1 &&
                 EVP_DigestSignUpdate(context, body, len) == 1 &&
                 EVP_DigestSignFinal(context, ret_digest, &digest_len) == 1;

    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    return is_ok;
}

void
webhook_sign(const struct webhook_secrets *secrets, const char *id, int64_t timestamp_s,
             const char *body, size_t len, char ret_signature[WEBHOOK_SIGNATURE_MAX])
{
    char stamp[STAMP_MAX];
    char *at = ret_signature;

    (void)snprintf(stamp, sizeof(stamp), ".%" PRId64 ".", timestamp_s);
    *at = '\0';
    for (size_t i = 0; i < secrets->count; i++) {
        unsigned char bytes[DIGEST_BYTES];

        if (!digest(secrets->secrets[i].bytes, secrets->secrets[i].len, stamp, id, body, len,
                    bytes))
            abort();
        memcpy(at, " v1,", 4);
        at += EVP_EncodeBlock((unsigned char *)at + 4, bytes, DIGEST_BYTES) + 4;
    }
    if (at != ret_signature) /* without the first space, with the terminating zero */
        memmove(ret_signature, ret_signature + 1, (size_t)(at - ret_signature));
}
