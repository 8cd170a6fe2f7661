/* jws.c: the signature of a token (RFC 7518, and EdDSA of RFC 8037), with OpenSSL. */
#include "wire/jws.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <openssl/rsa.h>

#include "wire/base64url.h"

#define DIGEST_BYTES 32
#define DER_MAX 128 /* enough for the two numbers of an ES384 signature in DER */

/*
 * Why not a library: libjose and libcjose know no EdDSA. librhonabwy verifies with RSA keys of 1024
 * bits, with keys whose use or alg forbids it, and accepts crit and duplicate claims, of which the
 * last one counts; and it needs GnuTLS and a second libcurl.
 */
struct algorithm {
    const char *name;
    enum jws_key_kind kind;
    const EVP_MD *(*digest)(void); /* NULL: none */
    bool is_pss;
    int number_bytes; /* of each of the two numbers of an ECDSA signature; 0: another one */
};

static const struct algorithm ALGORITHMS[] = {
    {"HS256", JWS_KEY_SECRET, EVP_sha256, false, 0}, {"RS256", JWS_KEY_RSA, EVP_sha256, false, 0},
    {"RS384", JWS_KEY_RSA, EVP_sha384, false, 0},    {"RS512", JWS_KEY_RSA, EVP_sha512, false, 0},
    {"PS256", JWS_KEY_RSA, EVP_sha256, true, 0},     {"PS384", JWS_KEY_RSA, EVP_sha384, true, 0},
    {"PS512", JWS_KEY_RSA, EVP_sha512, true, 0},     {"ES256", JWS_KEY_P256, EVP_sha256, false, 32},
    {"ES384", JWS_KEY_P384, EVP_sha384, false, 48},  {"EdDSA", JWS_KEY_ED25519, NULL, false, 0},
};

bool
jws_split(const char *text, size_t len, struct jws *ret_jws)
{
    size_t ends[2] = {0, 0}, part_len = 0;
    int dots = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '.') {
            if (part_len == 0 || dots == 2)
                return false;
            ends[dots++] = i;
            part_len = 0;
        } else if (base64url_is_digit(text[i])) {
            part_len++;
        } else {
            return false;
        }
    }
    *ret_jws = (struct jws){.text = text, .header_len = ends[0], .signed_len = ends[1], .len = len};
    return dots == 2 && part_len > 0;
}

char *
jws_header(const struct jws *jws, size_t *ret_len)
{
    return base64url_decode(jws->text, jws->header_len, ret_len);
}

char *
jws_payload(const struct jws *jws, size_t *ret_len)
{
    return base64url_decode(jws->text + jws->header_len + 1, jws->signed_len - jws->header_len - 1,
                            ret_len);
}

/* NULL: unknown, such as "none". */
static const struct algorithm *
algorithm_find(const char *name)
{
    for (size_t i = 0; i < sizeof(ALGORITHMS) / sizeof(ALGORITHMS[0]); i++)
        if (strcmp(ALGORITHMS[i].name, name) == 0)
            return &ALGORITHMS[i];
    return NULL;
}

bool
jws_key_fits(const struct jws_key *key, const char *algorithm)
{
    const struct algorithm *found = algorithm_find(algorithm);

    return found != NULL && found->kind == key->kind &&
           (key->algorithm[0] == '\0' || strcmp(key->algorithm, algorithm) == 0);
}

bool
jws_is_public(const char *algorithm)
{
    const struct algorithm *found = algorithm_find(algorithm);

    return found != NULL && found->kind != JWS_KEY_SECRET;
}

struct evp_mac_ctx_st *
jws_mac_new(const void *secret, size_t len)
{
    static char sha256[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, sha256, 0),
        OSSL_PARAM_construct_end()};
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *mac = hmac != NULL && len > 0 ? EVP_MAC_CTX_new(hmac) : NULL;

    if (mac != NULL && EVP_MAC_init(mac, secret, len, parameters) != 1) {
        EVP_MAC_CTX_free(mac);
        mac = NULL;
    }
    EVP_MAC_free(hmac);
    return mac;
}

/* HMAC() would look its algorithms up, and hash the secret, for each token. */
static bool
verify_secret(const struct jws *jws, const struct jws_key *key, const unsigned char *signature,
              size_t len)
{
    unsigned char digest[DIGEST_BYTES];
    size_t digest_len = 0;

    return len == DIGEST_BYTES && key->mac != NULL && EVP_MAC_init(key->mac, NULL, 0, NULL) == 1 &&
           EVP_MAC_update(key->mac, (const unsigned char *)jws->text, jws->signed_len) == 1 &&
           EVP_MAC_final(key->mac, digest, &digest_len, sizeof(digest)) == 1 &&
           digest_len == DIGEST_BYTES && CRYPTO_memcmp(digest, signature, DIGEST_BYTES) == 0;
}

/* OpenSSL expects DER, a JWS has the two numbers (RFC 7518, section 3.4). Returns 0 on failure. */
static size_t
to_der(const unsigned char *signature, size_t len, int number_bytes, unsigned char der[DER_MAX])
{
    ECDSA_SIG *numbers = len == 2 * (size_t)number_bytes ? ECDSA_SIG_new() : NULL;
    BIGNUM *r = NULL, *s = NULL;
    unsigned char *at = der;
    int der_len = 0;

    if (numbers == NULL)
        return 0;
    r = BN_bin2bn(signature, number_bytes, NULL);
    s = BN_bin2bn(signature + number_bytes, number_bytes, NULL);
    if (r != NULL && s != NULL && ECDSA_SIG_set0(numbers, r, s) == 1) {
        r = s = NULL; /* they belong to `numbers` */
        der_len = i2d_ECDSA_SIG(numbers, NULL) <= DER_MAX ? i2d_ECDSA_SIG(numbers, &at) : 0;
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(numbers);
    return der_len > 0 ? (size_t)der_len : 0;
}

static bool
verify_public(const struct jws *jws, const struct algorithm *algorithm, EVP_PKEY *key,
              const unsigned char *signature, size_t len)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *key_context = NULL;
    const EVP_MD *digest = algorithm->digest != NULL ? algorithm->digest() : NULL;
    bool is_valid =
        context != NULL && EVP_DigestVerifyInit(context, &key_context, digest, NULL, key) == 1;

    if (is_valid && algorithm->is_pss)
        is_valid = EVP_PKEY_CTX_set_rsa_padding(key_context, RSA_PKCS1_PSS_PADDING) == 1 &&
                   EVP_PKEY_CTX_set_rsa_pss_saltlen(key_context, RSA_PSS_SALTLEN_DIGEST) == 1;
    is_valid = is_valid && EVP_DigestVerify(context, signature, len,
                                            (const unsigned char *)jws->text, jws->signed_len) == 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error(); /* a TLS connection would report a leftover error as its own */
    return is_valid;
}

bool
jws_verify(const struct jws *jws, const char *algorithm, const struct jws_key *key)
{
    const struct algorithm *found = algorithm_find(algorithm);
    unsigned char der[DER_MAX];
    unsigned char *signature;
    size_t len = 0, der_len;
    bool is_valid = false;

    if (found == NULL || !jws_key_fits(key, algorithm))
        return false;
    signature = (unsigned char *)base64url_decode(jws->text + jws->signed_len + 1,
                                                  jws->len - jws->signed_len - 1, &len);
    if (signature == NULL)
        return false;
    if (found->kind == JWS_KEY_SECRET) {
        is_valid = verify_secret(jws, key, signature, len);
    } else if (found->number_bytes > 0) {
        der_len = to_der(signature, len, found->number_bytes, der);
        is_valid = der_len > 0 && verify_public(jws, found, key->public, der, der_len);
    } else {
        is_valid = verify_public(jws, found, key->public, signature, len);
    }
    free(signature);
    return is_valid;
}

enum rc
jws_sign_secret(const char *secret, size_t secret_len, const char *claims, struct buffer *out)
{
    static const char header[] = "{\"alg\":\"HS256\",\"typ\":\"JWT\"}";
    const size_t start = out->len;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_len = 0;
    enum rc rc = base64url_add(out, header, sizeof(header) - 1);

    if (rc == RC_OK)
        rc = buffer_add(out, ".", 1);
    if (rc == RC_OK)
        rc = base64url_add(out, claims, strlen(claims));
    if (rc == RC_OK &&
        (secret_len > INT_MAX ||
         HMAC(EVP_sha256(), secret, (int)secret_len, (const unsigned char *)out->bytes + start,
              out->len - start, digest, &digest_len) == NULL))
        rc = RC_IO;
    if (rc == RC_OK)
        rc = buffer_add(out, ".", 1);
    return rc == RC_OK ? base64url_add(out, digest, digest_len) : rc;
}
