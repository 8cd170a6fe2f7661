/* test_config.c: arguments override variables and the file; errors report file and line. */
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
#include "base/config_private.h"
#include "base/urls.h"

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

/* Loads the string as a file (NULL: no file), then up to eight arguments; NULL ends the list. */
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
expect_error(const char *part)
{
    if (strstr(error, part) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", error, part);
}

/* Checks that the file is rejected with an error that starts with its name and this line. */
static void
expect_line_rejected(const char *text, unsigned line, const char *part)
{
    char where[80];

    assert_int_equal(load(text, NULL), RC_BAD);
    (void)snprintf(where, sizeof where, "%s:%u: ", path, line);
    if (strncmp(error, where, strlen(where)) != 0)
        fail_msg("\"%s\" does not start with \"%s\"", error, where);
    expect_error(part);
}

static void
expect_argument_rejected(const char *argument, const char *part)
{
    assert_int_equal(load(NULL, BOTH, argument, NULL), RC_BAD);
    expect_error(part);
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
defaults_apply(void **state)
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
    assert_int_equal(config.relay.roles, CONFIG_ROLE_FEED | CONFIG_ROLE_GATE | CONFIG_ROLE_SINK);
    assert_int_equal(config.relay.log_level, LOG_LEVEL_INFO);
    assert_int_equal(config.relay.log_format, LOG_FORMAT_LOGFMT);
    assert_int_equal(config.auth.key_len, 32);
    assert_memory_equal(config.auth.key, SECRET, 32);
}

static void
the_table_is_sorted(void **state)
{
    (void)state;
    for (size_t i = 1; i < config_key_count; i++) {
        int order = strcmp(config_keys[i - 1].section, config_keys[i].section);

        assert_true(order <= 0);
        assert_true(order < 0 || strcmp(config_keys[i - 1].name, config_keys[i].name) < 0);
    }
}

static void
arguments_override_environment_overrides_file(void **state)
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
empty_value_unsets_an_optional_key(void **state)
{
    (void)state;
    assert_int_equal(load(GOOD "[gate]\norigins = https://a\ntrusted_proxies =\nconsole = off\n",
                          "--gate.origins=", NULL),
                     RC_OK);
    assert_null(config.gate.origins);
    expect_line_rejected(GOOD "[feed]\nslot =\n", 6, "1 to 63 bytes");
    expect_line_rejected(GOOD "[gate]\nping =\n", 6, "must be a duration");
}

static void
every_type_is_parsed(void **state)
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
long_values_are_not_truncated(void **state)
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
syntax_errors_report_file_and_line(void **state)
{
    (void)state;
    expect_line_rejected("slot = a\n", 1, "must follow a [section]");
    expect_line_rejected("[feed]\nslot\n", 2, "name = value");
    expect_line_rejected("[feed]\nslot: a\n", 2, "name = value");
    expect_line_rejected("\n[feed\n", 2, "[name] on a separate line");
    expect_line_rejected("[feed] # x\n", 1, "[name] on a separate line");
    expect_line_rejected(
        "[fed]\n", 1,
        "[fed] is not a section; did you mean [feed]? sections are auth, delivery, feed,");
    expect_line_rejected("[feed]\nslto = a\n", 2,
                         "did you mean [feed] slot? [feed] has conninfo, create");
    expect_line_rejected("[feed]\nlisten = a\n", 2, "did you mean [gate] listen?");
    expect_line_rejected("[feed]\nzzzzzzzzz = a\n", 2,
                         "[feed] zzzzzzzzz is not a setting; [feed] has");
    expect_line_rejected("[feed]\n= a\n", 2, "a name may contain only");
    expect_line_rejected("[feed]\nslot=a\n\n slot=b\n", 4, "already set on line 2");
    expect_line_rejected("[feed]\nSlot = a\n", 2, "did you mean [feed] slot?");
    write_file(path, "[feed]\nslot=a\0b\n", 16);
    assert_int_equal(load_path(path), RC_BAD);
    expect_error("relay.conf:2: a line must not contain a NUL byte");
    assert_int_equal(load_path("/nowhere/relay.conf"), RC_BAD);
    expect_error("could not read \"/nowhere/relay.conf\": No such file or directory");
    assert_int_equal(load_path("/tmp"), RC_BAD);
    expect_error("could not read \"/tmp\": Is a directory");
}

static void
invalid_values_report_file_and_line(void **state)
{
    (void)state;
    expect_line_rejected("[gate]\nping = soon\n", 2,
                         "[gate] ping must be a duration from 100ms to 1h");
    expect_line_rejected("[gate]\nping = 25\n", 2, "ms, s, m, h or d, not \"25\"");
    expect_line_rejected("[gate]\nping = 2d\n", 2, "to 1h");
    expect_line_rejected("[gate]\nping = -1s\n", 2, "must be");
    expect_line_rejected("[gate]\nping = 999999999999999999d\n", 2, "must be");
    expect_line_rejected("[gate]\nping = 99999999999999999999999s\n", 2, "must be");
    expect_line_rejected("[gate]\nslow_bytes = 1kb\n", 2, "B, kB or MB");
    expect_line_rejected("[gate]\nmax_connections = 0\n", 2, "a number from 1 to 1000000");
    expect_line_rejected("[gate]\nmax_connections = 0x10\n", 2, "a number");
    expect_line_rejected("[gate]\nlisten = 8080\n", 2, "host:port, [v6]:port or unix:/path");
    expect_line_rejected("[gate]\nlisten = h:0\n", 2, "host:port");
    expect_line_rejected("[gate]\nlisten = h:65536\n", 2, "host:port");
    expect_line_rejected("[gate]\nlisten = unix:x\n", 2, "unix:/path");
    expect_line_rejected("[gate]\nlisten = ::1:80\n", 2, "[v6]:port");
    expect_line_rejected("[feed]\ncreate_slot = maybe\n", 2,
                         "true, false, on, off, yes, no, 1 or 0");
    expect_line_rejected("[feed]\nslot = A\n", 2, "a-z, 0-9 and _");
    expect_line_rejected("[feed]\nconninfo = \"host=a\"\n", 2, "without quotes");
    expect_line_rejected("[store]\nprefix = a{b}\n", 2, "letters, digits");
    expect_line_rejected("[relay]\nroles = feed;gate\n", 2, "a list of feed, gate and sink");
    expect_line_rejected("[relay]\nroles = feed,\n", 2, "a list of feed, gate and sink");
    expect_line_rejected("[relay]\nlog_level = loud\n", 2, "error, warn, info or debug");
    expect_line_rejected("[relay]\nlog_format = xml\n", 2, "logfmt or json");
}

static void
values_out_of_range_are_rejected(void **state)
{
    (void)state;
    expect_line_rejected("[store]\nshards = 17\n", 2, "must be");
    expect_line_rejected("[gate]\nworkers = 65\n", 2, "a number from 1 to 64");
    expect_line_rejected("[gate]\nconsole = perhaps\n", 2, "on");
    expect_line_rejected("[gate]\ntrusted_proxies = localhost\n", 2, "must be addresses, networks");
}

static void
store_urls_are_validated(void **state)
{
    static const char *const good[] = {"redis://h:1",    "redis://h:1/0",      "redis://u:p@h:1/2",
                                       "redis://:p@h:1", "redis://[::1]:6379", "unix:///a/b",
                                       "unix:///a,b",    "redis://u:p,q@h:1"};
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
        expect_argument_rejected(argument, "must be " URLS_FORM);
    }
#ifdef CLAIRON_STORE_TLS
    assert_int_equal(load(NULL, BOTH, "--store.url=rediss://u:p@h:1/2", NULL), RC_OK);
    expect_argument_rejected("--store.url=rediss://h", "must be " URLS_FORM);
#else
    expect_argument_rejected("--store.url=rediss://h:1", "TLS requires hiredis 1.0");
#endif
}

static void
expect_url_rejected(const char *url, const char *reason)
{
    char argument[128];

    (void)snprintf(argument, sizeof argument, "--store.url=%s", url);
    expect_argument_rejected(argument, reason);
}

static void
lists_of_servers_need_sentinel_or_cluster(void **state)
{
    static const char *const lists[] = {"redis://h:1,redis://i:1", "redis://h:1,i:1",
                                        "redis://u:p@h:1,i:1", "unix:///a,redis://h:1"};

    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        expect_url_rejected(lists[i], "must be one server");
        expect_url_rejected(lists[i], "redis+sentinel://");
        expect_url_rejected(lists[i], "redis+cluster://");
    }
    expect_line_rejected("[store]\nurl = redis://h:1,redis://i:1\n", 2, "redis+cluster");
}

static void
sentinel_and_cluster_urls_are_validated(void **state)
{
    (void)state;
    assert_int_equal(load(NULL, BOTH, "--store.url=redis+cluster://u:p@h:1,[::1]:2", NULL), RC_OK);
    assert_int_equal(load(NULL, BOTH, "--store.url=redis+sentinel://h:1,i:2/main", NULL), RC_OK);
    expect_url_rejected("redis+cluster://h:1/0", "must have no database number");
    expect_url_rejected("redis+cluster://h:1/", "must have no database number");
    expect_url_rejected("redis+cluster://h:1,", "must be " URLS_FORM);
    expect_url_rejected("redis+cluster://h,i:1", "the port is missing");
    expect_url_rejected("redis+cluster://", "must be " URLS_FORM);
    expect_url_rejected("redis+sentinel://h:1", "must end in /<primary name>");
    expect_url_rejected("redis+sentinel://h:1/a/b", "must end in /<primary name>");
    expect_url_rejected("unix+cluster:///a", "must be " URLS_FORM);
#ifdef CLAIRON_STORE_TLS
    assert_int_equal(load(NULL, BOTH, "--store.url=rediss+cluster://h:1,i:1", NULL), RC_OK);
#else
    expect_url_rejected("rediss+cluster://h:1", "TLS requires hiredis 1.0");
#endif
}

static void
a_cluster_has_sixteen_shards_by_default(void **state)
{
    (void)state;
    assert_int_equal(load(NULL, BOTH, "--store.url=redis+cluster://h:1", NULL), RC_OK);
    assert_int_equal(config.store.shards, 16);
    assert_int_equal(load("[store]\nurl = redis+cluster://h:1\nshards = 1\n", BOTH, NULL), RC_OK);
    assert_int_equal(config.store.shards, 1);
    assert_int_equal(load(NULL, BOTH, "--store.url=redis+sentinel://h:1/main", NULL), RC_OK);
    assert_int_equal(config.store.shards, 1);
}

static void
cluster_and_sentinel_require_a_replica_by_default(void **state)
{
    (void)state;
    assert_int_equal(load(NULL, BOTH, "--store.url=redis://h:1", NULL), RC_OK);
    assert_int_equal(config.store.min_replicas, 0);
    assert_int_equal(load(NULL, BOTH, "--store.url=redis+cluster://h:1", NULL), RC_OK);
    assert_int_equal(config.store.min_replicas, 1);
    assert_int_equal(load(NULL, BOTH, "--store.url=redis+sentinel://h:1/main", NULL), RC_OK);
    assert_int_equal(config.store.min_replicas, 1);
    assert_int_equal(load("[store]\nurl = redis+cluster://h:1\nmin_replicas = 0\n", BOTH, NULL),
                     RC_OK);
    assert_int_equal(config.store.min_replicas, 0);
}

static void
errors_name_the_argument_or_variable(void **state)
{
    (void)state;
    expect_argument_rejected("--gate.ping=x", "argument --gate.ping must be");
    expect_argument_rejected("--gate.pin=1s",
                             "argument --gate.pin: [gate] pin is not a setting; did you "
                             "mean [gate] ping?");
    expect_argument_rejected("--gate.ping", "argument --gate.ping requires a value");
    expect_argument_rejected("--.=x", "argument: a name");
    expect_argument_rejected("--.", "argument: a name");
    expect_argument_rejected("--x.y=z", "sections are auth");
    assert_int_equal(setenv("CLAIRON_GATE_DRAIN", "never", 1), 0);
    assert_int_equal(load(NULL, BOTH, NULL), RC_BAD);
    expect_error("variable CLAIRON_GATE_DRAIN must be a duration");
    assert_int_equal(unsetenv("CLAIRON_GATE_DRAIN"), 0);
}

static void
errors_never_contain_secrets(void **state)
{
    (void)state;
    expect_line_rejected("[auth]\nhs256_secret = sesame\n[relay]\nroles=gate\n", 2, "has 6 bytes");
    assert_null(strstr(error, "sesame"));
    expect_line_rejected("[store]\nurl = http://u:sesame@h:1\n", 2, "must be redis://");
    assert_null(strstr(error, "sesame"));
    expect_line_rejected("[feed]\nconninfo = 'password=sesame'\n", 2, "without quotes");
    assert_null(strstr(error, "sesame"));
    expect_line_rejected("[auth]\nc2VzYW1l/sesame== \n", 2, "a name may contain only");
    assert_null(strstr(error, "sesame"));
}

static void
dependent_keys_are_checked(void **state)
{
    (void)state;
    assert_int_equal(load("[feed]\nconninfo=dbname=x\n", NULL), RC_BAD);
    expect_error("relay.conf: missing setting [auth] hs256_secret_file");
    assert_int_equal(load(NULL, "--auth.hs256_secret=" SECRET, NULL), RC_BAD);
    expect_error("missing setting [feed] conninfo");
    expect_line_rejected(GOOD "hs256_secret_file = /etc/hostname\n", 4, "cannot be combined");
    expect_error("relay.conf:5: [auth] hs256_secret_file");
    assert_int_equal(load(GOOD, "--gate.tls_cert=/etc/hostname", NULL), RC_BAD);
    expect_error("missing setting [gate] tls_key: required by argument --gate.tls_cert");
    assert_int_equal(load(GOOD, "--gate.tls_key=/etc/hostname", NULL), RC_BAD);
    expect_error("missing setting [gate] tls_cert");
    expect_line_rejected(GOOD "[gate]\ntls_cert=/nowhere\ntls_key=/etc/hostname\n", 6,
                         "No such file");
    expect_line_rejected(GOOD "[delivery]\nbackoff_cap=10ms\n", 6,
                         "not be less than [delivery] backoff_base");
}

/* Alternates between random bytes and a valid file with four random bytes changed. */
static void
random_input_is_rejected_without_a_crash(void **state)
{
    char bytes[600];
    uint32_t random = 1;
    size_t rejected = 0;

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
        rejected++;
        if (strstr(error, "relay.conf:") == NULL)
            fail_msg("round %d: \"%s\" does not name the file", round, error);
        for (const char *at = error; *at != '\0'; at++)
            if ((unsigned char)*at < 0x20 && *at != '\n')
                fail_msg("round %d: a control byte in the error", round);
    }
    assert_true(rejected > 1000);
}

static void
files_over_1_mb_are_rejected(void **state)
{
    char *large = malloc(1024 * 1024 + 1);

    (void)state;
    assert_non_null(large);
    memset(large, '\n', 1024 * 1024 + 1);
    write_file(path, large, 1024 * 1024 + 1);
    assert_int_equal(load_path(path), RC_BAD);
    expect_error("larger than 1 MB");
    free(large);
}

static void
help_lists_every_key(void **state)
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

        if (config_is_issuer_key(&config_keys[i]))
            (void)snprintf(option, sizeof option, "  %s = ", config_keys[i].name);
        else
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
        cmocka_unit_test(defaults_apply),
        cmocka_unit_test(the_table_is_sorted),
        cmocka_unit_test(arguments_override_environment_overrides_file),
        cmocka_unit_test(empty_value_unsets_an_optional_key),
        cmocka_unit_test(every_type_is_parsed),
        cmocka_unit_test(long_values_are_not_truncated),
        cmocka_unit_test(syntax_errors_report_file_and_line),
        cmocka_unit_test(invalid_values_report_file_and_line),
        cmocka_unit_test(values_out_of_range_are_rejected),
        cmocka_unit_test(store_urls_are_validated),
        cmocka_unit_test(lists_of_servers_need_sentinel_or_cluster),
        cmocka_unit_test(sentinel_and_cluster_urls_are_validated),
        cmocka_unit_test(a_cluster_has_sixteen_shards_by_default),
        cmocka_unit_test(cluster_and_sentinel_require_a_replica_by_default),
        cmocka_unit_test(errors_name_the_argument_or_variable),
        cmocka_unit_test(errors_never_contain_secrets),
        cmocka_unit_test(dependent_keys_are_checked),
        cmocka_unit_test(random_input_is_rejected_without_a_crash),
        cmocka_unit_test(files_over_1_mb_are_rejected),
        cmocka_unit_test(help_lists_every_key),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
