/*
 * jws.c: the signature of a token (RFC 7518, and EdDSA of RFC 8037), with OpenSSL; and the keys of
 * an issuer: JWK Sets, PEM and secrets.
 */
#include "wire/jws.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
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
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "base/memory.h"
#include "wire/base64url.h"
#include "wire/json_doc.h"

#define DIGEST_BYTES 32
#define DER_MAX 128 /* enough for the two numbers of an ES384 signature in DER */
#define RSA_BYTES_MIN (2048 / 8)
#define RSA_BYTES_MAX (8192 / 8)
#define RSA_EXPONENT_MAX 8
#define DER_ROOM 64 /* enough for the tags and lengths of an RSA key */
#define COORDINATE_MAX 48
#define ID_MAX 1024

/* ---- signatures */

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

/*
 * Returns the state of HS256 after the secret, which each signature begins with; it is freed with
 * EVP_MAC_CTX_free. NULL: the secret is empty, or OpenSSL failed; then no signature is valid.
 */
static struct evp_mac_ctx_st *
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

/* ---- keys */

/* A coordinate or a number of a key. */
struct number {
    unsigned char *bytes; /* NULL: absent or malformed */
    size_t len;
};

static enum rc
fail(char error[KEY_SET_ERROR_MAX], const char *sentence)
{
    (void)snprintf(error, KEY_SET_ERROR_MAX, "%s", sentence);
    return RC_BAD;
}

static void
key_free(struct jws_key *key)
{
    EVP_MAC_CTX_free(key->mac); /* wipes the secret */
    free(key->id);
    EVP_PKEY_free(key->public);
}

void
key_set_free(struct key_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        key_free(&set->keys[i]);
    free(set->keys);
    *set = (struct key_set){0};
}

static void
add(struct key_set *set, const struct jws_key *key)
{
    set->keys = memory_grow(set->keys, (set->count + 1) * sizeof(set->keys[0]));
    set->keys[set->count++] = *key;
}

void
key_set_add_secret(struct key_set *set, const char *secret, size_t len)
{
    const struct jws_key key = {
        .kind = JWS_KEY_SECRET, .fits_any_id = true, .mac = jws_mac_new(secret, len)};

    add(set, &key);
}

enum rc
key_set_add_pem(struct key_set *set, const char *pem, size_t len)
{
    static char no_passphrase[] = ""; /* prevents a prompt of OpenSSL on the terminal */
    BIO *bio = len <= INT_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
    struct jws_key key = {.fits_any_id = true};
    int type;

    if (bio != NULL)
        key.public = PEM_read_bio_PUBKEY(bio, NULL, NULL, no_passphrase);
    BIO_free(bio);
    ERR_clear_error(); /* a TLS connection would report a leftover error as its own */
    type = key.public != NULL ? EVP_PKEY_base_id(key.public) : EVP_PKEY_NONE;
    /* The settings check the curve. A signature of another one has another length. */
    if (type != EVP_PKEY_RSA && type != EVP_PKEY_EC) {
        key_free(&key);
        return RC_BAD;
    }
    key.kind = type == EVP_PKEY_RSA ? JWS_KEY_RSA : JWS_KEY_P256;
    (void)snprintf(key.algorithm, sizeof(key.algorithm), "%s",
                   type == EVP_PKEY_RSA ? "RS256" : "ES256");
    add(set, &key);
    return RC_OK;
}

/* ---- a JWK */

static struct number
number_read(struct json_doc *doc, const struct json_value *jwk, const char *name)
{
    const struct json_value *value = json_doc_member(doc, jwk, name);
    const char *text = json_doc_text(doc, value);
    struct number number = {NULL, 0};

    if (text != NULL)
        number.bytes = (unsigned char *)base64url_decode(text, json_text_len(value), &number.len);
    return number;
}

static void
number_free(struct number *number)
{
    if (number->bytes != NULL)
        explicit_bzero(number->bytes, number->len);
    free(number->bytes);
}

/* Skips leading zeros, which some providers write. */
static struct number
without_zeros(struct number number)
{
    while (number.len > 0 && number.bytes[0] == 0) {
        number.bytes++;
        number.len--;
    }
    return number;
}

/* Writes the tag and length of DER before `at`; returns the new start. */
static unsigned char *
der_tag(unsigned char *at, unsigned char tag, size_t len)
{
    if (len < 0x80) {
        *--at = (unsigned char)len;
    } else {
        unsigned char count = 0;

        for (; len > 0; len >>= 8, count++)
            *--at = (unsigned char)len;
        *--at = (unsigned char)(0x80 | count);
    }
    *--at = tag;
    return at;
}

/* Writes a positive INTEGER before `at`; returns the new start. */
static unsigned char *
der_integer(unsigned char *at, struct number number)
{
    unsigned char *end = at;

    at -= number.len;
    memcpy(at, number.bytes, number.len);
    if ((at[0] & 0x80) != 0)
        *--at = 0;
    return der_tag(at, 0x02, (size_t)(end - at));
}

/* NULL: malformed, or too short, too long or weak. */
static EVP_PKEY *
rsa_read(struct json_doc *doc, const struct json_value *jwk)
{
    struct number modulus = number_read(doc, jwk, "n"), exponent = number_read(doc, jwk, "e");
    struct number n = without_zeros(modulus), e = without_zeros(exponent);
    /* The first bit of a modulus of 2048 bits is set. An exponent of 1 signs nothing. */
    bool is_valid = n.len >= RSA_BYTES_MIN && n.len <= RSA_BYTES_MAX &&
                    (n.len > RSA_BYTES_MIN || n.bytes[0] >= 0x80) &&
                    (n.bytes[n.len - 1] & 1) != 0 && e.len > 0 && e.len <= RSA_EXPONENT_MAX &&
                    (e.bytes[e.len - 1] & 1) != 0 && (e.len > 1 || e.bytes[0] > 1);
    EVP_PKEY *key = NULL;

    if (is_valid) {
        const size_t room = n.len + e.len + DER_ROOM;
        unsigned char *der = memory_new(room), *end = der + room;
        unsigned char *start = der_integer(end, e);
        const unsigned char *at;

        start = der_integer(start, n);
        start = der_tag(start, 0x30, (size_t)(end - start));
        at = start;
        key = d2i_PublicKey(EVP_PKEY_RSA, NULL, &at, (long)(end - start));
        free(der);
    }
    number_free(&modulus);
    number_free(&exponent);
    return key;
}

/*
 * A point is the SubjectPublicKeyInfo of its curve (RFC 5480), followed by both coordinates.
 * OpenSSL rejects a point that is not on the curve.
 */
static EVP_PKEY *
point_read(struct json_doc *doc, const struct json_value *jwk, size_t bytes)
{
    static const unsigned char P256[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
                                         0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
                                         0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04};
    static const unsigned char P384[] = {0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86,
                                         0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b,
                                         0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00, 0x04};
    const unsigned char *prefix = bytes == 32 ? P256 : P384;
    const size_t prefix_len = bytes == 32 ? sizeof(P256) : sizeof(P384);
    struct number x = number_read(doc, jwk, "x"), y = number_read(doc, jwk, "y");
    unsigned char der[sizeof(P256) + 2 * COORDINATE_MAX];
    const unsigned char *at = der;
    EVP_PKEY *key = NULL;

    if (x.bytes != NULL && y.bytes != NULL && x.len == bytes && y.len == bytes) {
        memcpy(der, prefix, prefix_len);
        memcpy(der + prefix_len, x.bytes, bytes);
        memcpy(der + prefix_len + bytes, y.bytes, bytes);
        key = d2i_PUBKEY(NULL, &at, (long)(prefix_len + 2 * bytes));
    }
    number_free(&x);
    number_free(&y);
    return key;
}

static EVP_PKEY *
ed25519_read(struct json_doc *doc, const struct json_value *jwk)
{
    struct number x = number_read(doc, jwk, "x");
    EVP_PKEY *key = x.bytes != NULL && x.len == 32
                        ? EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x.bytes, x.len)
                        : NULL;

    number_free(&x);
    return key;
}

static bool
text_is(const char *text, const char *wanted)
{
    return text != NULL && strcmp(text, wanted) == 0;
}

/* Whether `use` and `key_ops` allow to verify signatures. */
static bool
is_for_signatures(struct json_doc *doc, const struct json_value *jwk)
{
    const struct json_value *use = json_doc_member(doc, jwk, "use");
    const struct json_value *operations = json_doc_member(doc, jwk, "key_ops");
    const struct json_value *each = json_doc_first(doc, operations);

    if (use != NULL && !text_is(json_doc_text(doc, use), "sig"))
        return false;
    if (operations == NULL)
        return true;
    if (!json_is(operations, JSON_KIND_ARRAY))
        return false;
    for (; each != NULL; each = json_doc_next(doc, operations, each))
        if (text_is(json_doc_text(doc, each), "verify"))
            return true;
    return false;
}

/* Reads kid and alg. False: the key is skipped. */
static bool
read_names(struct json_doc *doc, const struct json_value *jwk, struct jws_key *key)
{
    const struct json_value *id = json_doc_member(doc, jwk, "kid");
    const struct json_value *algorithm = json_doc_member(doc, jwk, "alg");
    const char *name = json_doc_text(doc, algorithm);

    if (algorithm != NULL) {
        if (name == NULL || strlen(name) > JWS_ALGORITHM_MAX)
            return false;
        (void)snprintf(key->algorithm, sizeof(key->algorithm), "%s", name);
        if (!jws_key_fits(key, name))
            return false;
    }
    if (id != NULL) {
        if (!json_is(id, JSON_KIND_TEXT) || json_text_len(id) > ID_MAX)
            return false;
        key->id = memory_text(json_doc_text(doc, id), json_text_len(id));
    }
    return true;
}

/* Reads the key itself. False: the key is skipped. */
static bool
read_material(struct json_doc *doc, const struct json_value *jwk, bool allow_secrets,
              struct jws_key *key)
{
    const char *type = json_doc_text(doc, json_doc_member(doc, jwk, "kty"));
    const char *curve = json_doc_text(doc, json_doc_member(doc, jwk, "crv"));

    if (text_is(type, "oct") && allow_secrets) {
        struct number secret = number_read(doc, jwk, "k");

        key->kind = JWS_KEY_SECRET;
        if (secret.len >= KEY_SET_SECRET_MIN)
            key->mac = jws_mac_new(secret.bytes, secret.len);
        if (secret.bytes != NULL)
            explicit_bzero(secret.bytes, secret.len);
        free(secret.bytes);
        return key->mac != NULL;
    }
    if (text_is(type, "RSA")) {
        key->kind = JWS_KEY_RSA;
        key->public = rsa_read(doc, jwk);
    } else if (text_is(type, "EC") && text_is(curve, "P-256")) {
        key->kind = JWS_KEY_P256;
        key->public = point_read(doc, jwk, 32);
    } else if (text_is(type, "EC") && text_is(curve, "P-384")) {
        key->kind = JWS_KEY_P384;
        key->public = point_read(doc, jwk, 48);
    } else if (text_is(type, "OKP") && text_is(curve, "Ed25519")) {
        key->kind = JWS_KEY_ED25519;
        key->public = ed25519_read(doc, jwk);
    }
    ERR_clear_error(); /* a TLS connection would report a leftover error as its own */
    return key->public != NULL;
}

static void
add_jwk(struct key_set *set, struct json_doc *doc, const struct json_value *jwk, bool allow_secrets)
{
    struct jws_key key = {0};

    if (json_is(jwk, JSON_KIND_OBJECT) && is_for_signatures(doc, jwk) &&
        read_material(doc, jwk, allow_secrets, &key) && read_names(doc, jwk, &key)) {
        add(set, &key);
    } else {
        key_free(&key);
        set->skipped++;
    }
}

static enum rc
read_keys(struct key_set *set, struct json_doc *doc, bool allow_secrets,
          char error[KEY_SET_ERROR_MAX])
{
    const struct json_value *keys = json_doc_member(doc, json_doc_root(doc), "keys"), *each;

    if (!json_is(keys, JSON_KIND_ARRAY))
        return fail(error, "is not a JWK Set: no array \"keys\"");
    if (json_doc_count(doc, keys) > KEY_SET_KEYS_MAX)
        return fail(error, "has more than 100 keys");
    each = json_doc_first(doc, keys);
    for (; each != NULL; each = json_doc_next(doc, keys, each))
        add_jwk(set, doc, each, allow_secrets);
    return set->count > 0 ? RC_OK : fail(error, "has no usable key");
}

enum rc
key_set_add_jwks(struct key_set *set, const char *text, size_t len, bool allow_secrets,
                 char error[KEY_SET_ERROR_MAX])
{
    struct json_doc doc;
    struct json_doc_error fault;
    struct key_set added = {0};
    enum rc rc;

    if (len > KEY_SET_BYTES_MAX)
        return fail(error, "is larger than 256 kB");
    rc = json_doc_parse(&doc, text, len, false, &fault);
    if (rc == RC_OK)
        rc = read_keys(&added, &doc, allow_secrets, error);
    else
        (void)snprintf(error, KEY_SET_ERROR_MAX, "is not a JWK Set: %.100s", fault.text);
    json_doc_free(&doc);
    if (rc != RC_OK) {
        key_set_free(&added);
        return RC_BAD;
    }
    for (size_t i = 0; i < added.count; i++)
        add(set, &added.keys[i]);
    set->skipped += added.skipped;
    free(added.keys);
    return RC_OK;
}
