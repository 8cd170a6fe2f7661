/* push_encryption.c: encrypts Web Push bodies, and signs their requests, with OpenSSL. */
#include "wire/push_encryption.h"

#include <inttypes.h>
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
#include <openssl/rand.h>
#include <openssl/x509.h>

#define DIGEST_BYTES 32
#define SECRET_BYTES 32 /* of ECDH on P-256 */
#define CONTENT_KEY_BYTES 16
#define NONCE_BYTES 12
#define TAG_BYTES 16
#define RECORD_BYTES 4096
#define LAST_RECORD 2   /* delimiter of the only record */
#define P256_NUMBER 32  /* bytes of each of the two numbers of a signature */
#define TOKENS_MAX 32   /* origins with a token; the wildcards allow any number of them */
#define TOKEN_MAX 16384 /* subject and origin are shorter */
#define PEM_MAX 4096

/* A public key of P-256 in DER is this prefix and its point (RFC 5480). */
static const unsigned char p256_prefix[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
                                            0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
                                            0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00};
#define P256_DER_BYTES (sizeof(p256_prefix) + WEB_PUSH_POINT_BYTES)

struct web_push_key {
    EVP_PKEY *pair;
    unsigned char point[WEB_PUSH_POINT_BYTES];
    char public[WEB_PUSH_POINT_TEXT + 1];
};

/* ---- keys */

/* NULL: not an uncompressed point on the curve. */
static EVP_PKEY *
point_parse(const unsigned char *bytes, size_t len)
{
    unsigned char der[P256_DER_BYTES];
    const unsigned char *at = der;
    EVP_PKEY *key;

    if (len != WEB_PUSH_POINT_BYTES || bytes[0] != POINT_CONVERSION_UNCOMPRESSED)
        return NULL;
    memcpy(der, p256_prefix, sizeof(p256_prefix));
    memcpy(der + sizeof(p256_prefix), bytes, WEB_PUSH_POINT_BYTES);
    key = d2i_PUBKEY(NULL, &at, (long)sizeof(der));
    ERR_clear_error(); /* a TLS connection would report a leftover error as its own */
    return key;
}

bool
web_push_point_is_valid(const unsigned char *bytes, size_t len)
{
    EVP_PKEY *key = point_parse(bytes, len);

    EVP_PKEY_free(key);
    return key != NULL;
}

/* Takes ownership of the pair. NULL: not a key of P-256. */
static struct web_push_key *
key_new(EVP_PKEY *pair)
{
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(pair, &der);
    struct web_push_key *key = NULL;

    if (len == (int)P256_DER_BYTES && memcmp(der, p256_prefix, sizeof(p256_prefix)) == 0) {
        key = memory_new(sizeof(*key));
        key->pair = pair;
        memcpy(key->point, der + sizeof(p256_prefix), WEB_PUSH_POINT_BYTES);
        base64url_encode(key->point, WEB_PUSH_POINT_BYTES, key->public);
    } else {
        EVP_PKEY_free(pair);
    }
    OPENSSL_free(der);
    return key;
}

struct web_push_key *
web_push_key_parse(const char *pem, size_t len, const char **ret_fault)
{
    static char no_passphrase[] = ""; /* prevents a prompt of OpenSSL on the terminal */
    BIO *bio = len <= INT_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
    EVP_PKEY *pair = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, NULL, no_passphrase) : NULL;
    struct web_push_key *key = NULL;

    if (pair == NULL)
        *ret_fault = "is not a private key in PEM, must be PKCS#8 or SEC1 without a passphrase";
    else if ((key = key_new(pair)) == NULL)
        *ret_fault = "has an unsupported key type, must be EC on P-256";
    BIO_free(bio);
    ERR_clear_error();
    return key;
}

struct web_push_key *
web_push_key_generate(void)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
    EVP_PKEY *pair = NULL;

    if (context != NULL && EVP_PKEY_keygen_init(context) == 1 &&
        EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) == 1 &&
        EVP_PKEY_CTX_set_ec_param_enc(context, OPENSSL_EC_NAMED_CURVE) == 1)
        (void)EVP_PKEY_keygen(context, &pair);
    EVP_PKEY_CTX_free(context);
    ERR_clear_error();
    return pair != NULL ? key_new(pair) : NULL;
}

void
web_push_key_free(struct web_push_key *key)
{
    if (key != NULL)
        EVP_PKEY_free(key->pair);
    free(key);
}

const char *
web_push_key_public(const struct web_push_key *key)
{
    return key->public;
}

enum rc
web_push_key_write(const struct web_push_key *key, struct buffer *out)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char pem[PEM_MAX];
    enum rc rc = RC_IO;
    int len;

    if (bio != NULL &&
        PEM_write_bio_PKCS8PrivateKey(bio, key->pair, NULL, NULL, 0, NULL, NULL) == 1) {
        len = BIO_read(bio, pem, sizeof(pem));
        rc = len > 0 ? buffer_add(out, pem, (size_t)len) : RC_IO;
        OPENSSL_cleanse(pem, sizeof(pem));
    }
    BIO_free(bio);
    ERR_clear_error();
    return rc;
}

/* ---- encryption */

/* HKDF (RFC 5869) with an output of one digest at most. */
static bool
derive(const unsigned char *salt, size_t salt_len, const unsigned char *secret, size_t secret_len,
       const unsigned char *info, size_t info_len, unsigned char *ret_bytes, size_t len)
{
    unsigned char extracted[DIGEST_BYTES], block[DIGEST_BYTES];
    unsigned char last[sizeof("WebPush: info") + 2 * WEB_PUSH_POINT_BYTES + 1];
    unsigned digest_len = 0;
    bool is_done;

    memcpy(last, info, info_len);
    last[info_len] = 1;
    is_done =
        HMAC(EVP_sha256(), salt, (int)salt_len, secret, secret_len, extracted, &digest_len) !=
            NULL &&
        HMAC(EVP_sha256(), extracted, DIGEST_BYTES, last, info_len + 1, block, &digest_len) != NULL;
    memcpy(ret_bytes, block, is_done ? len : 0);
    OPENSSL_cleanse(extracted, sizeof(extracted));
    OPENSSL_cleanse(block, sizeof(block));
    return is_done;
}

/* Writes the ciphertext and its tag. */
static bool
encrypt_record(const unsigned char key[CONTENT_KEY_BYTES], const unsigned char nonce[NONCE_BYTES],
               const char *plain, size_t len, unsigned char *ret_record)
{
    static const unsigned char delimiter = LAST_RECORD;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int done = 0, more = 0, rest = 0;
    bool is_done =
        context != NULL && EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), NULL, key, nonce) == 1 &&
        EVP_EncryptUpdate(context, ret_record, &done, (const unsigned char *)plain, (int)len) ==
            1 &&
        EVP_EncryptUpdate(context, ret_record + done, &more, &delimiter, 1) == 1 &&
        EVP_EncryptFinal_ex(context, ret_record + done + more, &rest) == 1 &&
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, ret_record + len + 1) == 1;

    EVP_CIPHER_CTX_free(context);
    return is_done;
}

enum rc
web_push_seal(const unsigned char *secret, size_t secret_len,
              const unsigned char salt[WEB_PUSH_SALT_BYTES], const unsigned char *key_id,
              size_t key_id_len, const char *plain, size_t len, struct buffer *out)
{
    static const char key_info[] = "Content-Encoding: aes128gcm";
    static const char nonce_info[] = "Content-Encoding: nonce";
    unsigned char key[CONTENT_KEY_BYTES], nonce[NONCE_BYTES], body[WEB_PUSH_BODY_MAX];
    /* salt, the size of a record, and the sender's key with its length */
    size_t at = WEB_PUSH_SALT_BYTES + 4 + 1 + key_id_len;
    enum rc rc = RC_IO;

    if (key_id_len > WEB_PUSH_POINT_BYTES || len > WEB_PUSH_PLAIN_MAX)
        return RC_LIMIT;
    memcpy(body, salt, WEB_PUSH_SALT_BYTES);
    memcpy(body + WEB_PUSH_SALT_BYTES, "\0\0\x10\0", 4);
    body[WEB_PUSH_SALT_BYTES + 4] = (unsigned char)key_id_len;
    memcpy(body + at - key_id_len, key_id, key_id_len);
    /* Each info ends in a zero byte. */
    if (derive(salt, WEB_PUSH_SALT_BYTES, secret, secret_len, (const unsigned char *)key_info,
               sizeof(key_info), key, sizeof(key)) &&
        derive(salt, WEB_PUSH_SALT_BYTES, secret, secret_len, (const unsigned char *)nonce_info,
               sizeof(nonce_info), nonce, sizeof(nonce)) &&
        encrypt_record(key, nonce, plain, len, body + at))
        rc = buffer_add(out, body, at + len + 1 + TAG_BYTES);
    OPENSSL_cleanse(key, sizeof(key));
    ERR_clear_error();
    return rc;
}
_Static_assert(WEB_PUSH_BODY_MAX == RECORD_BYTES, "the size of a record is written as 0x1000");
_Static_assert(WEB_PUSH_SALT_BYTES + 4 + 1 + WEB_PUSH_POINT_BYTES + WEB_PUSH_PLAIN_MAX + 1 +
                       TAG_BYTES ==
                   WEB_PUSH_BODY_MAX,
               "the longest body fills a record");

static bool
agree(EVP_PKEY *own, EVP_PKEY *other, unsigned char ret_secret[SECRET_BYTES])
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(own, NULL);
    size_t len = SECRET_BYTES;
    bool is_done = context != NULL && EVP_PKEY_derive_init(context) == 1 &&
                   EVP_PKEY_derive_set_peer(context, other) == 1 &&
                   EVP_PKEY_derive(context, ret_secret, &len) == 1 && len == SECRET_BYTES;

    EVP_PKEY_CTX_free(context);
    return is_done;
}

enum rc
web_push_encrypt_with(const struct web_push_keys *keys, const struct web_push_key *sender,
                      const unsigned char salt[WEB_PUSH_SALT_BYTES], const char *plain, size_t len,
                      struct buffer *out)
{
    static const char label[] = "WebPush: info";
    unsigned char info[sizeof(label) + 2 * WEB_PUSH_POINT_BYTES];
    unsigned char agreed[SECRET_BYTES], secret[DIGEST_BYTES];
    EVP_PKEY *receiver = point_parse(keys->point, WEB_PUSH_POINT_BYTES);
    enum rc rc = RC_IO;

    memcpy(info, label, sizeof(label));
    memcpy(info + sizeof(label), keys->point, WEB_PUSH_POINT_BYTES);
    memcpy(info + sizeof(label) + WEB_PUSH_POINT_BYTES, sender->point, WEB_PUSH_POINT_BYTES);
    if (receiver != NULL && agree(sender->pair, receiver, agreed) &&
        derive(keys->auth, WEB_PUSH_AUTH_BYTES, agreed, sizeof(agreed), info, sizeof(info), secret,
               sizeof(secret)))
        rc = web_push_seal(secret, sizeof(secret), salt, sender->point, WEB_PUSH_POINT_BYTES, plain,
                           len, out);
    OPENSSL_cleanse(agreed, sizeof(agreed));
    OPENSSL_cleanse(secret, sizeof(secret));
    EVP_PKEY_free(receiver);
    ERR_clear_error();
    return rc;
}

enum rc
web_push_encrypt(const struct web_push_keys *keys, const char *plain, size_t len,
                 struct buffer *out)
{
    unsigned char salt[WEB_PUSH_SALT_BYTES];
    struct web_push_key *sender = web_push_key_generate();
    enum rc rc = RC_IO;

    if (sender != NULL && RAND_bytes(salt, sizeof(salt)) == 1)
        rc = web_push_encrypt_with(keys, sender, salt, plain, len, out);
    web_push_key_free(sender);
    return rc;
}

/* ---- VAPID */

/* OpenSSL returns DER, a JWS has the two numbers (RFC 7518, section 3.4). */
static bool
sign(EVP_PKEY *key, const char *text, size_t len, unsigned char ret_numbers[2 * P256_NUMBER])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned char der[256];
    const unsigned char *at = der;
    size_t der_len = sizeof(der);
    ECDSA_SIG *numbers = NULL;
    bool is_done = false;

    if (context != NULL && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
        EVP_DigestSign(context, der, &der_len, (const unsigned char *)text, len) == 1)
        numbers = d2i_ECDSA_SIG(NULL, &at, (long)der_len);
    if (numbers != NULL)
        is_done =
            BN_bn2binpad(ECDSA_SIG_get0_r(numbers), ret_numbers, P256_NUMBER) == P256_NUMBER &&
            BN_bn2binpad(ECDSA_SIG_get0_s(numbers), ret_numbers + P256_NUMBER, P256_NUMBER) ==
                P256_NUMBER;
    ECDSA_SIG_free(numbers);
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return is_done;
}

/* Adds the header and the claims, which the signature covers. */
static enum rc
add_claims(const char *origin, const char *subject, int64_t expires_s, struct buffer *out)
{
    static const char header[] = "{\"typ\":\"JWT\",\"alg\":\"ES256\"}";
    struct buffer claims;
    enum rc rc;

    buffer_init(&claims, TOKEN_MAX);
    rc = buffer_addf(&claims, "{\"aud\":");
    if (rc == RC_OK)
        rc = buffer_add_json(&claims, origin, strlen(origin));
    if (rc == RC_OK)
        rc = buffer_addf(&claims, ",\"exp\":%" PRId64 ",\"sub\":", expires_s);
    if (rc == RC_OK)
        rc = buffer_add_json(&claims, subject, strlen(subject));
    if (rc == RC_OK)
        rc = buffer_addf(&claims, "}");
    if (rc == RC_OK)
        rc = base64url_add(out, header, sizeof(header) - 1);
    if (rc == RC_OK)
        rc = buffer_addf(out, ".");
    if (rc == RC_OK)
        rc = base64url_add(out, claims.bytes, claims.len);
    buffer_free(&claims);
    return rc;
}

enum rc
web_push_token_write(const struct web_push_key *key, const char *origin, const char *subject,
                     int64_t expires_s, struct buffer *out)
{
    unsigned char numbers[2 * P256_NUMBER];
    size_t start = out->len;
    enum rc rc = add_claims(origin, subject, expires_s, out);

    if (rc == RC_OK && !sign(key->pair, out->bytes + start, out->len - start, numbers))
        rc = RC_IO;
    if (rc == RC_OK)
        rc = buffer_addf(out, ".");
    return rc == RC_OK ? base64url_add(out, numbers, sizeof(numbers)) : rc;
}

struct token {
    char *origin; /* NULL: unused */
    struct buffer header;
    int64_t signed_s;
};

struct web_push_tokens {
    const struct web_push_key *key;
    const char *subject;
    struct token tokens[TOKENS_MAX];
};

struct web_push_tokens *
web_push_tokens_new(const struct web_push_key *key, const char *subject)
{
    struct web_push_tokens *tokens = memory_new(sizeof(*tokens));

    tokens->key = key;
    tokens->subject = subject;
    return tokens;
}

static void
token_clear(struct token *token)
{
    free(token->origin);
    buffer_free(&token->header);
    *token = (struct token){.origin = NULL};
}

void
web_push_tokens_free(struct web_push_tokens *tokens)
{
    for (size_t i = 0; tokens != NULL && i < TOKENS_MAX; i++)
        token_clear(&tokens->tokens[i]);
    free(tokens);
}

const char *
web_push_authorization(struct web_push_tokens *tokens, const char *origin, int64_t now_s)
{
    struct token *oldest = &tokens->tokens[0];
    enum rc rc;

    for (struct token *each = tokens->tokens; each < tokens->tokens + TOKENS_MAX; each++) {
        if (each->origin != NULL && strcmp(each->origin, origin) == 0) {
            if (now_s >= each->signed_s && now_s - each->signed_s < WEB_PUSH_TOKEN_REUSE)
                return each->header.bytes;
            oldest = each;
            break;
        }
        if (oldest->origin != NULL && (each->origin == NULL || each->signed_s < oldest->signed_s))
            oldest = each;
    }
    token_clear(oldest);
    buffer_init(&oldest->header, TOKEN_MAX);
    rc = buffer_addf(&oldest->header, "vapid t=");
    if (rc == RC_OK)
        rc = web_push_token_write(tokens->key, origin, tokens->subject,
                                  now_s + WEB_PUSH_TOKEN_SECONDS, &oldest->header);
    if (rc == RC_OK)
        rc = buffer_addf(&oldest->header, ", k=%s", tokens->key->public);
    if (rc != RC_OK) {
        token_clear(oldest);
        return NULL;
    }
    oldest->origin = memory_text(origin, strlen(origin));
    oldest->signed_s = now_s;
    return oldest->header.bytes;
}
