/* test_token.c: JSON web tokens are verified; forged tokens are rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/ecdsa.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include "base/memory.h"
#include "wire/base64url.h"
#include "wire/token.h"

#define NOW 1795230000
#define SECRET "0123456789abcdef0123456789abcdef"
#define GOOD "{\"sub\":\"u42\",\"exp\":1795230600}"

/* Keys used only by these tests. */
static const char RSA_PRIVATE[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCbIFCNDOhAaZ6t\n"
    "nq0uwb49s73KDf+FTXv0kyWdndS2KJY0BOirYGDUT8MsD8pQ4pG4msX4tJP+fVgY\n"
    "GIWMpuBLEM219HlQTkke6dPJDRWhTbaGDXFP+WCd8FTZbKZxYkDx95bElDx1rCKT\n"
    "YAPSvR7i+c9GrmCP0/VpY8x4p17wXn53LFQCklIS5gCv/UO1gvzIT2ShYHnn9cDO\n"
    "+qVZhxz6aJPM2egzxBp4upiG9A3RSp0P0yUecE13zg4RUwSJFehQ8lhkUZJS0p9k\n"
    "0+E3QCpkxV2oV7nkvbqyBliRVrGWkWgRX22Xw46j+ChFuqmoAcQcKj3pSOwmN4Lo\n"
    "2b6MhoJpAgMBAAECggEAJFpfDiMBdYDa9wCJwLyWBtMtraF4qUZWf2MRbF29qL+b\n"
    "rY6d8PV5059qk1OS+8AQ2rRoowc8bGX25FSwzVyZEPZb4uFrIZLrB1PQNhw7Hq09\n"
    "0i3pyU5dYj3dQIO6ALXAFwRI4IIFpiTkCGn2k2cPCy10MfHw/puzNhK1auv8L3N0\n"
    "FQkmYsbvwaz5vZFveHlTaslylQRJVVANTI1MxtHpHucK/DKGoIit6P9UZu/fIwlh\n"
    "199cKJr7E18WXHFIbWwbobuiIUELdeSw1Bc+x3s0OcpwRcB3KPKdiuGZsa0IEgHD\n"
    "oe09QDwa7L0dskfHkCzPyFij7P9aLnAUrshcZkNH9QKBgQDOhzvZgdP6PjIPHZJt\n"
    "BOw5a5FWMgQnCmjHG1pIe/ed0GI71M7aZMQtujo16rt6ucLI+JlLGl7tAr3ovsr5\n"
    "ynkh6nQzbclXtQctkLNzLgTsZAd6NA8uPis5KFwi+rcWqrmnAqHLxkJlBtiIE6SG\n"
    "ZQYhvlcFd81PsCUtnlwtxUa1ZQKBgQDASP7iuW2N3URFEoh9yh21oTGyXeTojksn\n"
    "Thz61Ns+bTNWj4Kf6Wfrv9oRY2F7b8PrsG1z6+eLQ74DAFYYxq3tEeZHhNIIp0Ss\n"
    "85VMqn3iQ2vuqSGa5C/toztpgI8Q2toZEH468dCV6oxgcbxdC0MTkHP1kiT6POcD\n"
    "g1rFYuwatQKBgFY1JMpZ4v3l0Ed29JQFJgWh3Py5y/nv4mSaCkmPVYDOZvLKlb2b\n"
    "qjfcMEgpPzCvMZtqCbLLwyvzpQnt+hPibEW38+EzxoOR0Pk4GW/OmceCyYw9Bskq\n"
    "sigdrLf9J0eS5APOmXLRww0gmmnSqS5gJPsY1II3y7+jqyErpRaF7knxAoGAG+e8\n"
    "Dd1JN+hfqwKIinDVpPFSzAbyXImiAH9Gl2RiuQmSBMLo+xodecoq9JEOqaJLtZ2y\n"
    "FLusq7pWDgtzcz8KKLiLSd/Nt3HG9q6XATxQ7pBITqd++AKbrgodai89E/4e3rpV\n"
    "B2rmkYsreienZX1n66PwIDhoY2SJRio+9xxnFW0CgYEAlvf1pBo4mbQwU9bn2+t7\n"
    "B8H4sd3NSy/syFTOWcwIXxRnJpUYTVtEkRiEE0TWaHaCSD0jSrXEFcCCy9Wn7Xvl\n"
    "LKA0IYqQy214prq6rM7h6E1xAIuKtQAYN7JnqtVT0hqeTOUGqaRKi/0+xrNPgeEx\n"
    "sHRGpKGlvSvwOXOBFLdabmg=\n"
    "-----END PRIVATE KEY-----\n";
static const char RSA_PUBLIC[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAmyBQjQzoQGmerZ6tLsG+\n"
    "PbO9yg3/hU179JMlnZ3UtiiWNAToq2Bg1E/DLA/KUOKRuJrF+LST/n1YGBiFjKbg\n"
    "SxDNtfR5UE5JHunTyQ0VoU22hg1xT/lgnfBU2WymcWJA8feWxJQ8dawik2AD0r0e\n"
    "4vnPRq5gj9P1aWPMeKde8F5+dyxUApJSEuYAr/1DtYL8yE9koWB55/XAzvqlWYcc\n"
    "+miTzNnoM8QaeLqYhvQN0UqdD9MlHnBNd84OEVMEiRXoUPJYZFGSUtKfZNPhN0Aq\n"
    "ZMVdqFe55L26sgZYkVaxlpFoEV9tl8OOo/goRbqpqAHEHCo96UjsJjeC6Nm+jIaC\n"
    "aQIDAQAB\n"
    "-----END PUBLIC KEY-----\n";
static const char EC_PRIVATE[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgkVctjAPIaoX8KQwi\n"
    "qVRF+X00mqfYDoA88MIQq+rNvTmhRANCAASMsfTheSRgzamuV2jN/xMVDRznQ1XO\n"
    "4R3S9KfxZs76BnVLpd4kRhNXEDqKqR6+uhZE7TCXeoc8g9/o3rbIQsSu\n"
    "-----END PRIVATE KEY-----\n";
static const char EC_PUBLIC[] = "-----BEGIN PUBLIC KEY-----\n"
                                "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEjLH04XkkYM2prldozf8TFQ0c50NV\n"
                                "zuEd0vSn8WbO+gZ1S6XeJEYTVxA6iqkevroWRO0wl3qHPIPf6N62yELErg==\n"
                                "-----END PUBLIC KEY-----\n";

static struct token_error error;

/* Rules with one issuer, that of [auth]. They are valid until the end of the program. */
static struct token_rules
new_rules(void)
{
    static struct token_issuer issuers[128];
    static size_t count;

    assert_true(count < 128);
    issuers[count] = (struct token_issuer){.is_default = true, .publish = true, .admin = true};
    return (struct token_rules){.issuers = &issuers[count++], .count = 1, .leeway_s = 5};
}

static struct token_rules
secret_rules(void)
{
    static struct token_rules rules;

    if (rules.count == 0) {
        rules = new_rules();
        key_set_add_secret(&rules.issuers->keys, SECRET, strlen(SECRET));
    }
    rules.issuers->issuer = rules.issuers->audience = NULL;
    return rules;
}

static struct token_rules
pem_rules(const char *pem)
{
    struct token_rules rules = new_rules();

    assert_int_equal(key_set_add_pem(&rules.issuers->keys, pem, strlen(pem)), RC_OK);
    return rules;
}

static size_t
add_base64url(char *out, const void *bytes, size_t len)
{
    base64url_encode(bytes, len, out);
    return BASE64URL_LEN(len);
}

/* Signs with a private key in PEM; returns the length of the signature. */
static size_t
sign_private(const char *text, size_t len, const char *pem, const EVP_MD *digest,
             unsigned char signature[512])
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t signature_len = 512;

    assert_non_null(key);
    assert_int_equal(EVP_DigestSignInit(context, NULL, digest, NULL, key), 1);
    assert_int_equal(
        EVP_DigestSign(context, signature, &signature_len, (const unsigned char *)text, len), 1);
    if (EVP_PKEY_base_id(key) == EVP_PKEY_EC) {
        const unsigned char *at = signature;
        ECDSA_SIG *numbers = d2i_ECDSA_SIG(NULL, &at, (long)signature_len);

        assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_r(numbers), signature, 32), 32);
        assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_s(numbers), signature + 32, 32), 32);
        ECDSA_SIG_free(numbers);
        signature_len = 64;
    }
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    BIO_free(bio);
    return signature_len;
}

/* Returns a token. `key` is a secret, or a private key in PEM. The caller frees the result. */
static char *
sign(const char *alg, const char *key, const char *claims)
{
    const EVP_MD *digest = strstr(alg, "384") != NULL   ? EVP_sha384()
                           : strstr(alg, "512") != NULL ? EVP_sha512()
                                                        : EVP_sha256();
    unsigned char signature[512];
    unsigned hmac_len = 0;
    size_t signature_len = 0, len;
    char header[64], *text = memory_new(16384);

    snprintf(header, sizeof(header), "{\"typ\":\"JWT\",\"alg\":\"%s\"}", alg);
    len = add_base64url(text, header, strlen(header));
    text[len++] = '.';
    len += add_base64url(text + len, claims, strlen(claims));
    if (alg[0] == 'H') {
        assert_non_null(HMAC(digest, key, (int)strlen(key), (const unsigned char *)text, len,
                             signature, &hmac_len));
        signature_len = hmac_len;
    } else if (key != NULL) {
        signature_len = sign_private(text, len, key, digest, signature);
    }
    text[len++] = '.';
    len += add_base64url(text + len, signature, signature_len);
    text[len] = '\0';
    return text;
}

/* Verifies the token at the time NOW; `error` receives the message. */
static enum rc
verify_text(const struct token_rules *rules, const char *text)
{
    struct token token = {0};
    enum rc rc;

    error.text[0] = '\0';
    rc = token_verify(rules, text, strlen(text), NOW, &token, &error);
    if (rc != RC_OK) {
        assert_null(token.user); /* unchanged on failure */
        assert_true(strlen(error.text) > 0);
    }
    token_free(&token);
    return rc;
}

static enum rc
verify(const struct token_rules *rules, const char *alg, const char *key, const char *claims)
{
    char *text = sign(alg, key, claims);
    enum rc rc = verify_text(rules, text);

    free(text);
    return rc;
}

/* Verifies a token whose signature was changed. */
static enum rc
verify_broken(const struct token_rules *rules, const char *alg, const char *key)
{
    char *text = sign(alg, key, GOOD);
    char *signature = strrchr(text, '.') + 1;
    enum rc rc;

    signature[0] = signature[0] == 'A' ? 'B' : 'A';
    rc = verify_text(rules, text);
    free(text);
    return rc;
}

static enum rc
verify_claims(const char *claims)
{
    struct token_rules rules = secret_rules();

    return verify(&rules, "HS256", SECRET, claims);
}

static void
claims_are_parsed(void **state)
{
    struct token_rules rules = secret_rules();
    struct token token = {0};
    char *text =
        sign("HS256", SECRET,
             "{\"sub\":\"u42\",\"exp\":1795230600.9,\"publish\":true,"
             "\"groups\":{\"STRUCTURE\":[\"s1\",\"s2\"],\"NONE\":[],\"ROLE\":[\"admin\"]}}");

    (void)state;
    assert_int_equal(token_verify(&rules, text, strlen(text), NOW, &token, &error), RC_OK);
    assert_string_equal(token.user, "u42");
    assert_int_equal(token.expires_s, 1795230600);
    assert_true(token.publish);
    assert_int_equal(token.group_count, 3);
    for (size_t i = 0; i < token.group_count; i++) {
        if (strcmp(token.groups[i].target, "admin") == 0)
            assert_string_equal(token.groups[i].audience, "ROLE");
        else
            assert_string_equal(token.groups[i].audience, "STRUCTURE");
    }
    token_free(&token);
    assert_null(token.user);
    token_free(&token);
    free(text);
}

static void
only_the_configured_key_verifies(void **state)
{
    struct token_rules secret = secret_rules();
    struct token_rules rsa = pem_rules(RSA_PUBLIC);
    struct token_rules ec = pem_rules(EC_PUBLIC);

    (void)state;
    assert_int_equal(verify(&secret, "HS256", SECRET, GOOD), RC_OK);
    assert_int_equal(verify(&rsa, "RS256", RSA_PRIVATE, GOOD), RC_OK);
    assert_int_equal(verify(&ec, "ES256", EC_PRIVATE, GOOD), RC_OK);
    assert_int_equal(verify(&secret, "HS256", "another secret of enough bytes!!", GOOD), RC_BAD);
    assert_int_equal(verify(&rsa, "ES256", EC_PRIVATE, GOOD), RC_BAD);
    assert_int_equal(verify(&ec, "RS256", RSA_PRIVATE, GOOD), RC_BAD);
    secret = new_rules();
    assert_int_equal(verify(&secret, "HS256", SECRET, GOOD), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_ALGORITHM);
    key_set_add_secret(&secret.issuers->keys, "", 0);
    assert_int_equal(verify(&secret, "HS256", "", GOOD), RC_BAD);
    /* The fault is that of the key with the token's algorithm. */
    assert_int_equal(key_set_add_pem(&ec.issuers->keys, RSA_PUBLIC, strlen(RSA_PUBLIC)), RC_OK);
    assert_int_equal(verify(&ec, "RS256", RSA_PRIVATE, GOOD), RC_OK);
    assert_int_equal(key_set_add_pem(&rsa.issuers->keys, EC_PUBLIC, strlen(EC_PUBLIC)), RC_OK);
    assert_int_equal(verify_broken(&rsa, "RS256", RSA_PRIVATE), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_SIGNATURE);
    assert_int_equal(verify_broken(&rsa, "ES256", EC_PRIVATE), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_SIGNATURE);
    key_set_add_secret(&secret.issuers->keys, SECRET, strlen(SECRET));
    assert_int_equal(verify(&secret, "HS256", SECRET, GOOD), RC_OK);
}

static void
other_algorithms_are_rejected(void **state)
{
    struct token_rules secret = secret_rules();
    struct token_rules rsa = pem_rules(RSA_PUBLIC);
    struct token_rules ec = pem_rules(EC_PUBLIC);

    (void)state;
    assert_int_equal(verify(&secret, "none", NULL, GOOD), RC_BAD);
    assert_int_equal(verify(&rsa, "none", NULL, GOOD), RC_BAD);
    assert_int_equal(verify(&secret, "HS384", SECRET, GOOD), RC_BAD);
    assert_int_equal(verify(&secret, "HS512", SECRET, GOOD), RC_BAD);
    assert_int_equal(verify(&rsa, "RS512", RSA_PRIVATE, GOOD), RC_BAD);
    /* Algorithm confusion: the public key is used as an HMAC secret. */
    assert_int_equal(verify(&rsa, "HS256", RSA_PUBLIC, GOOD), RC_BAD);
    assert_non_null(strstr(error.text, "algorithm"));
    assert_int_equal(verify(&ec, "HS256", EC_PUBLIC, GOOD), RC_BAD);
    assert_non_null(strstr(error.text, "algorithm"));
}

static void
modified_tokens_are_rejected(void **state)
{
    struct token_rules rules = secret_rules();
    char *text = sign("HS256", SECRET, GOOD);
    char *other = sign("HS256", SECRET, "{\"sub\":\"root\",\"exp\":1795230600}");
    char mixed[1024];
    size_t head = strcspn(text, ".") + 1;
    size_t body = strcspn(other + head, ".");

    (void)state;
    memcpy(mixed, text, head);
    memcpy(mixed + head, other + head, body);
    snprintf(mixed + head + body, sizeof(mixed) - head - body, "%s", strrchr(text, '.'));
    assert_int_equal(verify_text(&rules, mixed), RC_BAD);
    *strrchr(text, '.') = '\0';
    assert_int_equal(verify_text(&rules, text), RC_BAD);
    snprintf(mixed, sizeof(mixed), "%s.", text);
    assert_int_equal(verify_text(&rules, mixed), RC_BAD);
    snprintf(mixed, sizeof(mixed), "%s!x", other);
    assert_int_equal(verify_text(&rules, mixed), RC_BAD);
    snprintf(mixed, sizeof(mixed), "%s.%s", other, "aa");
    assert_int_equal(verify_text(&rules, mixed), RC_BAD);
    free(text);
    free(other);
}

/* A lenient base64 decoder would still accept the signature. */
static void
bytes_after_the_signature_are_rejected(void **state)
{
    struct token_rules rules = pem_rules(RSA_PUBLIC);
    char *text = sign("RS256", RSA_PRIVATE, GOOD);
    char longer[2048];

    (void)state;
    snprintf(longer, sizeof(longer), "%s!x", text);
    assert_int_equal(verify_text(&rules, text), RC_OK);
    assert_int_equal(verify_text(&rules, longer), RC_BAD);
    free(text);
}

static void
malformed_tokens_are_rejected(void **state)
{
    static const char *const TEXTS[] = {
        "",           ".",     "..",   "...",         "a",
        "a.b",        "a.b.c", "a..c", "e30.e30.e30", "bm90anNvbg.bm90anNvbg.bm90anNvbg",
        "W10.W10.W10"};
    struct token_rules rules = secret_rules();
    char longest[TOKEN_BYTES_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++)
        assert_int_equal(verify_text(&rules, TEXTS[i]), RC_BAD);
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(verify_text(&rules, longest), RC_BAD);
    assert_non_null(strstr(error.text, "8192"));
}

static void
expired_tokens_are_distinguished_from_invalid_tokens(void **state)
{
    struct token_rules rules = secret_rules();

    (void)state;
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":1795229996}"), RC_OK); /* leeway */
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":1795229995}"), RC_CLOSED);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":0}"), RC_CLOSED);
    assert_int_equal(
        verify(&rules, "HS256", "another secret of enough bytes!!", "{\"sub\":\"u\",\"exp\":1}"),
        RC_BAD);
    assert_int_equal(verify_claims("{\"exp\":1}"), RC_BAD); /* no sub */
}

static void
exp_and_nbf_must_be_valid_times(void **state)
{
    (void)state;
    assert_int_equal(verify_claims("{\"sub\":\"u\"}"), RC_BAD);
    assert_non_null(strstr(error.text, "no exp"));
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":\"1795230600\"}"), RC_BAD);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":true}"), RC_BAD);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":null}"), RC_BAD);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":-1}"), RC_BAD);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":1e300}"), RC_BAD);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":9223372036854775807}"), RC_BAD);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":1795230600,\"nbf\":1795230005}"), RC_OK);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":1795230600,\"nbf\":1795230006}"),
                     RC_BAD);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":1795230600,\"nbf\":\"0\"}"), RC_BAD);
}

static void
issuer_and_audience_are_checked_if_configured(void **state)
{
    struct token_rules rules = secret_rules();

    (void)state;
#define WITH(claims) verify(&rules, "HS256", SECRET, "{\"sub\":\"u\",\"exp\":1795230600" claims "}")
    assert_int_equal(WITH(",\"iss\":\"any\""), RC_OK);
    assert_int_equal(WITH(",\"aud\":\"any\""), RC_BAD);
    assert_int_equal(WITH(",\"aud\":[]"), RC_BAD);
    rules.issuers->issuer = "https://id.example";
    assert_int_equal(WITH(""), RC_BAD);
    assert_int_equal(WITH(",\"iss\":\"https://id.example.evil\""), RC_BAD);
    assert_int_equal(WITH(",\"iss\":[\"https://id.example\"]"), RC_BAD);
    assert_int_equal(WITH(",\"iss\":\"https://id.example\""), RC_OK);
    rules.issuers->issuer = NULL;
    rules.issuers->audience = "clairon";
    assert_int_equal(WITH(""), RC_BAD);
    assert_int_equal(WITH(",\"aud\":\"other\""), RC_BAD);
    assert_int_equal(WITH(",\"aud\":[\"other\",1]"), RC_BAD);
    assert_int_equal(WITH(",\"aud\":[]"), RC_BAD);
    assert_int_equal(WITH(",\"aud\":\"clairon\""), RC_OK);
    assert_int_equal(WITH(",\"aud\":[\"other\",\"clairon\"]"), RC_OK);
#undef WITH
}

static void
sub_must_be_a_valid_user(void **state)
{
    char claims[512];

    (void)state;
    assert_int_equal(verify_claims("{\"exp\":1795230600}"), RC_BAD);
    assert_int_equal(verify_claims("{\"exp\":1795230600,\"sub\":\"\"}"), RC_BAD);
    assert_int_equal(verify_claims("{\"exp\":1795230600,\"sub\":42}"), RC_BAD);
    assert_int_equal(verify_claims("{\"exp\":1795230600,\"sub\":[\"u\"]}"), RC_BAD);
    snprintf(claims, sizeof(claims), "{\"exp\":1795230600,\"sub\":\"%0255d\"}", 1);
    assert_int_equal(verify_claims(claims), RC_OK);
    snprintf(claims, sizeof(claims), "{\"exp\":1795230600,\"sub\":\"%0256d\"}", 1);
    assert_int_equal(verify_claims(claims), RC_BAD);
}

static enum rc
verify_groups(const char *groups)
{
    char claims[4096];

    snprintf(claims, sizeof(claims), "{\"sub\":\"u\",\"exp\":1795230600,\"groups\":%s}", groups);
    return verify_claims(claims);
}

static enum rc
verify_group_count(int count)
{
    struct buffer groups;
    enum rc rc;

    buffer_init(&groups, 4000);
    assert_int_equal(buffer_addf(&groups, "{\"A\":[\"1\"],\"B\":[\"1\""), RC_OK);
    for (int i = 2; i < count; i++)
        assert_int_equal(buffer_addf(&groups, ",\"%d\"", i), RC_OK);
    assert_int_equal(buffer_addf(&groups, "]}"), RC_OK);
    rc = verify_groups(groups.bytes);
    buffer_free(&groups);
    return rc;
}

static void
invalid_groups_are_rejected(void **state)
{
    char groups[1024];

    (void)state;
    assert_int_equal(verify_groups("{}"), RC_OK);
    assert_int_equal(verify_groups("{\"USER\":[\"u2\"]}"), RC_BAD);
    assert_int_equal(verify_groups("{\"user\":[\"u2\"]}"), RC_BAD);
    assert_int_equal(verify_groups("{\"ALL\":[]}"), RC_BAD);
    assert_int_equal(verify_groups("{\"\":[\"x\"]}"), RC_BAD);
    assert_int_equal(verify_groups("{\"ORG:42\":[\"x\"]}"), RC_BAD);
    assert_int_equal(verify_groups("{\"4ORG\":[\"x\"]}"), RC_BAD);
    assert_int_equal(verify_groups("[\"S\"]"), RC_OK); /* of the kind ROLE */
    assert_int_equal(verify_groups("[\"S\",7]"), RC_BAD);
    assert_int_equal(verify_groups("\"S\""), RC_OK); /* ignored */
    assert_int_equal(verify_groups("null"), RC_OK);  /* absent */
    assert_int_equal(verify_groups("{\"S\":\"s1\"}"), RC_BAD);
    assert_int_equal(verify_groups("{\"S\":[\"\"]}"), RC_BAD);
    assert_int_equal(verify_groups("{\"S\":[\"s1\",7]}"), RC_BAD);
    snprintf(groups, sizeof(groups), "{\"A%062d\":[\"%0255d\"]}", 1, 1);
    assert_int_equal(verify_groups(groups), RC_OK);
    snprintf(groups, sizeof(groups), "{\"A%063d\":[\"s\"]}", 1);
    assert_int_equal(verify_groups(groups), RC_BAD);
    snprintf(groups, sizeof(groups), "{\"S\":[\"%0256d\"]}", 1);
    assert_int_equal(verify_groups(groups), RC_BAD);
    assert_int_equal(verify_group_count(TOKEN_GROUPS_MAX), RC_OK);
    assert_int_equal(verify_group_count(TOKEN_GROUPS_MAX + 1), RC_BAD);
}

static void
publish_and_admin_require_true(void **state)
{
    static const char *const values[] = {"\"yes\"", "\"true\"", "1",    "[true]", "{\"a\":1}",
                                         "null",    "false",    "\"\"", "0",      "[]"};

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct token token = {0};
        char claims[128];

        snprintf(claims, sizeof(claims),
                 "{\"sub\":\"u\",\"exp\":1795230600,\"publish\":%s,\"admin\":%s}", values[i],
                 values[i]);
        assert_int_equal(token_parse(claims, strlen(claims), 1795230000, &token, &error), RC_OK);
        assert_false(token.publish);
        assert_false(token.admin);
        token_free(&token);
    }
}

/* Whether a token with this claim may publish to users with the topic app.a. */
static bool
may_publish(const char *publish)
{
    struct token token = {0}, again = {0};
    struct buffer text;
    char claims[256];
    bool is_allowed;

    snprintf(claims, sizeof(claims), "{\"sub\":\"u\",\"exp\":1795230600,\"publish\":%s}", publish);
    assert_int_equal(token_parse(claims, strlen(claims), NOW, &token, &error), RC_OK);
    is_allowed = token_may_publish(&token, "USER", "app.a");
    /* A ticket keeps the limits. */
    buffer_init(&text, 4096);
    assert_int_equal(token_write(&token, &text), RC_OK);
    assert_int_equal(token_parse(text.bytes, text.len, NOW, &again, &error), RC_OK);
    assert_int_equal(token_may_publish(&again, "USER", "app.a"), is_allowed);
    buffer_free(&text);
    token_free(&again);
    again = token_copy(&token);
    assert_int_equal(token_may_publish(&again, "USER", "app.a"), is_allowed);
    token_free(&again);
    token_free(&token);
    return is_allowed;
}

static void
publish_may_be_limited(void **state)
{
    static const char *const allowed[] = {"true",
                                          "{}",
                                          "{\"audiences\":[\"ROLE\",\"USER\"]}",
                                          "{\"topics\":[\"app.*\"]}",
                                          "{\"topics\":[\"app.a\"],\"audiences\":[\"USER\"]}",
                                          "{\"topics\":[\"*\"]}"};
    static const char *const denied[] = {"false",
                                         "[]",
                                         "{\"audiences\":[]}",
                                         "{\"audiences\":[\"ROLE\"]}",
                                         "{\"audiences\":[\"USE*\"]}",
                                         "{\"audiences\":\"USER\"}",
                                         "{\"audiences\":null}",
                                         "{\"audiences\":[\"USER\",1]}",
                                         "{\"topics\":[\"app.b\",\"app\"]}",
                                         "{\"topics\":[\"app.*\"],\"audiences\":[]}",
                                         "{\"topics\":[\"app.*\"],\"other\":[]}"};

    (void)state;
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
        assert_true(may_publish(allowed[i]));
    for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
        assert_false(may_publish(denied[i]));
}

static void
written_token_can_be_parsed(void **state)
{
    struct token_group groups[] = {{"ROLE", "a\"b"}, {"TEAM", "x"}, {"ROLE", "c"}};
    struct token token = {.user = "u\\42",
                          .expires_s = NOW + 60,
                          .groups = groups,
                          .group_count = 3,
                          .publish = true};
    struct token read = {0};
    struct buffer text;

    (void)state;
    buffer_init(&text, 4096);
    assert_int_equal(token_write(&token, &text), RC_OK);
    assert_int_equal(token_parse(text.bytes, text.len, NOW, &read, &error), RC_OK);
    assert_string_equal(read.user, "u\\42");
    assert_int_equal(read.expires_s, NOW + 60);
    assert_true(read.publish);
    assert_false(read.admin);
    assert_int_equal(read.group_count, 3);
    for (size_t i = 0; i < 3; i++) {
        bool is_team = strcmp(read.groups[i].audience, "TEAM") == 0;
        assert_true(strcmp(read.groups[i].target, "x") == 0 ? is_team : !is_team);
    }
    token_free(&read);
    buffer_clear(&text);
    assert_int_equal(token_write_groups(&token, &text), RC_OK);
    assert_string_equal(text.bytes, "{\"ROLE\":[\"a\\\"b\",\"c\"],\"TEAM\":[\"x\"]}");
    buffer_clear(&text);
    assert_int_equal(token_write(&token, &text), RC_OK);
    assert_int_equal(token_parse(text.bytes, text.len, NOW + 60, &read, &error), RC_CLOSED);
    assert_int_equal(token_parse("[]", 2, NOW, &read, &error), RC_BAD);
    assert_int_equal(token_parse("", 0, NOW, &read, &error), RC_BAD);
    assert_null(read.user);
    buffer_free(&text);
}

/* Verifies a token of these parts. */
static enum rc
verify_parts(const char *header, const char *claims)
{
    struct token_rules rules = secret_rules();
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_len = 0;
    char text[1024];
    size_t len = add_base64url(text, header, strlen(header));

    text[len++] = '.';
    len += add_base64url(text + len, claims, strlen(claims));
    assert_non_null(HMAC(EVP_sha256(), SECRET, (int)strlen(SECRET), (const unsigned char *)text,
                         len, digest, &digest_len));
    text[len++] = '.';
    len += add_base64url(text + len, digest, digest_len);
    text[len] = '\0';
    return verify_text(&rules, text);
}

static enum rc
verify_header(const char *header)
{
    return verify_parts(header, GOOD);
}

static void
crit_header_is_rejected(void **state)
{
    (void)state;
    assert_int_equal(verify_header("{\"alg\":\"HS256\",\"crit\":[\"exp\"]}"), RC_BAD);
    assert_non_null(strstr(error.text, "(crit)"));
}

static void
typ_is_that_of_a_jwt_or_an_access_token(void **state)
{
    (void)state;
    assert_int_equal(verify_header("{\"alg\":\"HS256\",\"typ\":\"JWT\"}"), RC_OK);
    assert_int_equal(verify_header("{\"alg\":\"HS256\",\"typ\":\"jwt\"}"), RC_OK);
    assert_int_equal(verify_header("{\"alg\":\"HS256\",\"typ\":\"at+jwt\"}"), RC_OK);
    assert_int_equal(verify_header("{\"alg\":\"HS256\",\"typ\":\"Application/AT+JWT\"}"), RC_OK);
    assert_int_equal(verify_header("{\"alg\":\"HS256\",\"typ\":null}"), RC_OK);
    assert_int_equal(verify_header("{\"alg\":\"HS256\",\"typ\":\"dpop+jwt\"}"), RC_BAD);
    assert_non_null(strstr(error.text, "typ"));
    assert_int_equal(verify_header("{\"alg\":\"HS256\",\"typ\":7}"), RC_BAD);
    assert_int_equal(verify_header("{\"alg\":\"HS256\",\"typ\":\"\"}"), RC_BAD);
}

static void
null_claims_are_absent(void **state)
{
    (void)state;
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":1795230600,\"nbf\":null,\"aud\":null,"
                                   "\"groups\":null,\"publish\":null}"),
                     RC_OK);
    assert_int_equal(verify_claims("{\"sub\":null,\"exp\":1795230600}"), RC_BAD);
    assert_non_null(strstr(error.text, "sub"));
}

static void
repeated_members_are_rejected(void **state)
{
    (void)state;
    assert_int_equal(verify_header("{\"alg\":\"HS256\",\"alg\":\"HS256\"}"), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_MALFORMED);
    assert_int_equal(verify_parts("{\"alg\":\"HS256\"}", "{\"sub\":\"u\",\"exp\":1795230600,"
                                                         "\"a\":{\"b\":1,\"b\":2}}"),
                     RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_MALFORMED);
}

static void
faults_are_distinguished(void **state)
{
    struct token_rules rules = secret_rules();
    struct token_rules rsa = pem_rules(RSA_PUBLIC);

    (void)state;
    assert_int_equal(verify_text(&rules, "e30.e30.AA"), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_MALFORMED);
    assert_int_equal(verify(&rsa, "HS256", SECRET, GOOD), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_ALGORITHM);
    assert_int_equal(verify(&rsa, "ES256", EC_PRIVATE, GOOD), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_ALGORITHM);
    assert_int_equal(verify(&rules, "HS256", "another secret of enough bytes!!", GOOD), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_SIGNATURE);
    assert_string_equal(error.text, TOKEN_BAD_SIGNATURE);
    assert_int_equal(verify_claims("{\"exp\":1795230600}"), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_CLAIMS);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":179523060000000000000}"), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_MALFORMED);
    assert_non_null(strstr(error.text, "out of range"));
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":1}"), RC_CLOSED);
    assert_int_equal(error.fault, TOKEN_FAULT_EXPIRED);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":1795230600,\"nbf\":1795230600}"),
                     RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_EARLY);
    assert_int_equal(verify_claims("{\"sub\":\"u\",\"exp\":1795230600,\"aud\":\"x\"}"), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_AUDIENCE);
    rules.issuers->issuer = "us";
    assert_int_equal(verify(&rules, "HS256", SECRET, GOOD), RC_BAD);
    assert_int_equal(error.fault, TOKEN_FAULT_ISSUER);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crit_header_is_rejected),
        cmocka_unit_test(typ_is_that_of_a_jwt_or_an_access_token),
        cmocka_unit_test(null_claims_are_absent),
        cmocka_unit_test(repeated_members_are_rejected),
        cmocka_unit_test(faults_are_distinguished),
        cmocka_unit_test(claims_are_parsed),
        cmocka_unit_test(only_the_configured_key_verifies),
        cmocka_unit_test(other_algorithms_are_rejected),
        cmocka_unit_test(modified_tokens_are_rejected),
        cmocka_unit_test(bytes_after_the_signature_are_rejected),
        cmocka_unit_test(malformed_tokens_are_rejected),
        cmocka_unit_test(expired_tokens_are_distinguished_from_invalid_tokens),
        cmocka_unit_test(exp_and_nbf_must_be_valid_times),
        cmocka_unit_test(issuer_and_audience_are_checked_if_configured),
        cmocka_unit_test(sub_must_be_a_valid_user),
        cmocka_unit_test(invalid_groups_are_rejected),
        cmocka_unit_test(publish_and_admin_require_true),
        cmocka_unit_test(publish_may_be_limited),
        cmocka_unit_test(written_token_can_be_parsed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
