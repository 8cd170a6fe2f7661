/* test_config.c: does the right setting win, and is every mistake named with its place? */
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
#include "base/config/config_check.h"
#include "base/config/config_key.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define GOOD "[feed]\nconninfo = host=/tmp\n[auth]\nhs256_secret = " SECRET "\n"
#define BOTH "--feed.conninfo=host=/tmp", "--auth.hs256_secret=" SECRET

static char folder[] = "/tmp/clairon-config-XXXXXX";
static char path[64];
static struct config config;
static char error[CONFIG_ERROR_MAX];

static void
write_file(const char *to, const char *bytes, size_t len)
{
    FILE *file = fopen(to, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static enum rc
load_path(const char *from)
{
    config_free(&config);
    *error = '\0';
    return config_load(&config, from, 0, NULL, error);
}

/* Loads the text as a file (NULL: none) and up to eight arguments behind it, ended by NULL. */
static enum rc
load(const char *text, ...)
{
    char *arguments[8];
    int count = 0;
    va_list args;

    va_start(args, text);
    for (char *next; (next = va_arg(args, char *)) != NULL;)
        arguments[count++] = next;
    va_end(args);
    if (text != NULL)
        write_file(path, text, strlen(text));
    config_free(&config);
    *error = '\0';
    return config_load(&config, text != NULL ? path : NULL, count, arguments, error);
}

static void
expect(const char *part)
{
    if (strstr(error, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error, part);
}

/* The file is refused, and the error begins with its name and this line. */
static void
refuses(const char *text, unsigned line, const char *part)
{
    char where[80];

    assert_int_equal(load(text, NULL), RC_BAD);
    (void)snprintf(where, sizeof where, "%s:%u: ", path, line);
    if (strncmp(error, where, strlen(where)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", error, where);
    expect(part);
}

static void
refuses_argument(const char *argument, const char *part)
{
    assert_int_equal(load(NULL, BOTH, argument, NULL), RC_BAD);
    expect(part);
}

static int
set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_key_count; i++) {
        char name[64];

        (void)snprintf(name, sizeof name, "CLAIRON_%s_%s", config_keys[i].section,
                       config_keys[i].name);
        for (char *at = name; *at != '\0'; at++)
            *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 32 : *at);
        (void)unsetenv(name);
    }
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(path, sizeof path, "%s/relay.conf", folder);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    config_free(&config);
    (void)unlink(path);
    return rmdir(folder);
}

static void
defaults_are_those_of_the_help(void **state)
{
    (void)state;
    assert_int_equal(load(NULL, BOTH, NULL), RC_OK);
    assert_string_equal(config.feed.slot, "clairon");
    assert_true(config.feed.create_slot);
    assert_null(config.feed.topic_prefix);
    assert_string_equal(config.store.url, "redis://127.0.0.1:6379");
    assert_string_equal(config.store.prefix, "clairon");
    assert_int_equal(config.store.shards, 1);
    assert_int_equal(config.store.retention_ms, INT64_C(7) * 86400 * 1000);
    assert_string_equal(config.gate.listen, "127.0.0.1:8080");
    assert_int_equal(config.gate.workers, 1);
    assert_int_equal(config.gate.max_connections, 19000);
    assert_int_equal(config.gate.ping_ms, 25000);
    assert_int_equal(config.gate.slow_bytes, 1024 * 1024);
    assert_int_equal(config.gate.max_frame_bytes, 64 * 1024);
    assert_int_equal(config.delivery.backoff_cap_ms, 300000);
    assert_int_equal(config.delivery.window, 64);
    assert_int_equal(config.auth.leeway_ms, 5000);
    assert_int_equal(config.relay.roles, CONFIG_ROLE_FEED | CONFIG_ROLE_GATE);
    assert_int_equal(config.relay.log_level, LOG_LEVEL_INFO);
    assert_int_equal(config.relay.log_format, LOG_FORMAT_LOGFMT);
    assert_int_equal(config.auth.key_len, 32);
    assert_memory_equal(config.auth.key, SECRET, 32);
}

static void
the_table_is_in_order(void **state)
{
    (void)state;
    for (size_t i = 1; i < config_key_count; i++) {
        int order = strcmp(config_keys[i - 1].section, config_keys[i].section);

        assert_true(order <= 0);
        assert_true(order < 0 || strcmp(config_keys[i - 1].name, config_keys[i].name) < 0);
    }
}

static void
argument_over_environment_over_file(void **state)
{
    char *argv[] = {"relay", "-c", "--gate.ping=3s", "--check", NULL};

    (void)state;
    assert_int_equal(load(GOOD "[gate]\nping = 1s\n", NULL), RC_OK);
    assert_int_equal(config.gate.ping_ms, 1000);
    assert_int_equal(setenv("CLAIRON_GATE_PING", "2s", 1), 0);
    assert_int_equal(load(GOOD "[gate]\nping = 1s\n", NULL), RC_OK);
    assert_int_equal(config.gate.ping_ms, 2000);
    config_free(&config);
    assert_int_equal(config_load(&config, path, 4, argv, error), RC_OK);
    assert_int_equal(config.gate.ping_ms, 3000);
    assert_string_equal(argv[1], "-c");
    assert_null(argv[2]);
    assert_string_equal(argv[3], "--check");
    assert_int_equal(unsetenv("CLAIRON_GATE_PING"), 0);
}

static void
an_empty_value_unsets(void **state)
{
    (void)state;
    assert_int_equal(load(GOOD "[gate]\norigins = https://a\ntrusted_proxies =\nconsole = off\n",
                          "--gate.origins=", NULL),
                     RC_OK);
    assert_null(config.gate.origins);
    refuses(GOOD "[feed]\nslot =\n", 6, "1 to 63 bytes");
    refuses(GOOD "[gate]\nping =\n", 6, "must be a duration");
}

static void
reads_every_type(void **state)
{
    (void)state;
    assert_int_equal(load("\xef\xbb\xbf# a\n ; b\n\n[feed]\r\n conninfo=host=a dbname='; b # c'\r\n"
                          "create_slot = No\n[gate]\nping = 1500 ms\ndrain=0\nslow_bytes=2MB\n"
                          "max_frame_bytes = 4096\n[delivery]\nbackoff_cap = 2h\n[feed]\nslot=s_1\n"
                          "[relay]\nroles = gate , feed\nlog_level=debug\nlog_format=json\n"
                          "[store]\nurl = redis://u:p@ss@[::1]:1/3\n[auth]\nhs256_secret="
                          "\"0123456789abcdef0123456789abcdef\"",
                          NULL),
                     RC_OK);
    assert_string_equal(config.feed.conninfo, "host=a dbname='; b # c'");
    assert_false(config.feed.create_slot);
    assert_int_equal(config.gate.ping_ms, 1500);
    assert_int_equal(config.gate.drain_ms, 0);
    assert_int_equal(config.gate.slow_bytes, 2 * 1024 * 1024);
    assert_int_equal(config.gate.max_frame_bytes, 4096);
    assert_int_equal(config.delivery.backoff_cap_ms, 7200000);
    assert_string_equal(config.feed.slot, "s_1");
    assert_int_equal(config.relay.roles, CONFIG_ROLE_FEED | CONFIG_ROLE_GATE);
    assert_int_equal(config.relay.log_level, LOG_LEVEL_DEBUG);
    assert_int_equal(config.relay.log_format, LOG_FORMAT_JSON);
    assert_int_equal(config.auth.key_len, 34);
    assert_int_equal(load(NULL, "--relay.roles=gate", "--auth.hs256_secret=" SECRET, NULL), RC_OK);
    assert_int_equal(config.relay.roles, CONFIG_ROLE_GATE);
    assert_int_equal(load(NULL, "--relay.roles=feed", "--feed.conninfo=dbname=x", NULL), RC_OK);
    assert_null(config.auth.key);
}

static void
long_values_stay_whole(void **state)
{
    char value[2001], text[4000];

    (void)state;
    memset(value, 'x', 2000);
    value[2000] = '\0';
    memcpy(value, "dbname='", 8);
    memcpy(value + 1000, " ; ", 3);
    value[1999] = '\'';
    (void)snprintf(text, sizeof text, "[auth]\nhs256_secret=" SECRET "\n[feed]\nconninfo = %s\n",
                   value);
    assert_int_equal(load(text, NULL), RC_OK);
    assert_string_equal(config.feed.conninfo, value);
}

static void
broken_lines_name_their_place(void **state)
{
    (void)state;
    refuses("slot = a\n", 1, "below a [section]");
    refuses("[feed]\nslot\n", 2, "name = value");
    refuses("[feed]\nslot: a\n", 2, "name = value");
    refuses("\n[feed\n", 2, "[name] alone");
    refuses("[feed] # x\n", 1, "[name] alone");
    refuses("[fed]\n", 1,
            "[fed] is not a section; did you mean [feed]? sections are auth, delivery, feed,");
    refuses("[feed]\nslto = a\n", 2, "did you mean [feed] slot? [feed] takes conninfo, create");
    refuses("[feed]\nlisten = a\n", 2, "did you mean [gate] listen?");
    refuses("[feed]\nzzzzzzzzz = a\n", 2, "[feed] zzzzzzzzz is not a setting; [feed] takes");
    refuses("[feed]\n= a\n", 2, "a name must be made of");
    refuses("[feed]\nslot=a\n\n slot=b\n", 4, "already set in line 2");
    refuses("[feed]\nSlot = a\n", 2, "did you mean [feed] slot?");
    write_file(path, "[feed]\nslot=a\0b\n", 16);
    assert_int_equal(load_path(path), RC_BAD);
    expect("relay.conf:2: a line must not hold a zero byte");
    assert_int_equal(load_path("/nowhere/relay.conf"), RC_BAD);
    expect("could not read \"/nowhere/relay.conf\": No such file or directory");
    assert_int_equal(load_path("/tmp"), RC_BAD);
    expect("could not read \"/tmp\": Is a directory");
}

static void
bad_values_name_their_place(void **state)
{
    (void)state;
    refuses("[gate]\nping = soon\n", 2, "[gate] ping must be a duration from 100ms to 1h");
    refuses("[gate]\nping = 25\n", 2, "ms, s, m, h or d, not \"25\"");
    refuses("[gate]\nping = 2d\n", 2, "to 1h");
    refuses("[gate]\nping = -1s\n", 2, "must be");
    refuses("[gate]\nping = 999999999999999999d\n", 2, "must be");
    refuses("[gate]\nping = 99999999999999999999999s\n", 2, "must be");
    refuses("[gate]\nslow_bytes = 1kb\n", 2, "B, kB or MB");
    refuses("[gate]\nmax_connections = 0\n", 2, "a number from 1 to 1000000");
    refuses("[gate]\nmax_connections = 0x10\n", 2, "a number");
    refuses("[gate]\nlisten = 8080\n", 2, "host:port, [v6]:port or unix:/path");
    refuses("[gate]\nlisten = h:0\n", 2, "host:port");
    refuses("[gate]\nlisten = h:65536\n", 2, "host:port");
    refuses("[gate]\nlisten = unix:x\n", 2, "unix:/path");
    refuses("[gate]\nlisten = ::1:80\n", 2, "[v6]:port");
    refuses("[feed]\ncreate_slot = maybe\n", 2, "true, false, on, off, yes, no, 1 or 0");
    refuses("[feed]\nslot = A\n", 2, "a-z, 0-9 and _");
    refuses("[feed]\nconninfo = \"host=a\"\n", 2, "without quotes");
    refuses("[store]\nprefix = a{b}\n", 2, "letters, digits");
    refuses("[relay]\nroles = feed;gate\n", 2, "feed, gate or feed,gate");
    refuses("[relay]\nroles = feed,\n", 2, "feed, gate or feed,gate");
    refuses("[relay]\nlog_level = loud\n", 2, "error, warn, info or debug");
    refuses("[relay]\nlog_format = xml\n", 2, "logfmt or json");
}

static void
what_is_not_there_yet_is_refused(void **state)
{
    (void)state;
    refuses("[store]\nshards = 17\n", 2, "must be");
    refuses("[gate]\nworkers = 65\n", 2, "a number from 1 to 64");
    refuses("[gate]\nconsole = perhaps\n", 2, "on");
    refuses("[gate]\ntrusted_proxies = localhost\n", 2, "must be addresses, networks");
}

static void
store_addresses_have_a_form(void **state)
{
    static const char *const good[] = {"redis://h:1",    "redis://h:1/0",      "redis://u:p@h:1/2",
                                       "redis://:p@h:1", "redis://[::1]:6379", "unix:///a/b"};
    static const char *const bad[] = {"h:1",          "redis://h",     "redis://h:x",
                                      "redis://h:1/", "redis://h:1/a", "redis://u@h:1",
                                      "redis://:1",   "redis://u:p@",  "unix://a",
                                      "unix:///",     "http://h:1"};
    char argument[64];

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        (void)snprintf(argument, sizeof argument, "--store.url=%s", good[i]);
        assert_int_equal(load(NULL, BOTH, argument, NULL), RC_OK);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(argument, sizeof argument, "--store.url=%s", bad[i]);
        refuses_argument(argument, "must be " CONFIG_URL_FORM);
    }
    refuses_argument("--store.url=redis://h:1,redis://h", "must be " CONFIG_URL_FORM);
    refuses_argument("--store.url=redis://h:1,unix:///a,b", "names more servers than");
    refuses_argument("--store.url=redis://h:1,redis://h:1", "names the same server twice");
#ifdef CLAIRON_STORE_TLS
    assert_int_equal(load(NULL, BOTH, "--store.url=rediss://u:p@h:1/2", NULL), RC_OK);
    refuses_argument("--store.url=rediss://h", "must be " CONFIG_URL_FORM);
#else
    refuses_argument("--store.url=rediss://h:1", "TLS needs hiredis 1.0");
#endif
}

static void
arguments_and_variables_are_named(void **state)
{
    (void)state;
    refuses_argument("--gate.ping=x", "argument --gate.ping must be");
    refuses_argument("--gate.pin=1s", "argument --gate.pin: [gate] pin is not a setting; did you "
                                      "mean [gate] ping?");
    refuses_argument("--gate.ping", "argument --gate.ping needs its value");
    refuses_argument("--.=x", "argument: a name");
    refuses_argument("--.", "argument: a name");
    refuses_argument("--x.y=z", "sections are auth");
    assert_int_equal(setenv("CLAIRON_GATE_DRAIN", "never", 1), 0);
    assert_int_equal(load(NULL, BOTH, NULL), RC_BAD);
    expect("variable CLAIRON_GATE_DRAIN must be a duration");
    assert_int_equal(unsetenv("CLAIRON_GATE_DRAIN"), 0);
}

static void
secrets_are_never_told(void **state)
{
    (void)state;
    refuses("[auth]\nhs256_secret = sesame\n[relay]\nroles=gate\n", 2, "holds 6 bytes");
    assert_null(strstr(error, "sesame"));
    refuses("[store]\nurl = http://u:sesame@h:1\n", 2, "must be redis://");
    assert_null(strstr(error, "sesame"));
    refuses("[feed]\nconninfo = 'password=sesame'\n", 2, "without quotes");
    assert_null(strstr(error, "sesame"));
    refuses("[auth]\nc2VzYW1l/sesame== \n", 2, "a name must be made of");
    assert_null(strstr(error, "sesame"));
}

static void
keys_that_belong_together(void **state)
{
    (void)state;
    assert_int_equal(load("[feed]\nconninfo=dbname=x\n", NULL), RC_BAD);
    expect("relay.conf: missing key [auth] hs256_secret_file");
    assert_int_equal(load(NULL, "--auth.hs256_secret=" SECRET, NULL), RC_BAD);
    expect("missing key [feed] conninfo");
    refuses(GOOD "hs256_secret_file = /etc/hostname\n", 4, "exclude each other");
    expect("relay.conf:5: [auth] hs256_secret_file");
    assert_int_equal(load(GOOD, "--gate.tls_cert=/etc/hostname", NULL), RC_BAD);
    expect("missing key [gate] tls_key: argument --gate.tls_cert needs it");
    assert_int_equal(load(GOOD, "--gate.tls_key=/etc/hostname", NULL), RC_BAD);
    expect("missing key [gate] tls_cert");
    refuses(GOOD "[gate]\ntls_cert=/nowhere\ntls_key=/etc/hostname\n", 6, "No such file");
    refuses(GOOD "[delivery]\nbackoff_cap=10ms\n", 6, "not be less than [delivery] backoff_base");
}

/* Random bytes, then a good file with some bytes changed: an answer always, and never a crash. */
static void
garbage_is_refused_not_fatal(void **state)
{
    char bytes[600];
    uint32_t random = 1;
    size_t refused = 0;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        size_t len = round % 2 == 0 ? sizeof bytes : strlen(GOOD);

        memcpy(bytes, GOOD, strlen(GOOD));
        for (size_t i = 0; i < (round % 2 == 0 ? len : 4); i++) {
            random = random * 1664525u + 1013904223u;
            bytes[round % 2 == 0 ? i : (random >> 8) % len] = (char)(random >> 24);
        }
        write_file(path, bytes, len);
        if (load_path(path) == RC_OK)
            continue;
        refused++;
        if (strstr(error, "relay.conf:") == NULL)
            fail_msg("round %d: \"%s\" names no file", round, error);
        for (const char *at = error; *at != '\0'; at++)
            if ((unsigned char)*at < 0x20 && *at != '\n')
                fail_msg("round %d: a control byte in the error", round);
    }
    assert_true(refused > 1000);
}

static void
a_file_has_a_ceiling(void **state)
{
    char *large = malloc(1024 * 1024 + 1);

    (void)state;
    assert_non_null(large);
    memset(large, '\n', 1024 * 1024 + 1);
    write_file(path, large, 1024 * 1024 + 1);
    assert_int_equal(load_path(path), RC_BAD);
    expect("larger than 1 MB");
    free(large);
}

static void
help_names_every_key(void **state)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    assert_non_null(out);
    config_help(out, NULL);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i < config_key_count; i++) {
        char option[80];

        (void)snprintf(option, sizeof option, "  --%s.%s=", config_keys[i].section,
                       config_keys[i].name);
        assert_non_null(strstr(text, option));
    }
    assert_non_null(strstr(text, "(default: 25s)"));
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_help),
        cmocka_unit_test(the_table_is_in_order),
        cmocka_unit_test(argument_over_environment_over_file),
        cmocka_unit_test(an_empty_value_unsets),
        cmocka_unit_test(reads_every_type),
        cmocka_unit_test(long_values_stay_whole),
        cmocka_unit_test(broken_lines_name_their_place),
        cmocka_unit_test(bad_values_name_their_place),
        cmocka_unit_test(what_is_not_there_yet_is_refused),
        cmocka_unit_test(store_addresses_have_a_form),
        cmocka_unit_test(arguments_and_variables_are_named),
        cmocka_unit_test(secrets_are_never_told),
        cmocka_unit_test(keys_that_belong_together),
        cmocka_unit_test(garbage_is_refused_not_fatal),
        cmocka_unit_test(a_file_has_a_ceiling),
        cmocka_unit_test(help_names_every_key),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
