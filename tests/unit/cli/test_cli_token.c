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
#include <jwt.h>

#include "cli/cli.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define WITH_SECRET "--auth.hs256_secret=" SECRET

static char output[4096];

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

static void
token_contains_the_requested_claims(void **state)
{
    jwt_t *jwt = NULL;
    char *groups;

    (void)state;
    assert_int_equal(RUN("--sub", "u1", "--groups={\"ROLE\":[\"admin\"]}", "--ttl", "2h",
                         "--publish", WITH_SECRET, "--auth.issuer=me"),
                     0);
    output[strcspn(output, "\n")] = '\0';
    assert_int_equal(jwt_decode(&jwt, output, (const unsigned char *)SECRET, 32), 0);
    assert_int_equal(jwt_get_alg(jwt), JWT_ALG_HS256);
    assert_string_equal(jwt_get_grant(jwt, "sub"), "u1");
    assert_string_equal(jwt_get_grant(jwt, "iss"), "me");
    assert_int_equal(jwt_get_grant_bool(jwt, "publish"), 1);
    assert_int_equal(jwt_get_grant_int(jwt, "exp") - jwt_get_grant_int(jwt, "iat"), 7200);
    assert_in_range(jwt_get_grant_int(jwt, "iat"), time(NULL) - 60, time(NULL));
    groups = jwt_get_grants_json(jwt, "groups");
    assert_string_equal(groups, "{\"ROLE\":[\"admin\"]}");
    free(groups);
    jwt_free(jwt);
    assert_int_not_equal(jwt_decode(&jwt, output, (const unsigned char *)"x" SECRET, 32), 0);
}

static void
default_ttl_is_one_hour(void **state)
{
    jwt_t *jwt = NULL;

    (void)state;
    assert_int_equal(RUN("--sub=u1", WITH_SECRET), 0);
    output[strcspn(output, "\n")] = '\0';
    assert_int_equal(jwt_decode(&jwt, output, (const unsigned char *)SECRET, 32), 0);
    assert_int_equal(jwt_get_grant_int(jwt, "exp") - jwt_get_grant_int(jwt, "iat"), 3600);
    assert_null(jwt_get_grant(jwt, "publish"));
    jwt_free(jwt);
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
        cmocka_unit_test(default_ttl_is_one_hour),
        cmocka_unit_test(invalid_arguments_are_rejected),
        cmocka_unit_test(public_key_cannot_sign),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
