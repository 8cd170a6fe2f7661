/* public_key.c: checks that a PEM file contains a public key that can verify tokens. */
#include "base/public_key.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define KINDS "RSA, or EC on P-256"

/* Returns NID_undef if the curve has no name. */
static int
curve_of(EVP_PKEY *key)
{
    X509_PUBKEY *encoded = NULL;
    X509_ALGOR *algorithm = NULL;
    const void *curve = NULL;
    int type = V_ASN1_UNDEF, nid = NID_undef;

    if (X509_PUBKEY_set(&encoded, key) == 1 &&
        X509_PUBKEY_get0_param(NULL, NULL, NULL, &algorithm, encoded) == 1)
        X509_ALGOR_get0(NULL, &type, &curve, algorithm);
    if (type == V_ASN1_OBJECT)
        nid = OBJ_obj2nid(curve);
    X509_PUBKEY_free(encoded);
    return nid;
}

/* RS256 needs RSA and ES256 needs P-256 (RFC 7518, section 3.1). */
static const char *
kind_fault(EVP_PKEY *key, char fault[PUBLIC_KEY_FAULT_MAX])
{
    int kind = EVP_PKEY_base_id(key);
    bool is_ec = kind == EVP_PKEY_EC;
    int curve = is_ec ? curve_of(key) : NID_undef;

    if (kind == EVP_PKEY_RSA || curve == NID_X9_62_prime256v1)
        return NULL;
    (void)snprintf(fault, PUBLIC_KEY_FAULT_MAX,
                   "has an unsupported key type (%s%.40s), must be " KINDS, is_ec ? "EC on " : "",
                   OBJ_nid2sn(is_ec ? curve : kind));
    return fault;
}

const char *
public_key_error(const char *pem, size_t len, char fault[PUBLIC_KEY_FAULT_MAX])
{
    static char no_passphrase[] = ""; /* prevents a prompt of OpenSSL on the terminal */
    const char *wrong = "is not a public key in PEM, must be " KINDS;

    if (memmem(pem, len, "PRIVATE KEY-----", 16) != NULL)
        return "is a private key: the relay needs only the public key";
    if (memmem(pem, len, "-----BEGIN PUBLIC KEY-----", 26) == NULL ||
        memmem(pem, len, "-----END PUBLIC KEY-----", 24) == NULL)
        return "must name a PEM file with -----BEGIN PUBLIC KEY-----";

    BIO *bio = BIO_new_mem_buf(pem, (int)len);
    EVP_PKEY *key = PEM_read_bio_PUBKEY(bio, NULL, NULL, no_passphrase);

    if (key != NULL)
        wrong = kind_fault(key, fault);
    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error(); /* a TLS connection would report a leftover error as its own */
    return wrong;
}
