/*
 * test_key_set.c: keys of JWK Sets verify tokens of their issuer alone, and claims are read by the
 * settings. Vectors of RFC 7515, 7517, 7519, 7520 and 8037.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gate/http/auth.h"
#include "wire/token.h"

#include "tests/unit/wire/tokens.h"

#define NOW 1795230000
#define KEYCLOAK "https://sso.example.org/realms/app"

static char reason[KEY_SET_ERROR_MAX];
static struct token_error error;
static struct token token;
static struct token_issuer issuers[3];
static struct token_rules rules;

static int
tear_down(void **state)
{
    (void)state;
    token_free(&token);
    for (size_t i = 0; i < 3; i++) {
        key_set_free(&issuers[i].keys);
        key_set_free(&issuers[i].fetched);
        issuers[i] = (struct token_issuer){.issuer = NULL};
    }
    return 0;
}

static int
set_up(void **state)
{
    (void)tear_down(state);
    issuers[0].is_default = true;
    rules = (struct token_rules){.issuers = issuers, .count = 1, .leeway_s = 5};
    return key_set_add_jwks(&issuers[0].keys, JWKS, sizeof(JWKS) - 1, true, reason) == RC_OK ? 0
                                                                                             : -1;
}

static enum rc
verify(const char *text)
{
    token_free(&token);
    error.text[0] = '\0';
    return token_verify(&rules, text, strlen(text), NOW, &token, &error);
}

static void
expect_fault(const char *text, enum token_fault fault)
{
    assert_int_equal(verify(text), RC_BAD);
    assert_int_equal(error.fault, fault);
}

/* Whether the only key of the set verifies the signature. */
static bool
is_signed_by(const char *jwk, const char *algorithm, const char *text)
{
    struct key_set set = {0};
    char keys[2048];
    struct jws jws;
    bool is_valid;

    snprintf(keys, sizeof(keys), "{\"keys\":[%s]}", jwk);
    assert_int_equal(key_set_add_jwks(&set, keys, strlen(keys), true, reason), RC_OK);
    assert_int_equal(set.count, 1);
    assert_true(jws_split(text, strlen(text), &jws));
    is_valid = jws_verify(&jws, algorithm, &set.keys[0]);
    key_set_free(&set);
    return is_valid;
}

/* The claims of RFC 7519, section 3.1, which are those of RFC 7515, appendix A. */
#define RFC_CLAIMS                                                                                 \
    ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnV" \
    "lfQ."
#define RFC_7515_A1_KEY                                                                            \
    "{\"kty\":\"oct\",\"k\":\"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS"  \
    "4hcgUuTwjAzZr1Z9CAow\"}"
#define RFC_7515_A1                                                                                \
    "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9" RFC_CLAIMS                                          \
    "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
#define RFC_7515_A2_KEY                                                                            \
    "{\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8"   \
    "W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2j"   \
    "Z47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmt"   \
    "dVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2"   \
    "PAcDTW9gb54h4FRWyuXpoQ\"}"
#define RFC_7515_A2                                                                                \
    "eyJhbGciOiJSUzI1NiJ9" RFC_CLAIMS                                                              \
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp"  \
    "5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMH"  \
    "lb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w"  \
    "9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
#define RFC_7515_A3_KEY                                                                            \
    "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","     \
    "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}"
#define RFC_7515_A3                                                                                \
    "eyJhbGciOiJFUzI1NiJ9" RFC_CLAIMS                                                              \
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
#define RFC_7520_KEY                                                                               \
    "{\"kty\":\"RSA\",\"kid\":\"bilbo.baggins@hobbiton.example\",\"use\":\"sig\",\"e\":\"AQAB\","  \
    "\"n\":\"n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0VEi"  \
    "ZQHz_AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHY"  \
    "pPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtIQbS0FVbb9k3-tVTU4fg_"  \
    "3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gHdrNP5zw\"}"
#define RFC_7520_PS384                                                                             \
    "eyJhbGciOiJQUzM4NCIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9.SXTigJlzIGEgZGFuZ2"  \
    "Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aGUgcm9hZCwgYW" \
    "5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IG" \
    "JlIHN3ZXB0IG9mZiB0by4.cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid" \
    "6VrklHkqsGqDqHCdP6O8TTB5dDDItllVo6_1OLPpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8Zny" \
    "PEgVFn442ZdNqiVJRmBqrYRXe8P_ijQ7p8Vdz0TTrxUeT3lm8d9shnr2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0qI0n6" \
    "uiP1aCN_2_jLAeQTlqRHtfa64QQSUmFAAjVKPbByi7xho0uTOcbH510a6GYmJUAfmWjwZ6oD4ifKo8DYM-X72Eaw"
#define RFC_8037_KEY                                                                               \
    "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}"
#define RFC_8037_A4                                                                                \
    "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcv"  \
    "Mg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"

static void
signatures_of_the_rfcs_are_valid(void **state)
{
    static const struct {
        const char *jwk, *algorithm, *text;
    } vectors[] = {
        {RFC_7515_A1_KEY, "HS256", RFC_7515_A1}, {RFC_7515_A2_KEY, "RS256", RFC_7515_A2},
        {RFC_7515_A3_KEY, "ES256", RFC_7515_A3}, {RFC_7520_KEY, "PS384", RFC_7520_PS384},
        {RFC_8037_KEY, "EdDSA", RFC_8037_A4},
    };
    char text[2048];

    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        char *signature;

        assert_true(is_signed_by(vectors[i].jwk, vectors[i].algorithm, vectors[i].text));
        snprintf(text, sizeof(text), "%s", vectors[i].text);
        signature = strrchr(text, '.') + 1;
        signature[0] = signature[0] == 'A' ? 'B' : 'A';
        assert_false(is_signed_by(vectors[i].jwk, vectors[i].algorithm, text));
    }
    /* RFC 7515, appendix A.5: an unsecured token, here with a signature. */
    assert_false(is_signed_by(RFC_7515_A3_KEY, "none", "eyJhbGciOiJub25lIn0" RFC_CLAIMS "AA"));
    /* The claims of RFC 7519, section 3.1, have expired in 2011. */
    key_set_free(&issuers[0].keys);
    assert_int_equal(key_set_add_jwks(&issuers[0].keys, "{\"keys\":[" RFC_7515_A1_KEY "]}",
                                      sizeof("{\"keys\":[" RFC_7515_A1_KEY "]}") - 1, true, reason),
                     RC_OK);
    issuers[0].user_claim = "iss";
    assert_int_equal(verify(RFC_7515_A1), RC_CLOSED);
    assert_int_equal(
        token_verify(&rules, RFC_7515_A1, strlen(RFC_7515_A1), 1300819380, &token, &error), RC_OK);
    assert_string_equal(token.user, "joe");
}

/* RFC 7517, appendix A.1: the first key is for encryption. */
static void
set_of_rfc_7517_has_one_key_for_signatures(void **state)
{
    static const char set[] =
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"use\":\"enc\",\"kid\":\"1\","
        "\"x\":\"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4\","
        "\"y\":\"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM\"},"
        "{\"kty\":\"RSA\",\"alg\":\"RS256\",\"kid\":\"2011-04-29\",\"e\":\"AQAB\",\"n\":"
        "\"0vx7agoebG"
        "cQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjB"
        "ZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQM"
        "icAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lF"
        "d2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw\"}]}";
    struct key_set keys = {0};

    (void)state;
    assert_int_equal(key_set_add_jwks(&keys, set, strlen(set), false, reason), RC_OK);
    assert_int_equal(keys.count, 1);
    assert_int_equal(keys.skipped, 1);
    assert_string_equal(keys.keys[0].id, "2011-04-29");
    assert_string_equal(keys.keys[0].algorithm, "RS256");
    key_set_free(&keys);
}

static void
each_algorithm_verifies(void **state)
{
    static const char *const texts[] = {TOKEN_RS256, TOKEN_RS384, TOKEN_RS512, TOKEN_PS256,
                                        TOKEN_PS384, TOKEN_PS512, TOKEN_ES256, TOKEN_ES384,
                                        TOKEN_EDDSA, TOKEN_HS256};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(verify(texts[i]), RC_OK);
        assert_string_equal(token.user, "u42");
    }
}

static void
unusable_keys_are_skipped(void **state)
{
    struct key_set fetched = {0};

    (void)state;
    assert_int_equal(issuers[0].keys.count, 6);
    assert_int_equal(issuers[0].keys.skipped, 5);
    assert_int_equal(verify(TOKEN_PSS_KEY_PS256), RC_OK);
    expect_fault(TOKEN_SHORT, TOKEN_FAULT_SIGNATURE);
    expect_fault(TOKEN_ENCRYPTION, TOKEN_FAULT_SIGNATURE);
    expect_fault(TOKEN_PSS_KEY_RS256, TOKEN_FAULT_SIGNATURE);
    /* A URL gives no secrets. */
    assert_int_equal(key_set_add_jwks(&fetched, JWKS, sizeof(JWKS) - 1, false, reason), RC_OK);
    assert_int_equal(fetched.count, 5);
    key_set_free(&fetched);
}

static void
other_documents_are_rejected(void **state)
{
    static const char *const texts[] = {
        "",
        "<html>",
        "[]",
        "{}",
        "{\"keys\":{}}",
        "{\"keys\":[]}",
        "{\"keys\":[{}]}",
        "{\"keys\":[],\"keys\":[]}",
        "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQ\",\"e\":\"AQAB\"}]}",
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"AA\"}]}",
        "{\"keys\":[{\"kty\":\"oct\",\"k\":\"c2hvcnQ\"}]}"};
    struct key_set keys = {0};
    char *large = calloc(1, KEY_SET_BYTES_MAX + 2);
    struct buffer many;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        reason[0] = '\0';
        assert_int_equal(key_set_add_jwks(&keys, texts[i], strlen(texts[i]), true, reason), RC_BAD);
        assert_true(strlen(reason) > 0);
        assert_int_equal(keys.count, 0);
    }
    assert_non_null(large);
    memset(large, ' ', KEY_SET_BYTES_MAX + 1);
    assert_int_equal(key_set_add_jwks(&keys, large, KEY_SET_BYTES_MAX + 1, true, reason), RC_BAD);
    assert_string_equal(reason, "is larger than 256 kB");
    free(large);
    buffer_init(&many, 1024);
    assert_int_equal(buffer_addf(&many, "{\"keys\":[1"), RC_OK);
    for (int i = 0; i < KEY_SET_KEYS_MAX; i++)
        assert_int_equal(buffer_addf(&many, ",1"), RC_OK);
    assert_int_equal(buffer_addf(&many, "]}"), RC_OK);
    assert_int_equal(key_set_add_jwks(&keys, many.bytes, many.len, true, reason), RC_BAD);
    assert_string_equal(reason, "has more than 100 keys");
    buffer_free(&many);
}

static void
kid_selects_the_key(void **state)
{
    (void)state;
    expect_fault(TOKEN_UNKNOWN_KID, TOKEN_FAULT_SIGNATURE);
    expect_fault(TOKEN_OTHER_KID, TOKEN_FAULT_SIGNATURE);
    expect_fault(TOKEN_NUMBER_KID, TOKEN_FAULT_MALFORMED);
    /* Without kid, exactly one key must fit. */
    assert_int_equal(verify(TOKEN_NO_KID), RC_OK);
    assert_int_equal(verify(TOKEN_NO_KID_RSA), RC_OK);
    assert_int_equal(
        key_set_add_jwks(&issuers[0].fetched, JWKS_OF_TWO, sizeof(JWKS_OF_TWO) - 1, false, reason),
        RC_OK);
    expect_fault(TOKEN_NO_KID, TOKEN_FAULT_SIGNATURE);
    assert_non_null(strstr(error.text, "several keys"));
}

static void
keys_of_a_url_are_fetched(void **state)
{
    (void)state;
    key_set_free(&issuers[0].keys);
    issuers[0].is_fetched = true;
    assert_int_equal(verify(TOKEN_ES256), RC_AGAIN);
    assert_int_equal(verify(TOKEN_NO_KID), RC_AGAIN);
    /* No key that is fetched would verify these. */
    expect_fault(TOKEN_NONE, TOKEN_FAULT_ALGORITHM);
    expect_fault(TOKEN_HS256, TOKEN_FAULT_ALGORITHM);
    assert_int_equal(
        key_set_add_jwks(&issuers[0].fetched, JWKS_OF_TWO, sizeof(JWKS_OF_TWO) - 1, false, reason),
        RC_OK);
    assert_int_equal(verify(TOKEN_ES256), RC_OK);
    assert_int_equal(verify(TOKEN_UNKNOWN_KID), RC_AGAIN);
    assert_int_equal(error.issuer, 0);
    expect_fault(TOKEN_OTHER_KID, TOKEN_FAULT_SIGNATURE);
}

static void
header_grants_nothing(void **state)
{
    (void)state;
    expect_fault(TOKEN_NONE, TOKEN_FAULT_ALGORITHM);
    expect_fault(TOKEN_CONFUSED, TOKEN_FAULT_SIGNATURE);
    expect_fault(TOKEN_EMBEDDED, TOKEN_FAULT_SIGNATURE);
    expect_fault(TOKEN_CRIT, TOKEN_FAULT_MALFORMED);
    expect_fault(TOKEN_CONTROLS, TOKEN_FAULT_CLAIMS);
    expect_fault(TOKEN_FUTURE, TOKEN_FAULT_EARLY);
}

/* Adds a section with keys for this issuer; returns it. */
static struct token_issuer *
add_section(const char *name, const char *audience)
{
    struct token_issuer *issuer = &issuers[rules.count++];

    issuer->issuer = name;
    issuer->audience = audience;
    assert_int_equal(key_set_add_jwks(&issuer->keys, JWKS, sizeof(JWKS) - 1, true, reason), RC_OK);
    return issuer;
}

static void
issuer_selects_its_section(void **state)
{
    struct token_issuer *keycloak = add_section(KEYCLOAK, "clairon");

    (void)state;
    assert_int_equal(verify(TOKEN_ADMIN), RC_OK);
    assert_false(token.admin);
    assert_false(token.publish);
    keycloak->admin = keycloak->publish = true;
    assert_int_equal(verify(TOKEN_ADMIN), RC_OK);
    assert_true(token.admin);
    assert_true(token.publish);
    /* The keys of [auth] do not verify a token of this issuer. */
    key_set_free(&keycloak->keys);
    assert_int_equal(key_set_add_jwks(&keycloak->keys, "{\"keys\":[" RFC_7515_A3_KEY "]}",
                                      sizeof("{\"keys\":[" RFC_7515_A3_KEY "]}") - 1, true, reason),
                     RC_OK);
    expect_fault(TOKEN_ADMIN, TOKEN_FAULT_SIGNATURE);
    assert_int_equal(verify(TOKEN_ES256), RC_OK);
    /* Its keys do not verify tokens of others. */
    rules = (struct token_rules){.issuers = issuers + 1, .count = 1};
    expect_fault(TOKEN_ES256, TOKEN_FAULT_ISSUER);
    keycloak->issuer = KEYCLOAK "/";
    expect_fault(TOKEN_KEYCLOAK, TOKEN_FAULT_ISSUER);
}

static bool
has_group(const char *audience, const char *target)
{
    for (size_t i = 0; i < token.group_count; i++)
        if (strcmp(token.groups[i].audience, audience) == 0 &&
            strcmp(token.groups[i].target, target) == 0)
            return true;
    return false;
}

static void
tokens_of_providers(void **state)
{
    struct token_issuer *issuer = add_section(KEYCLOAK, "other, clairon");

    (void)state;
    issuer->user_claim = "preferred_username";
    issuer->user_prefix = "kc:";
    issuer->groups_claim = "realm_access.roles, WARD=groups, resource_access.clairon.roles, acr";
    issuer->required = "azp=web, email_verified=true";
    assert_int_equal(verify(TOKEN_KEYCLOAK), RC_OK);
    assert_string_equal(token.user, "kc:ada");
    assert_int_equal(token.group_count, 4);
    assert_true(has_group("ROLE", "nurse"));
    assert_true(has_group("ROLE", "reader"));
    assert_true(has_group("WARD", "/ward/7"));
    issuer->required = "azp=mobile";
    expect_fault(TOKEN_KEYCLOAK, TOKEN_FAULT_CLAIMS);
    issuer->required = "email_verified=false";
    expect_fault(TOKEN_KEYCLOAK, TOKEN_FAULT_CLAIMS);
    issuer->required = NULL;
    issuer->audience = "other";
    expect_fault(TOKEN_KEYCLOAK, TOKEN_FAULT_AUDIENCE);
    issuer->audience = NULL;
    expect_fault(TOKEN_KEYCLOAK, TOKEN_FAULT_AUDIENCE);
    issuer->audience = "clairon";
    issuer->user_claim = "missing, acr, sub";
    assert_int_equal(verify(TOKEN_KEYCLOAK), RC_OK);
    assert_string_equal(token.user, "kc:1");
    issuer->user_claim = "auth_time";
    expect_fault(TOKEN_KEYCLOAK, TOKEN_FAULT_CLAIMS);

    *issuer = (struct token_issuer){.issuer = "https://tenant.eu.auth0.com/",
                                    .keys = issuer->keys,
                                    .audience = "https://clairon.example.org",
                                    .groups_claim = "https://app\\.example\\.org/roles"};
    assert_int_equal(verify(TOKEN_AUTH0), RC_OK);
    assert_string_equal(token.user, "auth0|5f7c8ec7c33c6c004bbafe82");
    assert_true(has_group("ROLE", "nurse"));

    *issuer = (struct token_issuer){
        .issuer = "https://login.microsoftonline.com/72f988bf-86f1-41af-91ab-2d7cd011db47/v2.0",
        .keys = issuer->keys,
        .audience = "6e74172b-be56-4843-9ff4-e66a39bb12e3",
        .user_claim = "oid",
        .groups_claim = "roles, GROUP=groups"};
    assert_int_equal(verify(TOKEN_ENTRA), RC_OK);
    assert_string_equal(token.user, "690222be-ff1a-4d56-abd1-7e4f7d38e474");
    assert_true(has_group("ROLE", "nurse"));
    assert_true(has_group("GROUP", "ab603c56-068a-4a3c-b1ff-1a1c0ab5b1c1"));

    *issuer = (struct token_issuer){
        .issuer = "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_example",
        .keys = issuer->keys,
        .audience = "xyz",
        .audience_claim = "client_id",
        .required = "token_use=access",
        .groups_claim = "cognito:groups"};
    assert_int_equal(verify(TOKEN_COGNITO), RC_OK);
    assert_true(has_group("ROLE", "nurse"));
    issuer->required = "token_use=id";
    expect_fault(TOKEN_COGNITO, TOKEN_FAULT_CLAIMS);
    issuer->audience = "abc";
    expect_fault(TOKEN_COGNITO, TOKEN_FAULT_AUDIENCE);
}

static void
missing_groups_are_noticed(void **state)
{
    (void)state;
    assert_int_equal(verify(TOKEN_ES256), RC_OK);
    assert_false(token.lacks_groups);
    assert_int_equal(verify(TOKEN_OVERAGE), RC_OK);
    assert_true(token.lacks_groups);
    assert_int_equal(token.group_count, 0);
}

static void
max_age_is_limited(void **state)
{
    (void)state;
    assert_int_equal(gate_keys_age_ms(NULL), 3600 * 1000);
    assert_int_equal(gate_keys_age_ms("public, max-age=600"), 600 * 1000);
    assert_int_equal(gate_keys_age_ms("Max-Age=\"600\", s-maxage=9"), 600 * 1000);
    assert_int_equal(gate_keys_age_ms("max-age=0"), 60 * 1000);
    assert_int_equal(gate_keys_age_ms("no-store"), 60 * 1000);
    assert_int_equal(gate_keys_age_ms("max-age=99999999999999999999"), 24 * 3600 * 1000);
    assert_int_equal(gate_keys_age_ms("max-age=-1"), 24 * 3600 * 1000);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(signatures_of_the_rfcs_are_valid), TEST(set_of_rfc_7517_has_one_key_for_signatures),
        TEST(each_algorithm_verifies),          TEST(unusable_keys_are_skipped),
        TEST(other_documents_are_rejected),     TEST(kid_selects_the_key),
        TEST(keys_of_a_url_are_fetched),        TEST(header_grants_nothing),
        TEST(issuer_selects_its_section),       TEST(tokens_of_providers),
        TEST(missing_groups_are_noticed),       TEST(max_age_is_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
