/* jws.c: the signature of a token: HS256, RS256 and ES256 (RFC 7518). */
#include "wire/jws.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include "wire/base64url.h"

#define DIGEST_BYTES 32
#define P256_NUMBER 32   /* bytes of each of the two numbers of an ES256 signature */
#define P256_DER_MAX 128 /* enough for both in DER */

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

static bool
verify_secret(const struct jws *jws, const struct jws_key *key, const unsigned char *signature,
              size_t len)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_len = 0;

    return len == DIGEST_BYTES && key->len <= INT_MAX &&
           HMAC(EVP_sha256(), key->bytes, (int)key->len, (const unsigned char *)jws->text,
                jws->signed_len, digest, &digest_len) != NULL &&
           digest_len == DIGEST_BYTES && CRYPTO_memcmp(digest, signature, DIGEST_BYTES) == 0;
}

/* OpenSSL expects DER, a JWS has the two numbers (RFC 7518, section 3.4). Returns 0 on failure. */
static size_t
to_der(const unsigned char *signature, size_t len, unsigned char der[P256_DER_MAX])
{
    ECDSA_SIG *numbers = len == 2 * (size_t)P256_NUMBER ? ECDSA_SIG_new() : NULL;
    BIGNUM *r = NULL, *s = NULL;
    unsigned char *at = der;
    int der_len = 0;

    if (numbers == NULL)
        return 0;
    r = BN_bin2bn(signature, P256_NUMBER, NULL);
    s = BN_bin2bn(signature + P256_NUMBER, P256_NUMBER, NULL);
    if (r != NULL && s != NULL && ECDSA_SIG_set0(numbers, r, s) == 1) {
        r = s = NULL; /* they belong to `numbers` */
        der_len = i2d_ECDSA_SIG(numbers, NULL) <= P256_DER_MAX ? i2d_ECDSA_SIG(numbers, &at) : 0;
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(numbers);
    return der_len > 0 ? (size_t)der_len : 0;
}

static bool
verify_digest(const struct jws *jws, EVP_PKEY *key, const unsigned char *signature, size_t len)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool is_valid = context != NULL &&
                    EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
                    EVP_DigestVerify(context, signature, len, (const unsigned char *)jws->text,
                                     jws->signed_len) == 1;

    EVP_MD_CTX_free(context);
    return is_valid;
}

static enum jws_result
verify_pem(const struct jws *jws, const char *algorithm, const struct jws_key *key,
           const unsigned char *signature, size_t len)
{
    BIO *bio = key->len <= INT_MAX ? BIO_new_mem_buf(key->bytes, (int)key->len) : NULL;
    EVP_PKEY *public = bio != NULL ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
    int kind = public != NULL ? EVP_PKEY_base_id(public) : EVP_PKEY_NONE;
    enum jws_result result = JWS_WRONG_ALGORITHM;
    unsigned char der[P256_DER_MAX];

    if (kind == EVP_PKEY_RSA && strcmp(algorithm, "RS256") == 0) {
        result = verify_digest(jws, public, signature, len) ? JWS_VALID : JWS_WRONG_SIGNATURE;
    } else if (kind == EVP_PKEY_EC && strcmp(algorithm, "ES256") == 0) {
        len = to_der(signature, len, der);
        result = len > 0 && verify_digest(jws, public, der, len) ? JWS_VALID : JWS_WRONG_SIGNATURE;
    }
    EVP_PKEY_free(public);
    BIO_free(bio);
    ERR_clear_error(); /* a TLS connection would report a leftover error as its own */
    return result;
}

enum jws_result
jws_verify(const struct jws *jws, const char *algorithm, const struct jws_key *key)
{
    enum jws_result result = JWS_WRONG_ALGORITHM;
    char *signature;
    size_t len = 0;

    if (key->len == 0 || (key->kind == JWS_KEY_SECRET && strcmp(algorithm, "HS256") != 0))
        return result;
    signature =
        base64url_decode(jws->text + jws->signed_len + 1, jws->len - jws->signed_len - 1, &len);
    if (signature == NULL)
        return JWS_WRONG_SIGNATURE;
    if (key->kind == JWS_KEY_PEM)
        result = verify_pem(jws, algorithm, key, (const unsigned char *)signature, len);
    else
        result = verify_secret(jws, key, (const unsigned char *)signature, len)
                     ? JWS_VALID
                     : JWS_WRONG_SIGNATURE;
    free(signature);
    return result;
}
