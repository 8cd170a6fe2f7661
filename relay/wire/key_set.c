/* key_set.c: reads the keys that verify tokens: JWK Sets, PEM and secrets. */
#include "wire/key_set.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/memory.h"
#include "wire/base64url.h"
#include "wire/json_doc.h"

#define RSA_BYTES_MIN (2048 / 8)
#define RSA_BYTES_MAX (8192 / 8)
#define RSA_EXPONENT_MAX 8
#define DER_ROOM 64 /* enough for the tags and lengths of an RSA key */
#define COORDINATE_MAX 48
#define ID_MAX 1024

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
