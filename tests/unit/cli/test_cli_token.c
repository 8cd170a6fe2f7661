/* test_cli_token.c: `clairon token` writes tokens that the relay accepts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "wire/token.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define WITH_SECRET "--auth.hs256_secret=" SECRET

static char output[4096];
static const char *expected_issuer; /* NULL: any */
static const char *audience;        /* NULL: only the default claims are read */

/* Runs the command and captures stdout and stderr in `output`. */
static int
run(int argc, char **argv)
{
    FILE *file = tmpfile();
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), code;
    size_t len;

    assert_non_null(file);
    (void)fflush(stdout);
    (void)dup2(fileno(file), STDOUT_FILENO);
    (void)dup2(fileno(file), STDERR_FILENO);
    code = cli_token(argc, argv);
    (void)fflush(stdout);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(err, STDERR_FILENO);
    (void)close(out);
    (void)close(err);
    rewind(file);
    len = fread(output, 1, sizeof output - 1, file);
    output[len] = '\0';
    (void)fclose(file);
    return code;
}

#define RUN(...)                                                                                   \
    run((int)(sizeof((char *[]){"token", __VA_ARGS__}) / sizeof(char *)),                          \
        (char *[]){"token", __VA_ARGS__})

static void
expect_output(const char *part)
{
    if (strstr(output, part) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", output, part);
}

/* Verifies the printed token with this secret. The caller frees it. */
static enum rc
read_token(const char *secret, struct token *ret_token)
{
    struct token_issuer issuer = {.is_default = true,
                                  .issuer = expected_issuer,
                                  .audience = audience,
                                  .audience_claim = audience != NULL ? "client_id" : NULL,
                                  .user_claim = audience != NULL ? "name, sub" : NULL,
                                  .required = audience != NULL ? "a.b=c, token_use=access" : NULL,
                                  .publish = true,
                                  .admin = true};
    /* time(2) may be some milliseconds behind the clock of `iat` */
    const struct token_rules rules = {.issuers = &issuer, .count = 1, .leeway_s = 1};
    struct token_error error;
    enum rc rc;

    output[strcspn(output, "\n")] = '\0';
    key_set_add_secret(&issuer.keys, secret, strlen(secret));
    rc = token_verify(&rules, output, strlen(output), time(NULL), ret_token, &error);
    key_set_free(&issuer.keys);
    return rc;
}

static void
token_contains_the_requested_claims(void **state)
{
    struct token token = {0};

    (void)state;
    expected_issuer = "me";
    assert_int_equal(RUN("--sub", "u1", "--groups={\"ROLE\":[\"admin\"]}", "--ttl", "2h",
                         "--publish", WITH_SECRET, "--auth.issuer=me"),
                     0);
    assert_int_equal(read_token(SECRET, &token), RC_OK);
    assert_string_equal(token.user, "u1");
    assert_true(token.publish);
    assert_false(token.admin);
    assert_in_range(token.expires_s, time(NULL) + 7200 - 60, time(NULL) + 7200);
    assert_int_equal(token.group_count, 1);
    assert_string_equal(token.groups[0].audience, "ROLE");
    assert_string_equal(token.groups[0].target, "admin");
    token_free(&token);
    assert_int_equal(read_token("x" SECRET, &token), RC_BAD);
    expected_issuer = NULL;
}

static void
token_contains_the_claims_of_the_settings(void **state)
{
    struct token token = {0};

    (void)state;
    assert_int_equal(RUN("--sub=u1", WITH_SECRET, "--auth.audience=web, app",
                         "--auth.audience_claim=client_id", "--auth.user_claim=name, sub",
                         "--auth.required=a.b=c, token_use=access"),
                     0);
    audience = "app, web";
    assert_int_equal(read_token(SECRET, &token), RC_OK);
    assert_string_equal(token.user, "u1");
    token_free(&token);
    audience = NULL;
}

static void
default_ttl_is_one_hour(void **state)
{
    struct token token = {0};

    (void)state;
    assert_int_equal(RUN("--sub=u1", WITH_SECRET), 0);
    assert_int_equal(read_token(SECRET, &token), RC_OK);
    assert_in_range(token.expires_s, time(NULL) + 3600 - 60, time(NULL) + 3600);
    assert_false(token.publish);
    token_free(&token);
}

static void
invalid_arguments_are_rejected(void **state)
{
    char name[257] = "";

    (void)state;
    assert_int_equal(RUN(WITH_SECRET), 2);
    expect_output("--sub must be a user id");
    assert_int_equal(RUN("--sub", WITH_SECRET), 2);
    expect_output("missing value after --sub");
    memset(name, 'x', 256);
    assert_int_equal(RUN("--sub", name, WITH_SECRET), 2);
    expect_output("of 1 to 255 bytes");
    name[255] = '\0';
    assert_int_equal(RUN("--sub", name, WITH_SECRET), 0);
    assert_int_equal(RUN("--sub", "a\nb", WITH_SECRET), 2);
    expect_output("--sub must not contain control characters");
    assert_int_equal(RUN("--sub", "\xff", WITH_SECRET), 2);
    expect_output("--sub must be UTF-8");
    assert_int_equal(RUN("--sub", "u1"), 2);
    expect_output("missing setting [auth] hs256_secret_file");
    assert_int_equal(RUN("--sub", "u1", "--ttl", "soon", WITH_SECRET), 2);
    expect_output("--ttl must be a duration");
    assert_int_equal(RUN("--sub", "u1", "--ttl", "0s", WITH_SECRET), 2);
    expect_output("--ttl must be a duration");
    assert_int_equal(RUN("--sub", "u1", "--groups", "[1]", WITH_SECRET), 2);
    expect_output("--groups must be a JSON object of arrays of strings");
    assert_int_equal(RUN("--sub", "u1", "--groups", "{\"A\":[1]}", WITH_SECRET), 2);
    expect_output("--groups must be");
    assert_int_equal(RUN("--sub", "u1", "--what"), 2);
    expect_output("unknown argument --what; see clairon token --help");
    assert_int_equal(RUN("--sub", "u1", "-c", "/nowhere"), 2);
    expect_output("could not read \"/nowhere\"");
}

static void
public_key_cannot_sign(void **state)
{
    static const char pem[] = "-----BEGIN PUBLIC KEY-----\n"
                              "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEjLH04XkkYM2prldozf8TFQ0c50NV\n"
                              "zuEd0vSn8WbO+gZ1S6XeJEYTVxA6iqkevroWRO0wl3qHPIPf6N62yELErg==\n"
                              "-----END PUBLIC KEY-----\n";
    char path[] = "/tmp/clairon-token-XXXXXX", argument[80];
    int fd = mkstemp(path);

    (void)state;
    assert_int_equal(write(fd, pem, sizeof pem - 1), sizeof pem - 1);
    (void)close(fd);
    (void)snprintf(argument, sizeof argument, "--auth.public_key_file=%s", path);
    assert_int_equal(RUN("--sub", "u1", argument), 2);
    expect_output("cannot sign with a public key, [auth] public_key_file");
    assert_int_equal(unlink(path), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_contains_the_requested_claims),
        cmocka_unit_test(token_contains_the_claims_of_the_settings),
        cmocka_unit_test(default_ttl_is_one_hour),
        cmocka_unit_test(invalid_arguments_are_rejected),
        cmocka_unit_test(public_key_cannot_sign),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
