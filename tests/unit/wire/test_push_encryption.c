/*
 * test_push_encryption.c: bodies and tokens of Web Push are those of the examples in RFC 8188,
 * RFC 8291 and RFC 8292; private keys are checked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/jws.h"
#include "wire/push_encryption.h"

/* RFC 8291, section 5 */
#define PLAIN "When I grow up, I want to be a watermelon"
#define RECEIVER                                                                                   \
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
#define AUTH "BTBZMqHH6r4Tts7J_aSIgg"
#define SALT "DGv6ra1nlYgDCS1FRnbzlw"
#define SENDER                                                                                     \
    "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8"
#define BODY                                                                                       \
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS" \
    "6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qu" \
    "lcy4a-fN"

/* The sender's key, in both formats. */
static const char sec1_pem[] = "-----BEGIN EC PRIVATE KEY-----\n"
                               "MHcCAQEEIMn1j4mBPp+Ohy5x9CqmThdXySVNzGK3LdwBC7QEPqEcoAoGCCqGSM49\n"
                               "AwEHoUQDQgAE/jP0qw3qcZFNtVgj9ztUlI9BMG2SBzLbuaWaUyhkgiAOWXp7e8Jg\n"
                               "uhwieZhYCZLpOXMALzASooro8Gu7eOXsDw==\n"
                               "-----END EC PRIVATE KEY-----\n";
static const char pkcs8_pem[] = "-----BEGIN PRIVATE KEY-----\n"
                                "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgyfWPiYE+n46HLnH0\n"
                                "KqZOF1fJJU3MYrct3AELtAQ+oRyhRANCAAT+M/SrDepxkU21WCP3O1SUj0EwbZIH\n"
                                "Mtu5pZpTKGSCIA5Zent7wmC6HCJ5mFgJkuk5cwAvMBKiiujwa7t45ewP\n"
                                "-----END PRIVATE KEY-----\n";
static const char p384_pem[] = "-----BEGIN EC PRIVATE KEY-----\n"
                               "MIGkAgEBBDD4sT8nItqG61NZTUrMIukZvw+G3mibOHW3Fc7VXxGj0cxCYuKPeEDk\n"
                               "rFN1qXUhHOmgBwYFK4EEACKhZANiAARdYdh7mCIxEqEHRFyMqiop/gW0Nvx3q9xH\n"
                               "pYzLKIhk+XX0ZHTQGtI2Z0alkTXM3lE4B0aPDxN4Np4eCOy4mVASZpEE7ee5Uk7T\n"
                               "DxR+IeskEQprMee1cHu4ifbrpQjSjrQ=\n"
                               "-----END EC PRIVATE KEY-----\n";
static const char public_pem[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE/jP0qw3qcZFNtVgj9ztUlI9BMG2S\n"
    "BzLbuaWaUyhkgiAOWXp7e8JguhwieZhYCZLpOXMALzASooro8Gu7eOXsDw==\n"
    "-----END PUBLIC KEY-----\n";

static void
set_bytes(const char *text, void *ret_bytes, size_t size)
{
    size_t len = 0;
    char *bytes = base64url_decode(text, strlen(text), &len);

    assert_non_null(bytes);
    assert_int_equal(len, size);
    memcpy(ret_bytes, bytes, size);
    free(bytes);
}

static struct web_push_keys
receiver_keys(void)
{
    struct web_push_keys keys;

    set_bytes(RECEIVER, keys.point, sizeof(keys.point));
    set_bytes(AUTH, keys.auth, sizeof(keys.auth));
    return keys;
}

static struct web_push_key *
parse(const char *pem)
{
    const char *fault = NULL;
    struct web_push_key *key = web_push_key_parse(pem, strlen(pem), &fault);

    assert_non_null(key);
    return key;
}

static void
assert_base64url(const struct buffer *bytes, const char *expected)
{
    char *text = memory_new(BASE64URL_LEN(bytes->len) + 1);

    base64url_encode(bytes->bytes, bytes->len, text);
    assert_string_equal(text, expected);
    free(text);
}

static void
texts_of_base64url(void **state)
{
    static const char *const pairs[][2] = {
        {"", ""},           {"f", "Zg"},         {"ab", "YWI"},       {"foo", "Zm9v"},
        {"foob", "Zm9vYg"}, {"\xff\xef", "_-8"}, {"fooba", "Zm9vYmE"}};
    static const char *const wrong[] = {"A", "AB", "Zm9vYg==", "Zm9+", "Zm 9v", "AAAAA"};
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        char text[16], *bytes;

        base64url_encode(pairs[i][0], strlen(pairs[i][0]), text);
        assert_string_equal(text, pairs[i][1]);
        bytes = base64url_decode(text, strlen(text), &len);
        assert_non_null(bytes);
        assert_string_equal(bytes, pairs[i][0]);
        assert_int_equal(len, strlen(pairs[i][0]));
        free(bytes);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_null(base64url_decode(wrong[i], strlen(wrong[i]), &len));
}

/* RFC 8188, section 3.1 */
static void
record_of_rfc_8188(void **state)
{
    unsigned char secret[16], salt[WEB_PUSH_SALT_BYTES];
    struct buffer out;

    (void)state;
    set_bytes("yqdlZ-tYemfogSmv7Ws5PQ", secret, sizeof(secret));
    set_bytes("I1BsxtFttlv3u_Oo94xnmw", salt, sizeof(salt));
    buffer_init(&out, WEB_PUSH_BODY_MAX);
    assert_int_equal(web_push_seal(secret, sizeof(secret), salt, (const unsigned char *)"", 0,
                                   "I am the walrus", 15, &out),
                     RC_OK);
    assert_base64url(&out,
                     "I1BsxtFttlv3u_Oo94xnmwAAEAAA-NAVub2qFgBEuQKRapoZu-IxkIva3MEB1PD-ly8Thjg");
    buffer_free(&out);
}

static void
body_of_rfc_8291(void **state)
{
    struct web_push_keys keys = receiver_keys();
    struct web_push_key *sender = parse(sec1_pem);
    unsigned char salt[WEB_PUSH_SALT_BYTES];
    struct buffer out;

    (void)state;
    set_bytes(SALT, salt, sizeof(salt));
    buffer_init(&out, WEB_PUSH_BODY_MAX);
    assert_int_equal(web_push_encrypt_with(&keys, sender, salt, PLAIN, strlen(PLAIN), &out), RC_OK);
    assert_base64url(&out, BODY);
    buffer_free(&out);
    web_push_key_free(sender);
}

static void
each_body_has_a_new_key_and_salt(void **state)
{
    struct web_push_keys keys = receiver_keys();
    struct buffer first, second;

    (void)state;
    buffer_init(&first, WEB_PUSH_BODY_MAX);
    buffer_init(&second, WEB_PUSH_BODY_MAX);
    assert_int_equal(web_push_encrypt(&keys, PLAIN, strlen(PLAIN), &first), RC_OK);
    assert_int_equal(web_push_encrypt(&keys, PLAIN, strlen(PLAIN), &second), RC_OK);
    assert_int_equal(first.len, second.len);
    assert_memory_not_equal(first.bytes, second.bytes, WEB_PUSH_SALT_BYTES);
    assert_memory_not_equal(first.bytes + 21, second.bytes + 21, WEB_PUSH_POINT_BYTES);
    assert_true(web_push_point_is_valid((const unsigned char *)first.bytes + 21, 65));
    buffer_free(&first);
    buffer_free(&second);
}

static void
longest_body_has_4096_bytes(void **state)
{
    struct web_push_keys keys = receiver_keys();
    char plain[WEB_PUSH_PLAIN_MAX + 1] = "";
    struct buffer out;

    (void)state;
    buffer_init(&out, WEB_PUSH_BODY_MAX);
    assert_int_equal(web_push_encrypt(&keys, plain, WEB_PUSH_PLAIN_MAX + 1, &out), RC_LIMIT);
    assert_int_equal(out.len, 0);
    assert_int_equal(web_push_encrypt(&keys, plain, WEB_PUSH_PLAIN_MAX, &out), RC_OK);
    assert_int_equal(out.len, WEB_PUSH_BODY_MAX);
    buffer_free(&out);
}

static void
points_are_on_the_curve(void **state)
{
    struct web_push_keys keys = receiver_keys();
    unsigned char point[WEB_PUSH_POINT_BYTES] = {4};

    (void)state;
    assert_true(web_push_point_is_valid(keys.point, sizeof(keys.point)));
    assert_false(web_push_point_is_valid(keys.point, sizeof(keys.point) - 1));
    assert_false(web_push_point_is_valid(point, sizeof(point)));
    memcpy(point, keys.point, sizeof(point));
    point[64] ^= 1;
    assert_false(web_push_point_is_valid(point, sizeof(point)));
    point[64] ^= 1;
    point[0] = 2; /* compressed */
    assert_false(web_push_point_is_valid(point, sizeof(point)));
    assert_false(web_push_point_is_valid(point, 33));
}

static void
private_keys_are_read_and_written(void **state)
{
    struct web_push_key *sec1 = parse(sec1_pem), *pkcs8 = parse(pkcs8_pem);
    struct web_push_key *fresh = web_push_key_generate(), *copy;
    struct buffer pem;

    (void)state;
    assert_string_equal(web_push_key_public(sec1), SENDER);
    assert_string_equal(web_push_key_public(pkcs8), SENDER);
    buffer_init(&pem, 4096);
    assert_int_equal(web_push_key_write(fresh, &pem), RC_OK);
    assert_non_null(strstr(pem.bytes, "-----BEGIN PRIVATE KEY-----\n"));
    copy = parse(pem.bytes);
    assert_string_equal(web_push_key_public(copy), web_push_key_public(fresh));
    assert_string_not_equal(web_push_key_public(copy), SENDER);
    buffer_free(&pem);
    web_push_key_free(sec1);
    web_push_key_free(pkcs8);
    web_push_key_free(fresh);
    web_push_key_free(copy);
}

static void
other_keys_are_rejected(void **state)
{
    const char *fault = NULL;

    (void)state;
    assert_null(web_push_key_parse(p384_pem, strlen(p384_pem), &fault));
    assert_string_equal(fault, "has an unsupported key type, must be EC on P-256");
    assert_null(web_push_key_parse(public_pem, strlen(public_pem), &fault));
    assert_non_null(strstr(fault, "is not a private key in PEM"));
    assert_null(web_push_key_parse("", 0, &fault));
    assert_null(web_push_key_parse(pkcs8_pem, strlen(pkcs8_pem) / 2, &fault));
}

static bool
verify(const char *token, size_t len, const char *pem)
{
    struct key_set set = {0};
    struct jws jws;
    bool is_valid;

    assert_true(jws_split(token, len, &jws));
    assert_int_equal(key_set_add_pem(&set, pem, strlen(pem)), RC_OK);
    is_valid = jws_verify(&jws, "ES256", &set.keys[0]);
    key_set_free(&set);
    return is_valid;
}

/* RFC 8292, section 2.4. The signature of the example is random: it is verified, not repeated. */
static void
token_of_rfc_8292(void **state)
{
    static const char claims[] =
        "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJodHRwczovL3B1c2guZXhhbXBsZS5uZXQiLCJleHAi"
        "OjE0NTM1MjM3NjgsInN1YiI6Im1haWx0bzpwdXNoQGV4YW1wbGUuY29tIn0.";
    static const char signature[] = "i3CYb7t4xfxCDquptFOepC9GAu_HLGkMlMuCGSK2rpiUfnK9ojFwDXb1JrErtm"
                                    "ysazNjjvW2L9OkSSHzvoD1oA";
    static const char rfc_pem[] =
        "-----BEGIN PUBLIC KEY-----\n"
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEDUfHPKLVFQzVvnCPGyfucbECzPDa\n"
        "7rWbXriLcysAjEcXpgrmHhINiJz51G5T9EI8J8Dlqr2iNLCTljYSYKUE+w==\n"
        "-----END PUBLIC KEY-----\n";
    struct web_push_key *key = parse(sec1_pem);
    struct buffer token;
    char example[512];

    (void)state;
    snprintf(example, sizeof(example), "%s%s", claims, signature);
    assert_int_equal(verify(example, strlen(example), rfc_pem), true);
    buffer_init(&token, 1024);
    assert_int_equal(web_push_token_write(key, "https://push.example.net",
                                          "mailto:push@example.com", 1453523768, &token),
                     RC_OK);
    assert_int_equal(token.len, strlen(example));
    assert_memory_equal(token.bytes, claims, strlen(claims));
    assert_int_equal(verify(token.bytes, token.len, public_pem), true);
    assert_int_equal(verify(token.bytes, token.len, rfc_pem), false);
    buffer_free(&token);
    web_push_key_free(key);
}

static char *
copy_authorization(struct web_push_tokens *tokens, const char *origin, int64_t now_s)
{
    const char *value = web_push_authorization(tokens, origin, now_s);

    assert_non_null(value);
    return memory_text(value, strlen(value));
}

static void
tokens_are_reused_for_hours(void **state)
{
    struct web_push_key *key = parse(pkcs8_pem);
    struct web_push_tokens *tokens = web_push_tokens_new(key, "mailto:ops@example.org");
    char *first = copy_authorization(tokens, "https://a.example", 1000), *next;
    char origin[64];

    (void)state;
    assert_true(strncmp(first, "vapid t=eyJ", 11) == 0);
    assert_string_equal(strstr(first, ", k="), ", k=" SENDER);
    next = copy_authorization(tokens, "https://a.example", 1000 + 3600);
    assert_string_equal(next, first);
    free(next);
    next = copy_authorization(tokens, "https://b.example", 1000);
    assert_string_not_equal(next, first);
    free(next);
    next = copy_authorization(tokens, "https://a.example", 1000 + WEB_PUSH_TOKEN_REUSE);
    assert_string_not_equal(next, first);
    free(next);
    for (int i = 0; i < 100; i++) { /* more origins than tokens */
        snprintf(origin, sizeof(origin), "https://%d.example", i);
        next = copy_authorization(tokens, origin, 50000 + i);
        free(next);
    }
    next = copy_authorization(tokens, origin, 50200);
    free(first);
    first = copy_authorization(tokens, origin, 50300);
    assert_string_equal(next, first);
    free(next);
    free(first);
    web_push_tokens_free(tokens);
    web_push_key_free(key);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_base64url),
        cmocka_unit_test(record_of_rfc_8188),
        cmocka_unit_test(body_of_rfc_8291),
        cmocka_unit_test(each_body_has_a_new_key_and_salt),
        cmocka_unit_test(longest_body_has_4096_bytes),
        cmocka_unit_test(points_are_on_the_curve),
        cmocka_unit_test(private_keys_are_read_and_written),
        cmocka_unit_test(other_keys_are_rejected),
        cmocka_unit_test(token_of_rfc_8292),
        cmocka_unit_test(tokens_are_reused_for_hours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
