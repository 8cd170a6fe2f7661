/*
 * test_http_client.c: requests to real servers (server.js): their responses, failures, addresses
 * that are rejected, limits and cancellation. No thread is started.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "http_client/http_client.h"
#include "tests/unit/name_server.h"

#define LONG_MS 60000
#define GUARD_S 120.0
#define MANY 1000
#define ADDRESS_MAX 64

size_t __sanitizer_get_current_allocated_bytes(void); /* of ASan */

/* ---- names: the child processes of the resolver share this with the test */

struct names {
    int lookups;
    char rebind[ADDRESS_MAX]; /* the address of rebind.test */
};
static struct names *names;
static pid_t test_pid;

/* Overrides the C library's getaddrinfo. libcurl must not call it. */
int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
            struct addrinfo **ret_all)
{
    (void)service;
    (void)hints;
    if (getpid() == test_pid)
        abort();
    names->lookups++;
    if (strcmp(host, "silent.test") == 0)
        pause();
    if (strcmp(host, "good.test") == 0)
        *ret_all = address_of("127.0.0.1", NULL);
    else if (strcmp(host, "first_is_closed.test") == 0)
        *ret_all = address_of("127.0.0.2", address_of("127.0.0.1", NULL));
    else if (strcmp(host, "rebind.test") == 0)
        *ret_all = address_of(names->rebind, NULL);
    else
        return EAI_NONAME;
    return 0;
}

static int64_t clock_offset_us;
int64_t __real_clock_monotonic_us(void);
int64_t __wrap_clock_monotonic_us(void);

int64_t
__wrap_clock_monotonic_us(void)
{
    return __real_clock_monotonic_us() + clock_offset_us;
}

/* ---- the servers */

enum port { HTTP, HTTPS, HTTP2, EXPIRED, MISMATCH, UNKNOWN, SILENT, PROXY, PORT_COUNT };
static int ports[PORT_COUNT];
static char ca_file[256];
static pid_t server_pid;
static int server_input;

static void
start_server(void)
{
    static const char *const NAMES[] = {"http",     "https",   "http2",  "expired",
                                        "mismatch", "unknown", "silent", "proxy"};
    int input[2], output[2];
    char line[256];
    FILE *from;

    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    server_pid = fork();
    assert_true(server_pid >= 0);
    if (server_pid == 0) {
        if (dup2(input[0], STDIN_FILENO) >= 0 && dup2(output[1], STDOUT_FILENO) >= 0)
            execlp("node", "node", "tests/unit/http_client/server.js", NULL);
        _exit(EXIT_FAILURE);
    }
    close(input[0]);
    close(output[1]);
    server_input = input[1];
    from = fdopen(output[0], "r");
    while (fgets(line, sizeof(line), from) != NULL && strcmp(line, "end\n") != 0) {
        char *value = strchr(line, ' ') + 1;

        value[-1] = value[strcspn(value, "\n")] = '\0';
        for (int i = 0; i < PORT_COUNT; i++)
            if (strcmp(line, NAMES[i]) == 0)
                ports[i] = (int)strtol(value, NULL, 10);
        if (strcmp(line, "folder") == 0)
            (void)snprintf(ca_file, sizeof(ca_file), "%s/authority.pem", value);
    }
    fclose(from);
    assert_true(ca_file[0] != '\0'); /* otherwise node or openssl failed: see its message */
}

/* ---- requests */

struct result {
    int calls;
    enum rc rc;
    int status;
    bool is_truncated;
    size_t body_len;
    char body[1024];
    char error[256];
    char header[64];
};

static struct ev_loop *loop;
static int ended; /* callbacks since the start of the test */
static struct http_client_settings local = {
    .ca_file = ca_file, .allow_private = true, .connections = 16, .host_connections = 8};

static void
on_done(void *ctx, const struct http_response *response)
{
    struct result *result = ctx;

    ended++;
    result->calls++;
    result->rc = response->rc;
    result->status = response->status;
    result->is_truncated = response->is_truncated;
    result->body_len = response->body_len;
    (void)snprintf(result->body, sizeof(result->body), "%s", response->body);
    (void)snprintf(result->error, sizeof(result->error), "%s", response->error);
    if (response->headers[0] != NULL)
        (void)snprintf(result->header, sizeof(result->header), "%s", response->headers[0]);
}

static void
on_guard(struct ev_loop *of, ev_timer *timer, int events)
{
    (void)of;
    (void)timer;
    (void)events;
    fail_msg("no callback");
}

static void
wait_for(const int *calls, int count)
{
    ev_timer guard;

    ev_timer_init(&guard, on_guard, GUARD_S, 0);
    ev_timer_start(loop, &guard);
    while (*calls < count)
        ev_run(loop, EVRUN_ONCE);
    ev_timer_stop(loop, &guard);
}

static struct http_request *
start(struct http_client *client, const char *url, int64_t timeout_ms, struct result *result)
{
    struct http_request_params params = {.method = HTTP_REQUEST_GET,
                                         .url = url,
                                         .timeout_ms = timeout_ms,
                                         .response_max = 900,
                                         .wanted_headers = {"retry-after"}};

    return http_request_start(client, &params, on_done, result);
}

static struct result
run(struct http_client *client, const char *url)
{
    struct result result = {.calls = 0};

    (void)start(client, url, LONG_MS, &result);
    wait_for(&result.calls, 1);
    return result;
}

static const char *
url_of(const char *scheme, const char *host, enum port port, const char *path)
{
    static char url[256];

    (void)snprintf(url, sizeof(url), "%s://%s:%d/%s", scheme, host, ports[port], path);
    return url;
}

static struct result
get(const struct http_client_settings *settings, const char *url)
{
    struct http_client *client = http_client_open(loop, settings);
    struct result result = run(client, url);

    http_client_close(client);
    return result;
}

static struct result
get_local(const char *path)
{
    return get(&local, url_of("http", "127.0.0.1", HTTP, path));
}

/* A number that the servers count. */
static int
count_of(const char *what)
{
    struct result result = get_local("count");
    char key[32];
    const char *at;

    (void)snprintf(key, sizeof(key), "\"%s\":", what);
    at = strstr(result.body, key);
    assert_non_null(at);
    return (int)strtol(at + strlen(key), NULL, 10);
}

/* Waits until the servers have received `count` requests. */
static void
wait_for_requests(int count)
{
    while (count_of("requests") < count)
        ;
}

static int
entries_of(const char *folder)
{
    DIR *directory = opendir(folder);
    int count = -3; /* ".", ".." and the directory itself */

    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static void
assert_failed(struct result result, enum rc rc, const char *error)
{
    if (result.rc != rc || strstr(result.error, error) == NULL)
        fail_msg("rc %d, status %d, error \"%s\" without \"%s\"", result.rc, result.status,
                 result.error, error);
    assert_int_equal(result.status, 0);
}

static void
assert_status(struct result result, int status)
{
    if (result.rc != RC_OK || result.status != status)
        fail_msg("rc %d, status %d, error \"%s\"", result.rc, result.status, result.error);
    assert_string_equal(result.error, "");
}

/* ---- responses */

static void
response_has_status_body_and_the_wanted_header(void **state)
{
    struct result result = get_local("ok");

    (void)state;
    assert_status(result, 200);
    assert_string_equal(result.body, "ok");
    assert_string_equal(result.header, "7");
    result = get_local("status/500");
    assert_status(result, 500);
    assert_string_equal(result.body, "status");
    assert_string_equal(result.header, "");
    assert_status(get_local("status/204"), 204);
    assert_status(get_local("status/410"), 410);
}

static void
method_headers_and_body_are_sent(void **state)
{
    static const char large[2000000];
    static const char *const HEADERS[] = {"content-type: application/json", "webhook-id: m1", NULL};
    struct http_client *client = http_client_open(loop, &local);
    struct http_request_params params = {.method = HTTP_REQUEST_POST,
                                         .url = url_of("http", "good.test", HTTP, "echo"),
                                         .headers = HEADERS,
                                         .body = "{\"a\":1}",
                                         .body_len = 7,
                                         .timeout_ms = LONG_MS,
                                         .response_max = 1000};
    struct result result = {.calls = 0};

    (void)state;
    (void)http_request_start(client, &params, on_done, &result);
    wait_for(&ended, ended + 1);
    assert_memory_equal(result.body, "POST 1.1 {", 10);
    assert_non_null(strstr(result.body, "\"host\":\"good.test:"));
    assert_non_null(strstr(result.body, "\"user-agent\":\"clairon/"));
    assert_non_null(strstr(result.body, "\"content-type\":\"application/json\""));
    assert_non_null(strstr(result.body, "\"webhook-id\":\"m1\""));
    assert_non_null(strstr(result.body, "\"content-length\":\"7\""));
    assert_non_null(strstr(result.body, "} {\"a\":1}"));
    assert_null(strstr(result.body, "expect"));
    params.method = HTTP_REQUEST_PUT;
    (void)http_request_start(client, &params, on_done, &result);
    wait_for(&ended, ended + 1);
    assert_memory_equal(result.body, "PUT 1.1 {", 9);
    assert_non_null(strstr(result.body, "} {\"a\":1}"));
    /* libcurl would first send only the head, with "Expect: 100-continue" */
    params.body = large;
    params.body_len = sizeof(large);
    (void)http_request_start(client, &params, on_done, &result);
    wait_for(&ended, ended + 1);
    assert_status(result, 200);
    assert_non_null(strstr(result.body, "\"content-length\":\"2000000\""));
    assert_null(strstr(result.body, "expect"));
    http_client_close(client);
}

static void
redirect_is_not_followed(void **state)
{
    (void)state;
    assert_status(get_local("redirect"), 302);
    assert_int_equal(count_of("followed"), 0);
}

static void
rest_of_a_long_body_is_not_read(void **state)
{
    int cut = count_of("cut");
    size_t before = __sanitizer_get_current_allocated_bytes();
    struct result result = get_local("big");

    (void)state;
    assert_status(result, 200);
    assert_int_equal(result.body_len, 900);
    assert_true(result.is_truncated);
    while (count_of("cut") + count_of("whole") == cut)
        ;
    assert_int_equal(count_of("whole"), 0); /* the server could not send all */
    assert_true(__sanitizer_get_current_allocated_bytes() < before + 1024 * 1024);
}

static void
failures_of_a_server_are_errors(void **state)
{
    char url[64];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in closed = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(closed);

    (void)state;
    assert_failed(get_local("reset"), RC_IO, "Empty reply from server");
    assert_failed(get_local("die"), RC_IO, "");
    assert_failed(get_local("endless_head"), RC_IO, "");
    assert_failed(get(&local, "http://unknown.test/"), RC_IO, "could not resolve host: ");
    /* bound, but not listening */
    assert_int_equal(bind(fd, (struct sockaddr *)&closed, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&closed, &len), 0);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/", ntohs(closed.sin_port));
    assert_failed(get(&local, url), RC_IO, "Failed to connect");
    close(fd);
}

static void
second_address_is_used_if_the_first_fails(void **state)
{
    (void)state;
    assert_status(get(&local, url_of("http", "first_is_closed.test", HTTP, "ok")), 200);
}

static void
timeout_names_the_phase(void **state)
{
    static const struct {
        const char *scheme, *host, *path, *error;
        enum port port;
    } CASES[] = {
        {"http", "silent.test", "ok", "timeout after 40 ms: resolving the host", HTTP},
        {"https", "127.0.0.1", "ok", "timeout after 40 ms: connecting", SILENT},
        {"http", "127.0.0.1", "hang", "timeout after 40 ms: waiting for the response", HTTP},
        {"http", "127.0.0.1", "slow", "timeout after 40 ms: receiving the response", HTTP},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct http_client *client = http_client_open(loop, &local);
        struct result result = {.calls = 0};

        /* A busy machine may need longer than the timeout for an earlier phase. */
        for (int64_t ms = 40; strstr(result.error, strrchr(CASES[i].error, ':')) == NULL; ms *= 2) {
            if (ms >= LONG_MS)
                fail_msg("%s", result.error);
            (void)start(client,
                        url_of(CASES[i].scheme, CASES[i].host, CASES[i].port, CASES[i].path), ms,
                        &result);
            wait_for(&ended, ended + 1);
            assert_failed(result, RC_IO, "timeout after ");
        }
        http_client_close(client);
    }
}

static void
invalid_urls_are_errors(void **state)
{
    static const char *const URLS[] = {
        "",        "nonsense",    "ftp://127.0.0.1/", "file:///etc/passwd",
        "http://", "http://a b/", "http://[::1/",     "https://:443/"};

    (void)state;
    for (size_t i = 0; i < sizeof(URLS) / sizeof(URLS[0]); i++)
        assert_failed(get(&local, URLS[i]), RC_BAD, "");
    assert_failed(get(&local, "http://b\xc3\xbc"
                              "cher.test/"),
                  RC_BAD, "Punycode");
}

/* ---- TLS and HTTP/2 */

static void
certificate_is_verified(void **state)
{
    struct http_client_settings system_only = local;

    (void)state;
    system_only.ca_file = NULL;
    assert_status(get(&local, url_of("https", "good.test", HTTPS, "ok")), 200);
    assert_status(get(&local, url_of("https", "127.0.0.1", HTTPS, "ok")), 200);
    assert_failed(get(&system_only, url_of("https", "127.0.0.1", HTTPS, "ok")), RC_IO,
                  "unable to get local issuer certificate");
    assert_failed(get(&local, url_of("https", "127.0.0.1", UNKNOWN, "ok")), RC_IO,
                  "unable to get local issuer certificate");
    assert_failed(get(&local, url_of("https", "127.0.0.1", EXPIRED, "ok")), RC_IO,
                  "certificate has expired");
    assert_failed(get(&local, url_of("https", "127.0.0.1", MISMATCH, "ok")), RC_IO,
                  "no alternative certificate subject name matches");
    assert_failed(get(&local, url_of("https", "127.0.0.1", HTTP, "ok")), RC_IO, "SSL");
}

static void
http_2_is_used_if_the_server_offers_it(void **state)
{
    struct result result = get(&local, url_of("https", "good.test", HTTP2, "echo"));

    (void)state;
    assert_status(result, 200);
    assert_memory_equal(result.body, "GET 2.0 {", 9);
}

/* ---- addresses */

static void
other_than_public_addresses_are_rejected(void **state)
{
    static const char *const HOSTS[] = {"127.0.0.1",
                                        "127.1",
                                        "0x7f000001",
                                        "0x7f.1",
                                        "0177.0.0.1",
                                        "2130706433",
                                        "017700000001",
                                        "127.0.0.1.",
                                        "0",
                                        "0.0.0.0",
                                        "10.0.0.1",
                                        "169.254.169.254",
                                        "192.168.1.1",
                                        "100.64.0.1",
                                        "224.0.0.1",
                                        "198.18.0.1",
                                        "[::1]",
                                        "[::]",
                                        "[::ffff:127.0.0.1]",
                                        "[::ffff:7f00:1]",
                                        "[0:0:0:0:0:ffff:127.0.0.1]",
                                        "[::127.0.0.1]",
                                        "[64:ff9b::7f00:1]",
                                        "[2002:7f00:1::]",
                                        "[fe80::1]",
                                        "[fc00::1]",
                                        "[ff02::1]",
                                        "%31%32%37.0.0.1",
                                        "good.test",
                                        "GOOD.test.",
                                        "user@127.0.0.1",
                                        "first_is_closed.test"};
    struct http_client_settings strict = local;
    int connections = count_of("connections");

    (void)state;
    strict.allow_private = false;
    for (size_t i = 0; i < sizeof(HOSTS) / sizeof(HOSTS[0]); i++) {
        struct result result = get(&strict, url_of("http", HOSTS[i], HTTP, "ok"));

        if (result.rc == RC_OK || result.rc == RC_IO)
            fail_msg("%s: rc %d, status %d, \"%s\"", HOSTS[i], result.rc, result.status,
                     result.error);
    }
    assert_failed(get(&strict, url_of("http", "127.1", HTTP, "ok")), RC_BAD,
                  "address is not public: 127.0.0.1");
    assert_int_equal(count_of("connections"), connections + 1); /* of count_of */
}

/* The lookup is valid for a minute: then the name has another address. */
static void
address_is_checked_after_each_lookup(void **state)
{
    struct http_client_settings strict = local;
    struct http_client *client;
    struct result result = {.calls = 0};
    int lookups;

    (void)state;
    strict.allow_private = false;
    client = http_client_open(loop, &strict);
    /* a public address of a network without hosts, so that no attempt to connect succeeds */
    (void)snprintf(names->rebind, ADDRESS_MAX, "192.31.196.1");
    /* A busy machine may need longer than the timeout for the lookup. */
    for (int64_t ms = 30; result.calls == 0 || strstr(result.error, "resolving the host") != NULL;
         ms *= 2) {
        if (ms >= LONG_MS)
            fail_msg("%s", result.error);
        (void)start(client, url_of("http", "rebind.test", HTTP, "ok"), ms, &result);
        wait_for(&ended, ended + 1);
        assert_int_equal(result.rc, RC_IO);
    }
    lookups = names->lookups;
    (void)snprintf(names->rebind, ADDRESS_MAX, "127.0.0.1");
    clock_offset_us += INT64_C(59000000);
    (void)start(client, url_of("http", "rebind.test", HTTP, "ok"), 30, &result);
    wait_for(&ended, ended + 1);
    assert_int_equal(result.rc, RC_IO);
    clock_offset_us += INT64_C(61000000);
    result = run(client, url_of("http", "rebind.test", HTTP, "ok"));
    assert_failed(result, RC_BAD, "address is not public: 127.0.0.1");
    assert_int_equal(names->lookups, lookups + 1);
    http_client_close(client);
}

static void
requests_share_lookups_and_connections(void **state)
{
    struct http_client *client = http_client_open(loop, &local);
    struct result results[20] = {{.calls = 0}};
    int lookups = names->lookups, connections = count_of("connections"), before = ended;

    (void)state;
    for (int i = 0; i < 20; i++)
        (void)start(client, url_of("http", i % 2 == 0 ? "good.test" : "GOOD.Test.", HTTP, "ok"),
                    LONG_MS, &results[i]);
    wait_for(&ended, before + 20);
    assert_status(run(client, url_of("http", "good.test", HTTP, "ok")), 200);
    http_client_close(client);
    assert_int_equal(names->lookups, lookups + 1);
    assert_in_range(count_of("connections"), connections + 2, connections + 1 + 8);
}

/* ---- proxies */

static void
environment_selects_no_proxy(void **state)
{
    static const char *const VARIABLES[] = {"http_proxy", "HTTPS_PROXY", "https_proxy",
                                            "all_proxy"};
    char proxy[64];

    (void)state;
    (void)snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", ports[PROXY]);
    for (int i = 0; i < 4; i++)
        setenv(VARIABLES[i], proxy, 1);
    assert_status(get_local("ok"), 200);
    assert_status(get(&local, url_of("https", "127.0.0.1", HTTPS, "ok")), 200);
    for (int i = 0; i < 4; i++)
        unsetenv(VARIABLES[i]);
    assert_int_equal(count_of("proxied") + count_of("tunnels"), 0);
}

static void
proxy_resolves_and_checks_the_servers(void **state)
{
    char proxy[64];
    struct http_client_settings settings = local;
    struct result result;
    int lookups = names->lookups;

    (void)state;
    settings.allow_private = false;
    (void)snprintf(proxy, sizeof(proxy), "http://good.test:%d", ports[PROXY]);
    settings.proxy = proxy;
    setenv("no_proxy", "*", 1);
    assert_status(get(&settings, url_of("http", "unknown.test", HTTP, "ok")), 200);
    assert_int_equal(count_of("proxied"), 1);
    result = get(&settings, url_of("https", "good.test", HTTPS, "ok"));
    assert_status(result, 200);
    assert_string_equal(result.header, "7");
    assert_int_equal(count_of("tunnels"), 1);
    assert_int_equal(names->lookups, lookups + 2); /* of the proxy, by two clients */
    assert_failed(get(&settings, url_of("https", "127.0.0.1", MISMATCH, "ok")), RC_IO,
                  "no alternative certificate subject name matches");
    (void)snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", ports[PROXY]);
    assert_status(get(&settings, url_of("http", "127.0.0.1", HTTP, "ok")), 200);
    assert_int_equal(count_of("proxied"), 2);
    unsetenv("no_proxy");
}

/* ---- limits */

static int most_descriptors;

static void
count_descriptors(void *ctx, const struct http_response *response)
{
    int descriptors = entries_of("/proc/self/fd");

    if (descriptors > most_descriptors)
        most_descriptors = descriptors;
    on_done(ctx, response);
}

static void
thousand_requests_share_a_bounded_number_of_connections(void **state)
{
    static struct result results[MANY];
    struct http_client *client = http_client_open(loop, &local);
    int descriptors = entries_of("/proc/self/fd"), before = ended;

    (void)state;
    memset(results, 0, sizeof(results));
    for (int i = 0; i < MANY; i++) {
        struct http_request_params params = {
            .method = HTTP_REQUEST_POST,
            .url = url_of("http", i % 2 == 0 ? "good.test" : "127.0.0.1", HTTP, "late"),
            .body = "{}",
            .body_len = 2,
            .timeout_ms = LONG_MS * 10};

        (void)http_request_start(client, &params, count_descriptors, &results[i]);
    }
    wait_for(&ended, before + MANY);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(results[i].calls, 1);
        assert_status(results[i], 200);
    }
    assert_true(most_descriptors <= descriptors + 16 + 2);
    http_client_close(client);
    assert_int_equal(entries_of("/proc/self/fd"), descriptors);
}

/* Eight requests to a server that hangs use all connections of that host, but not of the client. */
static void
host_that_hangs_does_not_delay_other_hosts(void **state)
{
    static struct result results[MANY];
    struct http_client *client = http_client_open(loop, &local);
    int requests = count_of("requests");

    (void)state;
    memset(results, 0, sizeof(results));
    for (int i = 0; i < 50; i++)
        (void)start(client, url_of("http", "127.0.0.1", HTTP, "hang"), LONG_MS * 10, &results[i]);
    assert_status(run(client, url_of("http", "good.test", HTTP, "ok")), 200);
    wait_for_requests(requests + 9);
    assert_int_equal(results[0].calls, 0);
    http_client_close(client);
    assert_int_equal(count_of("requests"), requests + 9);
}

static void
hosts_are_served_in_turn(void **state)
{
    struct http_client_settings narrow = local;
    struct http_client *client;
    struct result many = {.calls = 0}, other = {.calls = 0};
    int before = ended;

    (void)state;
    narrow.connections = 1;
    client = http_client_open(loop, &narrow);
    for (int i = 0; i < 10; i++)
        (void)start(client, url_of("http", "127.0.0.1", HTTP, "late"), LONG_MS, &many);
    (void)start(client, url_of("http", "127.1.0.1", HTTP, "late"), LONG_MS, &other);
    wait_for(&other.calls, 1);
    assert_int_equal(many.calls, 1);
    wait_for(&ended, before + 11);
    http_client_close(client);
}

/* ---- cancellation */

static void
cancel_works_in_each_phase(void **state)
{
    struct http_client_settings narrow = local;
    struct http_client *client;
    struct http_request *all[6];
    struct result result = {.calls = 0};
    int before, requests = count_of("requests");

    (void)state;
    narrow.host_connections = 2;
    client = http_client_open(loop, &narrow);
    all[0] = start(client, url_of("http", "silent.test", HTTP, "ok"), LONG_MS, &result);
    all[1] = start(client, url_of("https", "127.0.0.1", SILENT, "ok"), LONG_MS, &result);
    all[2] = start(client, url_of("http", "127.0.0.1", HTTP, "hang"), LONG_MS, &result);
    all[3] = start(client, url_of("http", "127.0.0.1", HTTP, "slow"), LONG_MS, &result);
    all[4] = start(client, url_of("http", "127.0.0.1", HTTP, "ok"), LONG_MS, &result); /* waits */
    wait_for_requests(requests + 2);
    before = ended;
    all[5] = start(client, "nonsense", LONG_MS, &result); /* has ended */
    for (int i = 5; i >= 0; i--)
        http_request_cancel(all[i]);
    http_request_cancel(NULL);
    assert_int_equal(ended, before);
    assert_status(run(client, url_of("http", "127.0.0.1", HTTP, "ok")), 200);
    assert_int_equal(result.calls, 0);
    http_client_close(client);
    assert_int_equal(waitpid(server_pid, NULL, WNOHANG), 0); /* the only child process */
    assert_int_equal(count_of("requests"), requests + 3);
}

static struct http_request *other_request;
static struct http_client *shared_client;

static void
cancel_other(void *ctx, const struct http_response *response)
{
    on_done(ctx, response);
    http_request_cancel(other_request);
    (void)start(shared_client, url_of("http", "127.0.0.1", HTTP, "ok"), LONG_MS, ctx);
}

static void
callback_may_cancel_and_start_requests(void **state)
{
    struct http_request_params params = {.url = "nonsense", .timeout_ms = LONG_MS};
    struct result first = {.calls = 0}, other = {.calls = 0};
    int before = ended;

    (void)state;
    shared_client = http_client_open(loop, &local);
    (void)http_request_start(shared_client, &params, cancel_other, &first);
    other_request = http_request_start(shared_client, &params, on_done, &other);
    wait_for(&ended, before + 2);
    assert_status(first, 200);
    assert_int_equal(first.calls, 2);
    assert_int_equal(other.calls, 0);
    http_client_close(shared_client);
}

static void
close_ends_requests_without_callbacks(void **state)
{
    static const char *const PATHS[] = {"ok", "hang", "slow", "die", "big", "endless_head"};
    struct http_client *client = http_client_open(loop, &local);
    struct result result = {.calls = 0};
    int requests = count_of("requests"), before;

    (void)state;
    for (int i = 0; i < 12; i++)
        (void)start(client, url_of("http", i < 6 ? "127.0.0.1" : "good.test", HTTP, PATHS[i % 6]),
                    LONG_MS, &result);
    wait_for_requests(requests + 6);
    before = result.calls;
    http_client_close(client);
    http_client_close(NULL);
    assert_int_equal(count_of("followed"), 0); /* runs the loop */
    assert_int_equal(result.calls, before);
}

/* The first round fills caches of libcurl and of OpenSSL. */
static void
memory_does_not_grow(void **state)
{
    static const char *const PATHS[] = {"ok", "status/500", "die", "reset", "big", "redirect"};
    size_t before = 0;

    (void)state;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 6; i++) {
            (void)get_local(PATHS[i]);
            (void)get(&local, url_of("https", "good.test", HTTPS, PATHS[i]));
            (void)get(&local, url_of("https", "good.test", HTTP2, "ok"));
            (void)get(&local, url_of("https", "good.test", EXPIRED, "ok"));
        }
        if (round == 0)
            before = __sanitizer_get_current_allocated_bytes();
    }
    assert_true(__sanitizer_get_current_allocated_bytes() <= before + 4096);
}

/* An idle client has allocated nothing in libcurl. */
static void
unused_client_is_small(void **state)
{
    size_t before = __sanitizer_get_current_allocated_bytes();
    struct http_client *client = http_client_open(loop, &local);

    (void)state;
    assert_true(__sanitizer_get_current_allocated_bytes() < before + 1024);
    http_client_close(client);
}

static int
start_all(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN); /* as in the relay */
    test_pid = getpid();
    names = mmap(NULL, sizeof(*names), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(names != MAP_FAILED);
    loop = ev_loop_new(EVFLAG_AUTO);
    start_server();
    return 0;
}

static int
stop_all(void **state)
{
    (void)state;
    close(server_input);
    assert_int_equal(waitpid(server_pid, NULL, 0), server_pid);
    ev_loop_destroy(loop);
    return munmap(names, sizeof(*names));
}

static int
assert_one_thread(void **state)
{
    (void)state;
    assert_int_equal(entries_of("/proc/self/task"), 0); /* entries_of subtracts one too many */
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, assert_one_thread)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(unused_client_is_small),
        TEST(response_has_status_body_and_the_wanted_header),
        TEST(method_headers_and_body_are_sent),
        TEST(redirect_is_not_followed),
        TEST(rest_of_a_long_body_is_not_read),
        TEST(failures_of_a_server_are_errors),
        TEST(second_address_is_used_if_the_first_fails),
        TEST(timeout_names_the_phase),
        TEST(invalid_urls_are_errors),
        TEST(certificate_is_verified),
        TEST(http_2_is_used_if_the_server_offers_it),
        TEST(other_than_public_addresses_are_rejected),
        TEST(address_is_checked_after_each_lookup),
        TEST(requests_share_lookups_and_connections),
        TEST(environment_selects_no_proxy),
        TEST(proxy_resolves_and_checks_the_servers),
        TEST(thousand_requests_share_a_bounded_number_of_connections),
        TEST(host_that_hangs_does_not_delay_other_hosts),
        TEST(hosts_are_served_in_turn),
        TEST(cancel_works_in_each_phase),
        TEST(callback_may_cancel_and_start_requests),
        TEST(close_ends_requests_without_callbacks),
        TEST(memory_does_not_grow),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
