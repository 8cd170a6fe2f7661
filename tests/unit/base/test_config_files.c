/* test_config_files.c: key and certificate files are checked when the settings are loaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/err.h>

#include "base/config.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define PEM(base64) "-----BEGIN PUBLIC KEY-----\n" base64 "-----END PUBLIC KEY-----\n"
#define P256                                                                                       \
    PEM("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEjLH04XkkYM2prldozf8TFQ0c50NV\n"                       \
        "zuEd0vSn8WbO+gZ1S6XeJEYTVxA6iqkevroWRO0wl3qHPIPf6N62yELErg==\n")
#define P384                                                                                       \
    PEM("MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAE2qLRcG75FOVB86cYlUTjlhUA8MWjp0Xt\n"                       \
        "xxI/fu1NIQ8H/h4JBZE6DqglJ5l/DDinH1wNlcpvvHOBbqHfdgKKImAyB8lCUdD+\n"                       \
        "iEJILYG2tPs3uz+V1RVBd2yXgFi6y3lT\n")
#define SECP256K1                                                                                  \
    PEM("MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAEYSlUZ5UGQmuN14Cw5oGAbyu2i5uLqaIi\n"                       \
        "xCtWU3qirqnfjhfdHT7rivw/r+W0iIAaK30W56aUIfazj39h09vaYw==\n")
#define ED25519 PEM("MCowBQYDK2VwAyEAi8WmhFG00PpamMgQZpths465hqjQRXFE8082a56g1EI=\n")

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

/* Loads up to eight arguments; NULL ends the list. */
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

/* Loads the gate role with `file` as the value of this [auth] key. */
static enum rc
load_key(const char *name)
{
    char argument[128];

    (void)snprintf(argument, sizeof argument, "--auth.%s=%s", name, file);
    return load("--relay.roles=gate", argument, NULL);
}

static void
expect_error(const char *part)
{
    if (strstr(error, part) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", error, part);
}

static void
expect_key_rejected(const char *name, const char *bytes, const char *part)
{
    write_file(bytes);
    assert_int_equal(load_key(name), RC_BAD);
    expect_error(name);
    expect_error(part);
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
secret_files_are_read(void **state)
{
    (void)state;
    assert_int_equal(load_key("hs256_secret_file"), RC_BAD);
    expect_error("No such file or directory");
    write_file(SECRET "\n");
    assert_int_equal(load_key("hs256_secret_file"), RC_OK);
    assert_int_equal(config.auth.key_len, 32);
    write_file(SECRET "\n\n");
    assert_int_equal(load_key("hs256_secret_file"), RC_OK);
    assert_int_equal(config.auth.key_len, 33);
    expect_key_rejected("hs256_secret_file", "0123456789abcdef0123456789abcde",
                        "has 31 bytes: an HS256 secret requires at least 32");
    assert_int_equal(load("--relay.roles=gate", "--auth.hs256_secret_file=/dev/zero", NULL),
                     RC_BAD);
    expect_error("not a regular file");
}

static void
public_key_files_are_read(void **state)
{
    (void)state;
    expect_key_rejected("public_key_file", SECRET "\n", "-----BEGIN PUBLIC KEY-----");
    expect_key_rejected("public_key_file", "-----BEGIN PRIVATE KEY-----\n", "private key");
    expect_key_rejected("public_key_file", PEM("AA==\n"),
                        "not a public key in PEM, must be RSA, or EC");
    expect_key_rejected("public_key_file",
                        PEM("Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566"
                            "778899AABBCCDDEEFF\n\nAA==\n"),
                        "not a public key in PEM");
    expect_key_rejected("public_key_file", ED25519,
                        "unsupported key type (ED25519), must be RSA, or EC");
    expect_key_rejected("public_key_file", P384, "unsupported key type (EC on secp384r1)");
    expect_key_rejected("public_key_file", SECP256K1, "unsupported key type (EC on secp256k1)");
    write_file(P256);
    assert_int_equal(load_key("public_key_file"), RC_OK);
    assert_int_equal(config.auth.key_len, strlen(P256));
}

static void
reload_keeps_the_old_key_if_the_new_one_is_invalid(void **state)
{
    static const char *const bad[] = {PEM("AA==\n"), P384, ED25519};

    (void)state;
    write_file(P256);
    assert_int_equal(load_key("public_key_file"), RC_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file(bad[i]);
        assert_int_equal(config_reload_key(&config, error), CONFIG_KEY_BAD);
        expect_error("public_key_file");
        assert_string_equal(config.auth.key, P256);
        assert_null(config.auth.previous);
        assert_int_equal(ERR_peek_error(), 0);
    }
}

static void
certificates_are_loaded_for_the_gate_role_only(void **state)
{
    char cert[] = "--gate.tls_cert=/nowhere", key[] = "--gate.tls_key=/nowhere";

    (void)state;
    assert_int_equal(load("--auth.hs256_secret=" SECRET, "--relay.roles=gate", cert, key, NULL),
                     RC_BAD);
    expect_error("argument --gate.tls_cert: could not read \"/nowhere\": No such file");
    assert_int_equal(load("--feed.conninfo=dbname=x", "--relay.roles=feed", cert, key, NULL),
                     RC_OK);
    assert_int_equal(load("--feed.conninfo=dbname=x", "--relay.roles=feed", cert, NULL), RC_OK);
}

static void
sentinel_password_is_read(void **state)
{
    char file_argument[128];

    (void)state;
    (void)snprintf(file_argument, sizeof file_argument, "--store.sentinel_password_file=%s", file);
    write_file("a secret\n");
    assert_int_equal(load("--feed.conninfo=dbname=x", "--relay.roles=feed", file_argument,
                          "--store.url=redis+sentinel://h:1/main", NULL),
                     RC_OK);
    assert_string_equal(config.store.sentinel_password, "a secret");
    assert_int_equal(load("--feed.conninfo=dbname=x", "--relay.roles=feed", file_argument, NULL),
                     RC_BAD);
    expect_error("sentinel_password_file requires [store] url = redis+sentinel://");
    assert_int_equal(load("--feed.conninfo=dbname=x", "--relay.roles=feed",
                          "--store.sentinel_user=u", "--store.url=redis+sentinel://h:1/main", NULL),
                     RC_BAD);
    expect_error("missing setting [store] sentinel_password_file");
    write_file("\n");
    assert_int_equal(load("--feed.conninfo=dbname=x", "--relay.roles=feed", file_argument,
                          "--store.url=redis+sentinel://h:1/main", NULL),
                     RC_BAD);
    expect_error("is empty");
}

static void
webhook_needs_a_secret_and_https(void **state)
{
    static char https[] = "--webhook.url=https://user:pw@example.com:8443/hook?token=a",
                http[] = "--webhook.url=http://127.0.0.1/hook",
                missing_ca[] = "--webhook.ca_file=/nonexistent/ca",
                sink[] = "--relay.roles=feed,sink", conninfo[] = "--feed.conninfo=dbname=x";
    char secret[128], *bytes = NULL;
    size_t len = 0;

    (void)state;
    write_file("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    (void)snprintf(secret, sizeof secret, "--webhook.secret_file=%s", file);
    assert_int_equal(load(conninfo, sink, https, secret, NULL), RC_OK);
    assert_string_equal(config.webhook.url, "https://user:pw@example.com:8443/hook?token=a");
    assert_null(config_secret_read(config.webhook.secret_file, &bytes, &len));
    assert_int_equal(len, 39);
    free(bytes);
    assert_string_equal(config_secret_read("/nonexistent/secret", &bytes, &len),
                        "No such file or directory");
    assert_int_equal(load(conninfo, sink, https, NULL), RC_BAD);
    expect_error("missing setting [webhook] secret_file: required by argument --webhook.url");
    assert_int_equal(load(conninfo, sink, secret, NULL), RC_BAD);
    expect_error("missing setting [webhook] url: required by argument --webhook.secret_file");
    assert_int_equal(load(conninfo, sink, http, secret, NULL), RC_BAD);
    expect_error("argument --webhook.url must start with https://, or set [webhook] allow_private");
    assert_int_equal(load(conninfo, sink, http, secret, "--webhook.allow_private=true", NULL),
                     RC_OK);
    assert_int_equal(load(conninfo, sink, https, secret, missing_ca, NULL), RC_BAD);
    expect_error("argument --webhook.ca_file: could not read \"/nonexistent/ca\"");
    assert_int_equal(load(conninfo, "--relay.roles=feed", https, secret, missing_ca, NULL), RC_OK);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(load(conninfo, sink, https, secret, NULL), RC_BAD);
    expect_error("argument --webhook.secret_file: could not read");
}

static void
lists_contain_whole_words(void **state)
{
    (void)state;
    assert_true(config_list_contains("acked", "acked"));
    assert_true(config_list_contains("expired, acked", "acked"));
    assert_true(config_list_contains("escalated2,escalated ", "escalated"));
    assert_false(config_list_contains("escalated2", "escalated"));
    assert_false(config_list_contains("", "acked"));
    assert_int_equal(load("--feed.conninfo=dbname=x", "--relay.roles=feed",
                          "--webhook.outcomes=escalated2, escalated", NULL),
                     RC_OK);
}

static void
relative_paths_in_the_file_are_in_its_folder(void **state)
{
    char *argument = "--gate.tls_key=key.pem", path[80];

    (void)state;
    config_free(&config);
    write_file("[gate]\ntls_cert = sub/cert.pem\ntls_key = file.pem\n[store]\ntls_ca = /ca.pem\n");
    /* The files do not exist, so their load fails after the paths are set. */
    assert_int_equal(config_load(&config, file, 1, &argument, error), RC_BAD);
    (void)snprintf(path, sizeof path, "%s/sub/cert.pem", folder);
    assert_string_equal(config.gate.tls_cert, path);
    assert_string_equal(config.gate.tls_key, "key.pem");
    assert_string_equal(config.store.tls_ca, "/ca.pem");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secret_files_are_read),
        cmocka_unit_test(public_key_files_are_read),
        cmocka_unit_test(reload_keeps_the_old_key_if_the_new_one_is_invalid),
        cmocka_unit_test(certificates_are_loaded_for_the_gate_role_only),
        cmocka_unit_test(sentinel_password_is_read),
        cmocka_unit_test(webhook_needs_a_secret_and_https),
        cmocka_unit_test(lists_contain_whole_words),
        cmocka_unit_test(relative_paths_in_the_file_are_in_its_folder),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
