/* check_gate.c: the doctor's checks of the gate: its origins and the running relay. */
#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "doctor/doctor_private.h"

#define GATE "gate"
#define UNIX_PREFIX "unix:"
#define WEB_PUSH_KEY_HINT                                                                          \
    "Subscriptions were made with another key, or webpush.subject is no address: see "             \
    "ClaironWebPushRefused in RUNBOOKS.md"
#define WEB_PUSH_HINT "See the responses in the relay's log, at component=webpush"
#define REPLY_MAX (128 * 1024) /* more than /metrics */
#define REQUEST_MAX 1024
#define HOST_MAX 256
#define REASON_MAX 256
#define ORIGIN_TEXT_MAX 256
#define ORIGINS_TRIED_MAX 16
#define TIMEOUT_S 5
#define RECENT_S 300

/* The last request to the running relay. Each request opens a connection. */
struct gate_probe {
    const struct config *config;
    const char *listen;      /* the address of the relay */
    char reason[REASON_MAX]; /* why there is no HTTP reply */
    char reply[REPLY_MAX];   /* status line, headers and body */
};

static int
connect_with_timeout(struct gate_probe *probe, int family, const struct sockaddr *address,
                     socklen_t len)
{
    const struct timeval timeout = {.tv_sec = TIMEOUT_S};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0 &&
        connect(fd, address, len) == 0)
        return fd;
    snprintf(probe->reason, sizeof(probe->reason), "%s",
             errno == EINPROGRESS ? "timed out after 5 s" : strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

static int
connect_unix(struct gate_probe *probe, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path)) {
        snprintf(probe->reason, sizeof(probe->reason), "path too long");
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    return connect_with_timeout(probe, AF_UNIX, (const struct sockaddr *)&address, sizeof(address));
}

/* A relay that listens on all addresses also accepts connections on loopback. */
static const char *
reachable(const char *host)
{
    if (host[0] == '\0' || strcmp(host, "*") == 0 || strcmp(host, "0.0.0.0") == 0)
        return "127.0.0.1";
    return strcmp(host, "::") == 0 ? "::1" : host;
}

static int
connect_port(struct gate_probe *probe, const char *listen)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    const char *colon = strrchr(listen, ':');
    struct addrinfo *found = NULL;
    char host[HOST_MAX];
    int failure, fd;
    size_t len;

    if (colon == NULL)
        return -1; /* rejected by config_check_listen */
    len = (size_t)(colon - listen);
    if (len >= 2 && listen[0] == '[') {
        listen++;
        len -= 2;
    }
    snprintf(host, sizeof(host), "%.*s", (int)len, listen);
    failure = getaddrinfo(reachable(host), colon + 1, &wanted, &found);
    if (failure != 0) {
        snprintf(probe->reason, sizeof(probe->reason), "%s", gai_strerror(failure));
        return -1;
    }
    fd = connect_with_timeout(probe, found->ai_family, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return fd;
}

static size_t
exchange_plain(int fd, const char *request, char reply[REPLY_MAX])
{
    size_t len = 0, request_len = strlen(request);
    ssize_t got = send(fd, request, request_len, MSG_NOSIGNAL);

    while (got > 0 && len + 1 < REPLY_MAX) {
        got = recv(fd, reply + len, REPLY_MAX - 1 - len, 0);
        len += got > 0 ? (size_t)got : 0;
    }
    return len;
}

/* Does not verify the certificate: the settings check covers it, and the relay is local. */
static size_t
exchange_tls(int fd, const char *request, char reply[REPLY_MAX])
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = context != NULL ? SSL_new(context) : NULL;
    size_t len = 0;
    int got = 0;

    if (ssl != NULL && SSL_set_fd(ssl, fd) == 1 && SSL_connect(ssl) == 1)
        got = SSL_write(ssl, request, (int)strlen(request));
    while (got > 0 && len + 1 < REPLY_MAX) {
        got = SSL_read(ssl, reply + len, (int)(REPLY_MAX - 1 - len));
        len += got > 0 ? (size_t)got : 0;
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
    return len;
}

/* Returns false, with the reason in probe->reason, if there is no HTTP reply. */
static bool
exchange(struct gate_probe *probe, const char *request)
{
    const char *listen = probe->listen;
    size_t prefix_len = strlen(UNIX_PREFIX), len;
    int fd = strncmp(listen, UNIX_PREFIX, prefix_len) == 0
                 ? connect_unix(probe, listen + prefix_len)
                 : connect_port(probe, listen);

    if (fd < 0)
        return false;
    len = probe->config->gate.tls_cert != NULL ? exchange_tls(fd, request, probe->reply)
                                               : exchange_plain(fd, request, probe->reply);
    (void)close(fd);
    probe->reply[len] = '\0';
    if (strncmp(probe->reply, "HTTP/1.", 7) == 0)
        return true;
    snprintf(probe->reason, sizeof(probe->reason), "%s",
             len == 0 ? "connected, but no reply within 5 s" : "reply is not HTTP");
    return false;
}

/* Returns the HTTP status, or 0 if the reply is not from /readyz. */
static int
read_ready(const struct gate_probe *probe, char ret_feed[32], char ret_store[32])
{
    const char *body = strstr(probe->reply, "\r\n\r\n");
    json_t *ready = body != NULL ? json_loads(body + 4, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const char *feed = json_string_value(json_object_get(ready, "feed"));
    const char *store = json_string_value(json_object_get(ready, "store"));
    bool is_draining = json_is_true(json_object_get(ready, "draining"));
    int status = feed != NULL && store != NULL ? (int)strtol(probe->reply + 9, NULL, 10) : 0;

    snprintf(ret_feed, 32, "%s", is_draining ? "draining" : feed != NULL ? feed : "");
    snprintf(ret_store, 32, "%s", store != NULL ? store : "");
    json_decref(ready);
    return status;
}

static const char *
unready_hint(const char *feed, const char *store)
{
    if (strcmp(feed, "draining") == 0)
        return "The relay is shutting down: systemctl status clairon-relay";
    if (strcmp(store, "rejects writes") == 0)
        return "The store is full, or cannot write to its disk: see the store checks";
    if (strcmp(feed, "stalled") == 0)
        return "The standby receives or replays no WAL: see the postgresql checks";
    if (strcmp(store, "up") != 0)
        return "The relay has no store connection: see the store checks, and its log: "
               "journalctl -u clairon-relay -o cat | grep component=store";
    return "The relay does not stream from PostgreSQL: see the postgresql checks, and its log: "
           "journalctl -u clairon-relay -o cat | grep component=feed";
}

/* Returns false if no relay was found. Origins are then not tested with requests. */
static bool
check_ready(struct gate_probe *probe, struct findings *findings)
{
    const char *listen = probe->config->gate.listen;
    char feed[32], store[32];
    int status;

    if (!exchange(probe, "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")) {
        findings_warn(
            findings, GATE, "relay",
            "Start the relay: systemctl start clairon-relay; it listens once its store is "
            "connected; if it uses another configuration file, pass that file with -c",
            "no relay found at %s: %s", listen, probe->reason);
        return false;
    }
    status = read_ready(probe, feed, store);
    if (status == 0) {
        findings_add(findings, GATE, "relay", false,
                     "Stop the program that listens there, or choose another gate.listen",
                     "the program that listens on %s is not a relay", listen);
        return false;
    }
    /* Without a feed the relay is ready, because it serves its clients from the store. */
    findings_add(findings, GATE, "relay",
                 status == 200 && strcmp(feed, "down") != 0 && strcmp(feed, "stalled") != 0 &&
                     strcmp(store, "up") == 0,
                 unready_hint(feed, store), "%s on %s, feed %s, store %s",
                 status == 200 ? "ready" : "not ready", listen, feed, store);
    return true;
}

/* Returns the value of a metric in the reply; 0 if it is absent. */
static double
metric_of(const struct gate_probe *probe, const char *name)
{
    char line[REASON_MAX];
    const char *at;

    snprintf(line, sizeof(line), "\n%s ", name);
    at = strstr(probe->reply, line);
    return at != NULL ? strtod(at + strlen(line), NULL) : 0.0;
}

static void
check_push_services(const struct gate_probe *probe, struct findings *findings)
{
    const double unauthorized = metric_of(probe, "clairon_webpush_refused_total{status=\"401\"}") +
                                metric_of(probe, "clairon_webpush_refused_total{status=\"403\"}");
    const double rejected = metric_of(probe, "clairon_webpush_refused_total{status=\"400\"}");

    if (unauthorized > 0.0)
        findings_warn(findings, GATE, "Web Push", WEB_PUSH_KEY_HINT,
                      "push services have refused %.0f Web Pushes with 401 or 403", unauthorized);
    if (rejected > 0.0)
        findings_warn(findings, GATE, "Web Push", WEB_PUSH_HINT,
                      "push services have refused %.0f Web Pushes with 400 or another status",
                      rejected);
}

/* Reports what the running relay counts, and no other check can see. */
static void
check_metrics(struct gate_probe *probe, struct findings *findings)
{
    const double now_s = (double)clock_wall_us() / 1e6;
    double rejected_s, groups, errors, stuck;

    if (probe->config->gate.admin_listen != NULL)
        probe->listen = probe->config->gate.admin_listen;
    if (!exchange(probe, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
        return; /* it was ready a moment ago, so it is stopping */
    rejected_s = metric_of(probe, "clairon_gate_signature_rejected_timestamp_seconds");
    groups = metric_of(probe, "clairon_groups_overage_total");
    errors = metric_of(probe, "clairon_internal_errors_total");
    stuck = metric_of(probe, "clairon_rows_stuck_queries");
    check_push_services(probe, findings);
    if (rejected_s > 0.0 && now_s - rejected_s < RECENT_S)
        findings_warn(findings, GATE, "tokens",
                      "If users cannot sign in, the application signs with another key: see "
                      "ClaironTokensRejected in RUNBOOKS.md",
                      "%.0f with an invalid signature, the last one %.0f s ago",
                      metric_of(probe, "clairon_gate_tokens_rejected_total{reason=\"signature\"}"),
                      now_s - rejected_s);
    if (groups > 0.0)
        findings_warn(findings, GATE, "groups",
                      "Let the identity provider emit only the groups that are assigned to the "
                      "application, or use its roles as groups_claim",
                      "tokens whose provider left out groups: %.0f", groups);
    if (errors > 0.0)
        findings_warn(findings, GATE, "internal errors",
                      "Report the lines of the relay's log at \"invalid transition\"",
                      "%.0f since the start of the relay", errors);
    if (stuck > 0.0)
        findings_warn(findings, GATE, "stuck queries",
                      "Queries of live rules do not end: see ClaironRowsStuck in RUNBOOKS.md",
                      "%.0f", stuck);
    probe->listen = probe->config->gate.listen;
}

/* Preflight requests need no token. */
static bool
is_admitted(struct gate_probe *probe, const char *origin)
{
    char request[REQUEST_MAX];

    snprintf(request, sizeof(request),
             "OPTIONS /v1/poll HTTP/1.1\r\nHost: localhost\r\nOrigin: %s\r\n"
             "Access-Control-Request-Method: GET\r\nConnection: close\r\n\r\n",
             origin);
    return !exchange(probe, request) || strncmp(probe->reply + 9, "403", 3) != 0;
}

static void
check_origin(struct gate_probe *probe, bool is_running, const char *origin,
             struct findings *findings)
{
    if (strcmp(origin, "*") == 0)
        findings_warn(findings, GATE, "gate.origins",
                      "Name the origins of your pages, such as https://app.example",
                      "*: pages of any website can use a stolen token");
    else if (is_running && strchr(origin, '*') == NULL && !is_admitted(probe, origin))
        findings_add(findings, GATE, "gate.origins", false,
                     "The relay runs with older settings: systemctl restart clairon-relay",
                     "the running relay rejects origin %s", origin);
    else
        findings_add(findings, GATE, "gate.origins", true, NULL, "%s", origin);
}

static void
check_origins(struct gate_probe *probe, bool is_running, struct findings *findings)
{
    const char *rest = probe->config->gate.origins;

    if (rest == NULL) {
        findings_add(findings, GATE, "gate.origins", true, NULL,
                     "not set: only pages of the relay's host");
        return;
    }
    for (int i = 0; i < ORIGINS_TRIED_MAX; i++) {
        char origin[ORIGIN_TEXT_MAX];
        size_t len;

        rest += strspn(rest, ", \t");
        len = strcspn(rest, ", \t");
        if (len == 0)
            return;
        snprintf(origin, sizeof(origin), "%.*s", (int)len, rest);
        check_origin(probe, is_running, origin, findings);
        rest += len;
    }
}

void
doctor_check_gate(const struct config *config, struct findings *findings)
{
    struct gate_probe probe = {.config = config, .listen = config->gate.listen};
    const bool is_running = check_ready(&probe, findings);

    if (is_running)
        check_metrics(&probe, findings);
    check_origins(&probe, is_running, findings);
}
