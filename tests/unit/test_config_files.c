/* test_config_files.c: is each file that a setting names looked at where it matters? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/config.h"

#define SECRET "0123456789abcdef0123456789abcdef"

static char folder[] = "/tmp/clairon-files-XXXXXX";
static char file[64];
static struct config config;
static char error[CONFIG_ERROR_MAX];

static void
write_file(const char *bytes)
{
    FILE *out = fopen(file, "w");

    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, strlen(bytes), out), strlen(bytes));
    assert_int_equal(fclose(out), 0);
}

/* Loads up to eight arguments, ended by NULL. */
static enum rc
load(const char *first, ...)
{
    char *arguments[8] = {(char *)first};
    int count = 1;
    va_list args;

    va_start(args, first);
    for (char *next; (next = va_arg(args, char *)) != NULL;)
        arguments[count++] = next;
    va_end(args);
    config_free(&config);
    *error = '\0';
    return config_load(&config, NULL, count, arguments, error);
}

/* Loads a gate with the file as this key of [auth]. */
static enum rc
load_key(const char *name)
{
    char argument[128];

    (void)snprintf(argument, sizeof argument, "--auth.%s=%s", name, file);
    return load("--relay.roles=gate", argument, NULL);
}

static void
expect(const char *part)
{
    if (strstr(error, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error, part);
}

static void
refuses_key(const char *name, const char *bytes, const char *part)
{
    write_file(bytes);
    assert_int_equal(load_key(name), RC_BAD);
    expect(name);
    expect(part);
}

static int
set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(file, sizeof file, "%s/file", folder);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    config_free(&config);
    (void)unlink(file);
    return rmdir(folder);
}

static void
secrets_are_read(void **state)
{
    (void)state;
    assert_int_equal(load_key("hs256_secret_file"), RC_BAD);
    expect("No such file or directory");
    write_file(SECRET "\n");
    assert_int_equal(load_key("hs256_secret_file"), RC_OK);
    assert_int_equal(config.auth.key_len, 32);
    write_file(SECRET "\n\n");
    assert_int_equal(load_key("hs256_secret_file"), RC_OK);
    assert_int_equal(config.auth.key_len, 33);
    refuses_key("hs256_secret_file", "0123456789abcdef0123456789abcde",
                "holds 31 bytes: an HS256 secret needs at least 32");
    assert_int_equal(load("--relay.roles=gate", "--auth.hs256_secret_file=/dev/zero", NULL),
                     RC_BAD);
    expect("not a regular file");
}

static void
public_keys_are_read(void **state)
{
    (void)state;
    refuses_key("public_key_file", SECRET "\n", "-----BEGIN PUBLIC KEY-----");
    refuses_key("public_key_file", "-----BEGIN PRIVATE KEY-----\n", "private key");
    write_file("-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n");
    assert_int_equal(load_key("public_key_file"), RC_OK);
    assert_int_equal(config.auth.key_len, 57);
}

static void
certificates_matter_to_a_gate(void **state)
{
    char cert[] = "--gate.tls_cert=/nowhere", key[] = "--gate.tls_key=/nowhere";

    (void)state;
    assert_int_equal(load("--auth.hs256_secret=" SECRET, "--relay.roles=gate", cert, key, NULL),
                     RC_BAD);
    expect("argument --gate.tls_cert: could not read \"/nowhere\": No such file");
    assert_int_equal(load("--feed.conninfo=x", "--relay.roles=feed", cert, key, NULL), RC_OK);
    assert_int_equal(load("--feed.conninfo=x", "--relay.roles=feed", cert, NULL), RC_OK);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_are_read),
        cmocka_unit_test(public_keys_are_read),
        cmocka_unit_test(certificates_matter_to_a_gate),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
