/* config_table.c: every setting of the relay: type, default, range and help; errors in settings. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/config_private.h"
#include "base/text.h"
#include "base/urls.h"

#define FIELD(field) offsetof(struct config, field)
#define SECOND ((int64_t)1000)
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define KB ((int64_t)1024)
#define MB (1024 * KB)
#define TEXT_MAX 8192
/* The push services of Chrome, Firefox, Safari and Edge. */
#define PUSH_SERVICES                                                                              \
    "https://fcm.googleapis.com, https://updates.push.services.mozilla.com, "                      \
    "https://*.push.apple.com, https://*.notify.windows.com"

/* clang-format off */
const struct config_key config_keys[] = {
    { "auth", "audience", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, NULL, FIELD(auth.claims.audience),
      "accepted aud of tokens, comma-separated; unset: tokens with aud are rejected" },
    { "auth", "audience_claim", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, NULL,
      FIELD(auth.claims.audience_claim),
      "claim that is compared with audience, a path of names joined by dots; unset: aud" },
    { "auth", "groups_claim", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, config_check_groups_claim,
      FIELD(auth.claims.groups_claim),
      "claims with the groups, [KIND=]path, comma-separated; an object has kinds, an array has "
      "groups of KIND (ROLE); unset: groups" },
    { "auth", "hs256_secret", CONFIG_TEXT, true, NULL, 0, TEXT_MAX, NULL, FIELD(auth.hs256_secret),
      "secret of HS256 tokens, at least 32 bytes; a file is safer" },
    { "auth", "hs256_secret_file", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL,
      FIELD(auth.hs256_secret_file), "file with the secret of HS256 tokens, at least 32 bytes" },
    { "auth", "issuer", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, NULL, FIELD(auth.claims.issuer),
      "required iss of tokens; unset: not checked" },
    { "auth", "jwks_allow_private", CONFIG_BOOL, false, "off", 0, 0, NULL,
      FIELD(auth.jwks_allow_private),
      "allow jwks_url with http, and private, loopback and link-local addresses" },
    { "auth", "jwks_ca", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL, FIELD(auth.jwks_ca),
      "CA certificates (PEM) to verify the servers of jwks_url, in addition to the system's" },
    { "auth", "jwks_file", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL,
      FIELD(auth.jwks.file),
      "file with the keys of tokens, a JWK Set; read again at SIGHUP" },
    { "auth", "jwks_url", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, config_check_jwks_url,
      FIELD(auth.jwks.url),
      "URL of the keys of tokens, a JWK Set; fetched again when its max-age ends, and at SIGHUP" },
    { "auth", "leeway", CONFIG_DURATION, false, "5s", 0, 600 * SECOND, NULL, FIELD(auth.leeway_ms),
      "maximum clock difference between relay and token issuer" },
    { "auth", "public_key_file", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL,
      FIELD(auth.public_key_file), "PEM file with the public key of RS256 or ES256 tokens" },
    { "auth", "required", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, config_check_required,
      FIELD(auth.claims.required),
      "claims that tokens must have, path=value, comma-separated" },
    { "auth", "user_claim", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, NULL,
      FIELD(auth.claims.user_claim),
      "claim with the user, a path; of several, comma-separated, the first that exists; "
      "unset: sub" },

    { "delivery", "ack_timeout", CONFIG_DURATION, false, "30s", 100, DAY, NULL,
      FIELD(delivery.ack_timeout_ms),
      "timeout for an acknowledgement, after which a retry is scheduled" },
    { "delivery", "backoff_base", CONFIG_DURATION, false, "1s", 10, DAY, NULL,
      FIELD(delivery.backoff_base_ms),
      "base delay before a retry, added to ack_timeout; grows with the notification's "
      "backoff" },
    { "delivery", "backoff_cap", CONFIG_DURATION, false, "5m", 10, DAY, NULL,
      FIELD(delivery.backoff_cap_ms), "maximum delay before a retry, also after a nack" },
    { "delivery", "expiring", CONFIG_DURATION, false, "60s", 0, HOUR, NULL,
      FIELD(delivery.expiring_ms),
      "interval between the expiring frame and the token's expiration; at most a fifth of the "
      "token's lifetime" },
    { "delivery", "hide_targets", CONFIG_BOOL, false, "off", 0, 0, NULL,
      FIELD(delivery.hide_targets),
      "empty routing.audience.targets in delivered notifications" },
    { "delivery", "resume_pages", CONFIG_INT, false, "100", 0, 100000, NULL,
      FIELD(delivery.resume_pages),
      "maximum pages (256 kB) read from the store per second by one user's resuming sessions; "
      "0: no limit" },
    { "delivery", "shed_bytes", CONFIG_SIZE, false, "256MB", 0, 1024 * 1024 * MB, NULL,
      FIELD(delivery.shed_bytes),
      "bytes in all outbound queues at which REALTIME notifications of LOW, then NORMAL priority "
      "are dropped; 0: never" },
    { "delivery", "shed_lag", CONFIG_DURATION, false, "5s", 0, HOUR, NULL,
      FIELD(delivery.shed_lag_ms),
      "queueing delay at which REALTIME notifications of LOW, then NORMAL priority are dropped;"
      " 0: never" },
    { "delivery", "window", CONFIG_INT, false, "64", 1, 10000, NULL, FIELD(delivery.window),
      "maximum unacknowledged notifications per connection" },

    { "feed", "conninfo", CONFIG_TEXT, true, NULL, 0, TEXT_MAX, config_check_conninfo,
      FIELD(feed.conninfo), "libpq connection string of the server to decode on, a standby or "
      "primary" },
    { "feed", "create_slot", CONFIG_BOOL, false, "true", 0, 0, NULL, FIELD(feed.create_slot),
      "automatic creation of a missing replication slot" },
    { "feed", "create_timeout", CONFIG_DURATION, false, "5m", SECOND, DAY, NULL,
      FIELD(feed.create_timeout_ms),
      "time limit for creating the slot on a standby, before a retry" },
    { "feed", "owner_bytes", CONFIG_SIZE, false, "64MB", MB, 1024 * MB, NULL,
      FIELD(feed.owner_bytes),
      "notifications per minute of one table owner without clairon_app, in addition to "
      "owner_wal_factor" },
    { "feed", "owner_memory", CONFIG_SIZE, false, "64MB", MB, 1024 * MB, NULL,
      FIELD(feed.owner_memory), "walsender's memory for the prepared rules of one table owner" },
    { "feed", "owner_pairs", CONFIG_INT, false, "250000", 1000, 1000000000, NULL,
      FIELD(feed.owner_pairs),
      "users who must acknowledge per minute, beyond 16 a change, for one table owner "
      "without clairon_app" },
    { "feed", "owner_time", CONFIG_DURATION, false, "500ms", 100, HOUR, NULL,
      FIELD(feed.owner_time_ms),
      "walsender's CPU time in reserve for the rules of one table owner, beyond a tenth of the "
      "elapsed time" },
    { "feed", "owner_wal_factor", CONFIG_INT, false, "4", 1, 1000, NULL,
      FIELD(feed.owner_wal_factor),
      "bytes of notifications of one table owner without clairon_app, per byte of WAL" },
    { "feed", "primary_conninfo", CONFIG_TEXT, true, NULL, 0, TEXT_MAX, config_check_conninfo,
      FIELD(feed.primary_conninfo),
      "libpq connection string of the standby's primary, to request the snapshot for a new "
      "slot; unset: the primary is not contacted" },
    { "feed", "slot", CONFIG_TEXT, false, "clairon", 1, 63, config_check_slot, FIELD(feed.slot),
      "name of the replication slot" },
    { "feed", "topic_prefix", CONFIG_TEXT, false, NULL, 0, 255, NULL, FIELD(feed.topic_prefix),
      "prefix of topics; unset: the database name" },

    { "gate", "admin_listen", CONFIG_TEXT, false, NULL, 0, 255, config_check_listen,
      FIELD(gate.admin_listen),
      "separate listen address for /metrics, /console and the requests of operators, which are "
      "then not served on gate.listen; also without the role gate; host:port, [v6]:port or "
      "unix:/path" },
    { "gate", "connect_rate", CONFIG_INT, false, "2000", 0, 1000000, NULL, FIELD(gate.connect_rate),
      "maximum new WebSocket and SSE connections per second of this process; by default not "
      "applied to proxies; 0: no limit" },
    { "gate", "connect_timeout", CONFIG_DURATION, false, "10s", 100, 600 * SECOND, NULL,
      FIELD(gate.connect_timeout_ms),
      "time limit for a client's TLS ClientHello, TLS handshake, request head, request body, and "
      "connect frame, each" },
    { "gate", "console", CONFIG_BOOL, false, "off", 0, 0, NULL, FIELD(gate.console),
      "status page at /console; its data requires a token with the claim admin" },
    { "gate", "drain", CONFIG_DURATION, false, "30s", 0, 600 * SECOND, NULL, FIELD(gate.drain_ms),
      "graceful shutdown period" },
    { "gate", "keepalive", CONFIG_DURATION, false, "65s", 100, 600 * SECOND, NULL,
      FIELD(gate.keepalive_ms), "time for which an HTTP connection waits for its next request" },
    { "gate", "listen", CONFIG_TEXT, false, "127.0.0.1:8080", 1, 255, config_check_listen,
      FIELD(gate.listen), "listen address: host:port, [v6]:port or unix:/path" },
    { "gate", "max_connections", CONFIG_INT, false, "19000", 1, 1000000, NULL,
      FIELD(gate.max_connections), "maximum client connections of this process" },
    { "gate", "max_frame_bytes", CONFIG_SIZE, false, "64kB", 256, MB, NULL,
      FIELD(gate.max_frame_bytes), "maximum size of a client's WebSocket frame; at most 20 kB "
      "before connect" },
    { "gate", "max_per_address", CONFIG_INT, false, "5000", 0, 1000000, NULL,
      FIELD(gate.max_per_address),
      "maximum client connections of this process per address, or per /64 of IPv6; by default "
      "not applied to loopback, private addresses and proxies; 0: no limit" },
    { "gate", "max_per_user", CONFIG_INT, false, "1000", 0, 1000000, NULL, FIELD(gate.max_per_user),
      "maximum client connections of this process per user; 0: no limit" },
    { "gate", "message_rate", CONFIG_INT, false, "1000", 0, 1000000, NULL, FIELD(gate.message_rate),
      "maximum messages per second from one client; 0: no limit" },
    { "gate", "notice", CONFIG_DURATION, false, "2s", 0, 600 * SECOND, NULL, FIELD(gate.notice_ms),
      "time before the graceful shutdown in which clients are still accepted, while /readyz "
      "responds with 503" },
    { "gate", "origins", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, config_check_origins,
      FIELD(gate.origins),
      "allowed origins, scheme://host[:port] comma-separated, or *; unset: the same host" },
    { "gate", "ping", CONFIG_DURATION, false, "25s", 100, HOUR, NULL, FIELD(gate.ping_ms),
      "interval between pings" },
    { "gate", "pong_timeout", CONFIG_DURATION, false, "10s", 100, HOUR, NULL,
      FIELD(gate.pong_timeout_ms), "time limit for the reply to a ping" },
    { "gate", "request_rate", CONFIG_INT, false, "5000", 0, 1000000, NULL, FIELD(gate.request_rate),
      "maximum HTTP requests per second of this process per user; for upgrades and requests "
      "without a valid token, per address, by default not applied to proxies; 0: no limit" },
    { "gate", "slow_age", CONFIG_DURATION, false, "30s", 100, HOUR, NULL, FIELD(gate.slow_age_ms),
      "age of the oldest unsent notification at which a slow client is disconnected" },
    { "gate", "slow_bytes", CONFIG_SIZE, false, "1MB", KB, 1024 * MB, NULL, FIELD(gate.slow_bytes),
      "unsent bytes at which a client that reads nothing for 1 s is disconnected" },
    { "gate", "tls_cert", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL, FIELD(gate.tls_cert),
      "PEM file with the certificate chain; requires tls_key" },
    { "gate", "tls_ciphers", CONFIG_TEXT, false, "ECDHE+AESGCM:ECDHE+CHACHA20", 1, TEXT_MAX, NULL,
      FIELD(gate.tls_ciphers), "OpenSSL cipher list for TLS 1.2; TLS 1.3 uses its defaults" },
    { "gate", "tls_key", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL, FIELD(gate.tls_key),
      "PEM file with the certificate's private key" },
    { "gate", "trusted_proxies", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, config_check_networks,
      FIELD(gate.trusted_proxies), "proxies whose X-Forwarded-For is trusted: addresses, "
      "networks, or unix" },
    { "gate", "workers", CONFIG_INT, false, "1", 1, CONFIG_WORKERS_MAX, NULL, FIELD(gate.workers),
      "processes that share the listening socket; the first runs the feed" },

    { "issuer", "admin", CONFIG_BOOL, false, "off", 0, 0, NULL, FIELD(issuer.admin),
      "the claim admin of its tokens counts" },
    { "issuer", "audience", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, NULL,
      FIELD(issuer.claims.audience),
      "accepted aud of tokens, comma-separated; unset: tokens with aud are rejected" },
    { "issuer", "audience_claim", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, NULL,
      FIELD(issuer.claims.audience_claim),
      "claim that is compared with audience, a path of names joined by dots; unset: aud" },
    { "issuer", "groups_claim", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, config_check_groups_claim,
      FIELD(issuer.claims.groups_claim),
      "claims with the groups, [KIND=]path, comma-separated; an object has kinds, an array has "
      "groups of KIND (ROLE); unset: groups" },
    { "issuer", "issuer", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, NULL, FIELD(issuer.claims.issuer),
      "iss of its tokens, compared byte for byte; required" },
    { "issuer", "jwks_file", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL,
      FIELD(issuer.jwks.file),
      "file with the keys of tokens, a JWK Set; read again at SIGHUP" },
    { "issuer", "jwks_url", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, config_check_jwks_url,
      FIELD(issuer.jwks.url),
      "URL of the keys of tokens, a JWK Set; fetched again when its max-age ends, and at SIGHUP" },
    { "issuer", "publish", CONFIG_BOOL, false, "off", 0, 0, NULL, FIELD(issuer.publish),
      "the claim publish of its tokens counts" },
    { "issuer", "required", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, config_check_required,
      FIELD(issuer.claims.required),
      "claims that tokens must have, path=value, comma-separated" },
    { "issuer", "user_claim", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, NULL,
      FIELD(issuer.claims.user_claim),
      "claim with the user, a path; of several, comma-separated, the first that exists; "
      "unset: sub" },
    { "issuer", "user_prefix", CONFIG_TEXT, false, NULL, 0, 128, NULL, FIELD(issuer.user_prefix),
      "text before the user of its tokens, so that users of two issuers differ" },

    { "receipts", "conninfo", CONFIG_TEXT, true, NULL, 0, TEXT_MAX, config_check_conninfo,
      FIELD(receipts.conninfo),
      "libpq connection string of the primary, for the receipts; unset: feed.primary_conninfo, or "
      "else feed.conninfo" },
    { "receipts", "max_bytes", CONFIG_SIZE, false, "256MB", MB, 64 * 1024 * MB, NULL,
      FIELD(receipts.max_bytes), "maximum memory of the receipts in each shard" },
    { "receipts", "retention", CONFIG_DURATION, false, "7d", SECOND, 3650 * DAY, NULL,
      FIELD(receipts.retention_ms), "retention time of receipts" },
    { "receipts", "sql", CONFIG_BOOL, false, "false", 0, 0, NULL, FIELD(receipts.sql),
      "receipts as rows of the table clairon.receipt" },

    { "relay", "log_format", CONFIG_FORMAT, false, "logfmt", 0, 0, NULL, FIELD(relay.log_format),
      "log format" },
    { "relay", "log_level", CONFIG_LEVEL, false, "info", 0, 0, NULL, FIELD(relay.log_level),
      "minimum level of logged events" },
    { "relay", "roles", CONFIG_ROLES, false, "feed,gate,sink", 0, 0, NULL, FIELD(relay.roles),
      "roles of this process" },

    { "rows", "connections", CONFIG_INT, false, "4", 1, 100, NULL, FIELD(rows.connections),
      "maximum PostgreSQL connections per process for live rows" },
    { "rows", "conninfo", CONFIG_TEXT, true, NULL, 0, TEXT_MAX, config_check_conninfo,
      FIELD(rows.conninfo),
      "libpq connection string of the server for the queries of live rows; unset: "
      "feed.conninfo" },
    { "rows", "max_bytes", CONFIG_SIZE, false, "8MB", KB, 32 * MB, NULL, FIELD(rows.max_bytes),
      "maximum size of one result" },
    { "rows", "max_rows", CONFIG_INT, false, "10000", 1, 1000000, NULL, FIELD(rows.max_rows),
      "maximum rows of one result" },
    { "rows", "queue", CONFIG_INT, false, "1000", 1, 100000, NULL, FIELD(rows.queue),
      "maximum queued requests for rows per process" },
    { "rows", "timeout", CONFIG_DURATION, false, "5s", 100, HOUR, NULL, FIELD(rows.timeout_ms),
      "timeout of a query, and of its wait in the queue" },

    { "sink", "proxy", CONFIG_TEXT, true, NULL, 0, TEXT_MAX, config_check_proxy,
      FIELD(sink.proxy), "proxy for the requests to webhook.url and push services: "
      "http://[user:password@]host:port; it decides which addresses they may reach" },

    { "store", "min_replicas", CONFIG_INT, false, "0", 0, 16, NULL, FIELD(store.min_replicas),
      "replicas of each primary that must have stored a change before its WAL is confirmed to "
      "PostgreSQL; 1 by default with redis+cluster:// and redis+sentinel://" },
    { "store", "prefix", CONFIG_TEXT, false, "clairon", 1, 64, config_check_prefix,
      FIELD(store.prefix), "prefix of the store's keys" },
    { "store", "publish_sync", CONFIG_BOOL, false, "off", 0, 0, NULL, FIELD(store.publish_sync),
      "delay of the response to POST /v1/notifications until the notification is on the store's "
      "disk and on min_replicas replicas: 2 s, or up to 1 s with appendfsync always" },
    { "store", "retention", CONFIG_DURATION, false, "7d", SECOND, 3650 * DAY, NULL,
      FIELD(store.retention_ms), "retention time of the stream" },
    { "store", "sentinel_password_file", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL,
      FIELD(store.sentinel_password_file), "file with the password of the sentinels" },
    { "store", "sentinel_user", CONFIG_TEXT, false, NULL, 0, 255, NULL, FIELD(store.sentinel_user),
      "user of the sentinels; requires sentinel_password_file" },
    { "store", "shards", CONFIG_INT, false, "1", 1, 16, NULL, FIELD(store.shards),
      "number of shards of the store; fixed while it has data; 16 by default with "
      "redis+cluster://" },
    { "store", "tls_ca", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL, FIELD(store.tls_ca),
      "CA certificates (PEM) to verify the store; unset: the system's" },
    { "store", "tls_cert", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL,
      FIELD(store.tls_cert),
      "PEM file with the relay's client certificate, for a store that requires one; requires "
      "tls_key" },
    { "store", "tls_key", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL, FIELD(store.tls_key),
      "PEM file with the client certificate's private key" },
    { "store", "url", CONFIG_TEXT, true, "redis://127.0.0.1:6379", 1, TEXT_MAX, config_check_url,
      FIELD(store.url), URLS_FORM },

    { "webhook", "allow_private", CONFIG_BOOL, false, "false", 0, 0, NULL,
      FIELD(webhook.allow_private),
      "http URLs, and private, loopback and link-local addresses" },
    { "webhook", "batch", CONFIG_INT, false, "100", 1, 1000, NULL, FIELD(webhook.batch),
      "maximum receipts of a request" },
    { "webhook", "ca_file", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL,
      FIELD(webhook.ca_file),
      "CA certificates (PEM) to verify the endpoint, in addition to the system's" },
    { "webhook", "concurrency", CONFIG_INT, false, "4", 1, 100, NULL, FIELD(webhook.concurrency),
      "maximum requests in progress" },
    { "webhook", "outcomes", CONFIG_TEXT, false, NULL, 0, 255, config_check_outcomes,
      FIELD(webhook.outcomes), "outcomes that are sent, comma-separated; unset: all" },
    { "webhook", "secret_file", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL,
      FIELD(webhook.secret_file),
      "file with the signing secret, whsec_ and base64; with two lines, both sign" },
    { "webhook", "timeout", CONFIG_DURATION, false, "10s", 100, 600 * SECOND, NULL,
      FIELD(webhook.timeout_ms), "time limit of a request" },
    { "webhook", "url", CONFIG_TEXT, true, NULL, 0, TEXT_MAX, config_check_webhook_url,
      FIELD(webhook.url),
      "endpoint to which receipts are sent: https://host[:port]/path; requires secret_file" },

    { "webpush", "allow_private", CONFIG_BOOL, false, "off", 0, 0, NULL,
      FIELD(webpush.allow_private),
      "connections to push services at private, loopback and link-local addresses" },
    { "webpush", "app_url", CONFIG_TEXT, false, NULL, 0, 1024, config_check_app_url,
      FIELD(webpush.app_url), "URL of the application, which a click on a Web Push opens" },
    { "webpush", "ca_file", CONFIG_PATH, false, NULL, 0, CONFIG_PATH_MAX, NULL,
      FIELD(webpush.ca_file),
      "CA certificates (PEM) to verify push services, in addition to the system's" },
    { "webpush", "delay", CONFIG_DURATION, false, "2s", 0, HOUR, NULL, FIELD(webpush.delay_ms),
      "time after the commit at which a user without a session since then receives a Web Push" },
    { "webpush", "keep", CONFIG_DURATION, false, "60d", SECOND, 3650 * DAY, NULL,
      FIELD(webpush.keep_ms),
      "time after which a subscription is removed that no client has registered again" },
    { "webpush", "max_per_user", CONFIG_INT, false, "10", 1, 100, NULL,
      FIELD(webpush.max_per_user),
      "maximum subscriptions of a user; a further one replaces the oldest" },
    { "webpush", "origins", CONFIG_TEXT, false, PUSH_SERVICES, 1, TEXT_MAX,
      config_check_push_origins, FIELD(webpush.origins),
      "origins of push services, scheme://host[:port] or https://*.domain, comma-separated" },
    { "webpush", "subject", CONFIG_TEXT, false, NULL, 0, 1024, config_check_subject,
      FIELD(webpush.subject),
      "address at which push services reach the operator, mailto:you@host or https://host" },
    { "webpush", "timeout", CONFIG_DURATION, false, "10s", 100, 600 * SECOND, NULL,
      FIELD(webpush.timeout_ms), "time limit of a request to a push service" },
    { "webpush", "vapid_key_file", CONFIG_PATHS, false, NULL, 0, CONFIG_PATH_MAX, NULL,
      FIELD(webpush.vapid_key_file),
      "PEM file with the private VAPID key, printed by clairon vapid; for a rotation two, "
      "comma-separated; requires subject and app_url; unset: no Web Push" },
};
/* clang-format on */

const size_t config_key_count = sizeof config_keys / sizeof config_keys[0];

_Static_assert(sizeof config_keys / sizeof config_keys[0] <= CONFIG_KEYS_MAX, "origins overflow");

const struct config_key *
config_key_find(const char *section, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    return NULL;
}

/* The help: the most important settings first. */

/* tests/tap/settings/invalid_settings_rejected.pl checks that every key is listed once. */
static const char *const SECTIONS[] = {"feed", "store",    "auth",    "issuer",  "gate", "delivery",
                                       "rows", "receipts", "webhook", "webpush", "sink", "relay"};
static const char *const NEEDED[] = {"conninfo",        "url",       "hs256_secret_file",
                                     "public_key_file", "jwks_file", "jwks_url",
                                     "listen",          "origins"};

static const char *const type_words[] = {
    [CONFIG_TEXT] = "TEXT",   [CONFIG_BOOL] = "BOOL",     [CONFIG_INT] = "NUMBER",
    [CONFIG_SIZE] = "SIZE",   [CONFIG_ROLES] = "ROLES",   [CONFIG_DURATION] = "DURATION",
    [CONFIG_LEVEL] = "LEVEL", [CONFIG_FORMAT] = "FORMAT", [CONFIG_PATH] = "FILE",
    [CONFIG_PATHS] = "FILES",
};

static bool
is_required(const struct config_key *key)
{
    for (size_t i = 0; i < sizeof NEEDED / sizeof NEEDED[0]; i++)
        if (strcmp(key->name, NEEDED[i]) == 0)
            return true;
    return false;
}

/* Printed instead of a default if the setting is required; NULL: not required. */
static const char *
requirement(const struct config_key *key)
{
    if (strcmp(key->section, "feed") == 0 && strcmp(key->name, "conninfo") == 0)
        return "required with role feed";
    if (strcmp(key->section, "auth") == 0 &&
        (strcmp(key->name, "public_key_file") == 0 || strncmp(key->name, "hs256_secret", 12) == 0 ||
         strcmp(key->name, "jwks_file") == 0 || strcmp(key->name, "jwks_url") == 0))
        return "required with role gate: one of hs256_secret_file, hs256_secret, public_key_file, "
               "jwks_file, jwks_url, or an [issuer NAME]";
    return NULL;
}

static void
help_key(FILE *out, const struct config_key *key)
{
    const char *required = requirement(key);
    char described[CONFIG_REASON_MAX];

    config_value_describe(key, described, sizeof described);
    if (config_is_issuer_key(key))
        fprintf(out, "  %s = %s\n      %s", key->name, type_words[key->type], key->help);
    else
        fprintf(out, "  --%s.%s=%s\n      %s", key->section, key->name, type_words[key->type],
                key->help);
    if (!config_is_text(key->type) && key->check == NULL)
        fprintf(out, "; %s", described);
    if (required != NULL)
        fprintf(out, " (%s)\n", required);
    else
        fprintf(out, " (default: %s)\n", key->default_text != NULL ? key->default_text : "unset");
}

/* Prints either the settings in NEEDED, which are printed first, or all other settings. */
static void
help_keys(FILE *out, const char *section, bool required)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];

        if (strcmp(key->section, section) == 0 && is_required(key) == required)
            help_key(out, key);
    }
}

bool
config_help(FILE *out, const char *section)
{
    bool is_found = false;

    for (size_t i = 0; i < sizeof SECTIONS / sizeof SECTIONS[0]; i++) {
        if (section != NULL && strcmp(section, SECTIONS[i]) != 0)
            continue;
        if (strcmp(SECTIONS[i], "issuer") == 0)
            fprintf(out, "%s[issuer NAME], several, only in the configuration file\n",
                    is_found ? "\n" : "");
        else
            fprintf(out, "%s[%s]\n", is_found ? "\n" : "", SECTIONS[i]);
        help_keys(out, SECTIONS[i], true);
        help_keys(out, SECTIONS[i], false);
        is_found = true;
    }
    return is_found;
}

/* ---- errors, each with its origin and what is valid */

const char *
config_folder(const char *path, char text[CONFIG_FOLDER_MAX])
{
    char folder[CONFIG_FOLDER_MAX - 16];

    text[0] = '\0';
    if (path[0] != '/' && getcwd(folder, sizeof folder) != NULL)
        (void)snprintf(text, CONFIG_FOLDER_MAX, " in folder \"%s\"", folder);
    return text;
}

enum rc
config_fail(struct config_load *load, const char *format, ...)
{
    size_t len = strlen(load->error);
    va_list args;

    load->has_failed = true;
    if (len + 1 >= CONFIG_ERROR_MAX)
        return RC_BAD;
    if (len > 0)
        load->error[len++] = '\n';
    va_start(args, format);
    (void)vsnprintf(load->error + len, CONFIG_ERROR_MAX - len, format, args);
    va_end(args);
    return RC_BAD;
}

bool
config_is_invalid(const struct config_load *load, const char *section, const char *name)
{
    return load->is_invalid[config_key_find(section, name) - config_keys];
}

/* A missing setting has no line, so the message starts with the file. */
enum rc
config_fail_missing(struct config_load *load, const char *what)
{
    return config_fail(load, "%.384s%smissing setting %s",
                       load->config->path != NULL ? load->config->path : "",
                       load->config->path != NULL ? ": " : "", what);
}

enum rc
config_fail_unreadable(struct config_load *load, const char *section, const char *name,
                       const char *path, const char *reason)
{
    char where[CONFIG_WHERE_MAX], folder[CONFIG_FOLDER_MAX];

    config_where(load->config, section, name, where);
    return config_fail(load, "%s: could not read \"%.256s\"%s: %s", where, path,
                       config_folder(path, folder), reason);
}

enum rc
config_check_readable(struct config_load *load, const char *section, const char *name,
                      const char *path)
{
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

    if (path != NULL && fd < 0)
        return config_fail_unreadable(load, section, name, path, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return RC_OK;
}

void
config_variable_name(const char *section, const char *name, char *variable, size_t room)
{
    (void)snprintf(variable, room, "CLAIRON_%s_%s", section, name);
    for (; *variable != '\0'; variable++)
        *variable = (char)toupper((unsigned char)*variable);
}

void
config_where(const struct config *config, const char *section, const char *name,
             char where[CONFIG_WHERE_MAX])
{
    const struct config_key *key = config_key_find(section, name);
    char variable[128];

    switch (key != NULL ? config->origins[key - config_keys].from : ORIGIN_DEFAULT) {
    case ORIGIN_FILE:
        (void)snprintf(where, CONFIG_WHERE_MAX, "%.384s:%u: [%s] %s", config->path,
                       config->origins[key - config_keys].line, section, name);
        break;
    case ORIGIN_VARIABLE:
        config_variable_name(section, name, variable, sizeof variable);
        (void)snprintf(where, CONFIG_WHERE_MAX, "variable %s", variable);
        break;
    case ORIGIN_ARGUMENT:
        (void)snprintf(where, CONFIG_WHERE_MAX, "argument --%s.%s", section, name);
        break;
    case ORIGIN_DEFAULT:
        (void)snprintf(where, CONFIG_WHERE_MAX, "[%s] %s", section, name);
        break;
    }
}

/* Suggestions for an unknown name. */

static void
text_add(char *text, size_t room, const char *more)
{
    size_t len = strlen(text);

    (void)snprintf(text + len, room - len, "%s", more);
}

/* A known name in the wrong section is a better match than a similar name. */
static size_t
key_distance(const struct config_key *key, const char *section, const char *name)
{
    return 2 * suggest_distance(key->name, name) + (strcmp(key->section, section) != 0);
}

static void
add_nearest(const char *section, const char *name, char *text, size_t room)
{
    const char *before = "did you mean [";
    size_t best = 2 * (strlen(name) / 2) + 1;

    for (size_t i = 0; i < config_key_count; i++)
        if (key_distance(&config_keys[i], section, name) < best)
            best = key_distance(&config_keys[i], section, name);
    for (size_t i = 0; i < config_key_count; i++) {
        if (key_distance(&config_keys[i], section, name) != best)
            continue;
        text_add(text, room, before);
        text_add(text, room, config_keys[i].section);
        text_add(text, room, "] ");
        text_add(text, room, config_keys[i].name);
        before = " or [";
    }
    if (*text != '\0')
        text_add(text, room, "? ");
}

static void
add_nearest_section(const char *section, char *text, size_t room)
{
    const char *names[CONFIG_KEYS_MAX] = {NULL}, *nearest;

    for (size_t i = 0; i < config_key_count; i++)
        names[i] = config_keys[i].section;
    nearest = suggest_word(section, names, config_key_count);
    for (size_t i = 0; i < config_key_count; i++)
        if (strcasecmp(section, config_keys[i].section) == 0)
            nearest = config_keys[i].section;
    if (nearest == NULL || strcmp(nearest, section) == 0)
        return;
    text_add(text, room, "did you mean [");
    text_add(text, room, nearest);
    text_add(text, room, "]? ");
}

/* Lists the keys of the section, or all sections if it does not exist. */
static void
add_valid(const char *section, char *text, size_t room)
{
    const char *before = "";
    size_t start = strlen(text);

    text_add(text, room, "[");
    text_add(text, room, section);
    text_add(text, room, "] has ");
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0) {
            text_add(text, room, before);
            text_add(text, room, config_keys[i].name);
            before = ", ";
        }
    if (*before != '\0')
        return;
    text[start] = '\0';
    text_add(text, room, "sections are ");
    for (size_t i = 0; i < config_key_count; i++)
        if (i == 0 || strcmp(config_keys[i].section, config_keys[i - 1].section) != 0) {
            text_add(text, room, before);
            text_add(text, room, config_keys[i].section);
            before = ", ";
        }
}

void
config_key_suggest(const char *section, const char *name, char *text, size_t room)
{
    *text = '\0';
    if (*name == '\0')
        add_nearest_section(section, text, room);
    else
        add_nearest(section, name, text, room);
    add_valid(section, text, room);
}
