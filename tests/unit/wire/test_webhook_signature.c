/* test_webhook_signature.c: requests are signed as Standard Webhooks defines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/webhook_signature.h"

/* The example of the specification's reference libraries. */
#define ID "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define TIMESTAMP_S 1614265330
#define BODY "{\"test\": 2432232314}"
#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define SIGNATURE "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

#define OTHER_SECRET "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define OTHER_SIGNATURE "v1,O4Gjv1HqPqsMrjmczoggs/sWA8gZD0VyHG+fLh4+ktI="

static struct webhook_secrets
parse(const char *text)
{
    struct webhook_secrets secrets = {.count = 0};
    char error[WEBHOOK_ERROR_MAX] = "";

    if (webhook_secrets_parse(text, strlen(text), &secrets, error) != RC_OK)
        fail_msg("%s", error);
    return secrets;
}

static void
assert_signature(const char *file, const char *expected)
{
    struct webhook_secrets secrets = parse(file);
    char signature[WEBHOOK_SIGNATURE_MAX];

    webhook_sign(&secrets, ID, TIMESTAMP_S, BODY, strlen(BODY), signature);
    assert_string_equal(signature, expected);
}

static void
request_has_the_published_signature(void **state)
{
    (void)state;
    assert_signature(SECRET "\n", SIGNATURE);
    assert_signature(SECRET, SIGNATURE);
}

static void
each_secret_signs_in_the_order_of_the_file(void **state)
{
    (void)state;
    assert_signature(SECRET "\n" OTHER_SECRET "\n", SIGNATURE " " OTHER_SIGNATURE);
    assert_signature(OTHER_SECRET "\n" SECRET, OTHER_SIGNATURE " " SIGNATURE);
}

static void
id_timestamp_and_body_are_signed(void **state)
{
    struct webhook_secrets secrets = parse(SECRET);
    char signature[WEBHOOK_SIGNATURE_MAX];

    (void)state;
    webhook_sign(&secrets, "other", TIMESTAMP_S, BODY, strlen(BODY), signature);
    assert_string_not_equal(signature, SIGNATURE);
    webhook_sign(&secrets, ID, TIMESTAMP_S + 1, BODY, strlen(BODY), signature);
    assert_string_not_equal(signature, SIGNATURE);
    webhook_sign(&secrets, ID, TIMESTAMP_S, BODY, strlen(BODY) - 1, signature);
    assert_string_not_equal(signature, SIGNATURE);
}

/* The text is the base64 of `bytes` zero bytes. */
static void
write_secret(char *text, size_t bytes)
{
    static const char *const PADDING[] = {"", "A==", "AA="};
    size_t len = 6 + bytes / 3 * 4;

    memcpy(text, "whsec_", 6);
    memset(text + 6, 'A', len - 6);
    (void)snprintf(text + len, 8, "%s%s", bytes % 3 > 0 ? "A" : "", PADDING[bytes % 3]);
}

static void
secrets_of_24_to_64_bytes_are_valid(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes <= 72; bytes++) {
        struct webhook_secrets secrets;
        char text[128] = "", error[WEBHOOK_ERROR_MAX] = "";
        enum rc rc;

        write_secret(text, bytes);
        rc = webhook_secrets_parse(text, strlen(text), &secrets, error);
        assert_int_equal(rc, bytes >= 24 && bytes <= 64 ? RC_OK : RC_BAD);
        assert_true(rc != RC_OK || secrets.secrets[0].len == bytes);
    }
}

static void
assert_error(const char *text, const char *expected)
{
    struct webhook_secrets secrets = {.count = 7};
    char error[WEBHOOK_ERROR_MAX] = "";

    assert_int_equal(webhook_secrets_parse(text, strlen(text), &secrets, error), RC_BAD);
    assert_string_equal(error, expected);
    assert_int_equal(secrets.count, 7);
}

static void
errors_name_the_line_and_the_problem(void **state)
{
    static const char NOT_BASE64[] = "line 1 is not base64 after whsec_; must be the base64 of 24 "
                                     "to 64 bytes, without blanks";

    (void)state;
    assert_error("", "line 1 is empty; must be whsec_ and base64");
    assert_error("\n", "line 1 is empty; must be whsec_ and base64");
    assert_error(SECRET "\n\n", "line 2 is empty; must be whsec_ and base64");
    assert_error("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "line 1 does not start with whsec_");
    assert_error("whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "line 1 does not start with whsec_");
    assert_error(SECRET "\nsecret", "line 2 does not start with whsec_");
    assert_error(SECRET "\n" OTHER_SECRET "\n" SECRET,
                 "line 3 is a third secret; must be one secret, or two during a rotation");
    assert_error("whsec_QUFB", "line 1 is too short; must be whsec_ and the base64 of 24 to 64 "
                               "bytes");
    assert_error("whsec_", NOT_BASE64);
    assert_error(SECRET " ", NOT_BASE64);
    assert_error(SECRET "\r\n", NOT_BASE64);
    assert_error("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa_-", NOT_BASE64);
    assert_error("whsec_ MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", NOT_BASE64);
    assert_error("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", NOT_BASE64);
    assert_error("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", NOT_BASE64);
    assert_error("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdH===", NOT_BASE64);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_has_the_published_signature),
        cmocka_unit_test(each_secret_signs_in_the_order_of_the_file),
        cmocka_unit_test(id_timestamp_and_body_are_signed),
        cmocka_unit_test(secrets_of_24_to_64_bytes_are_valid),
        cmocka_unit_test(errors_name_the_line_and_the_problem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
