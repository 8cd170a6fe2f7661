/* config_table.c: every setting of the relay: type, default, range and help. */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/config/config_check.h"
#include "base/config/config_load.h"
#include "base/config/config_value.h"

#define FIELD(field) offsetof(struct config, field)
#define SECOND ((int64_t)1000)
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define KB ((int64_t)1024)
#define MB (1024 * KB)
#define TEXT_MAX 8192
#define PATH_LIMIT 4095

/* clang-format off */
const struct config_key config_keys[] = {
    { "auth", "audience", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, NULL, FIELD(auth.audience),
      "what a token's aud must hold; unset: a token with aud is refused" },
    { "auth", "hs256_secret", CONFIG_TEXT, true, NULL, 0, TEXT_MAX, NULL, FIELD(auth.hs256_secret),
      "the secret of HS256 tokens, at least 32 bytes; a file keeps it better" },
    { "auth", "hs256_secret_file", CONFIG_TEXT, false, NULL, 0, PATH_LIMIT, NULL,
      FIELD(auth.hs256_secret_file), "file with the secret of HS256 tokens, at least 32 bytes" },
    { "auth", "issuer", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, NULL, FIELD(auth.issuer),
      "what a token's iss must be; unset: not looked at" },
    { "auth", "leeway", CONFIG_DURATION, false, "5s", 0, 600 * SECOND, NULL, FIELD(auth.leeway_ms),
      "how far the clocks of relay and token maker may differ" },
    { "auth", "public_key_file", CONFIG_TEXT, false, NULL, 0, PATH_LIMIT, NULL,
      FIELD(auth.public_key_file), "PEM file with the public key of RS256 or ES256 tokens" },

    { "delivery", "ack_timeout", CONFIG_DURATION, false, "30s", 100, DAY, NULL,
      FIELD(delivery.ack_timeout_ms), "how long an ack is waited for before the backoff begins" },
    { "delivery", "backoff_base", CONFIG_DURATION, false, "1s", 10, DAY, NULL,
      FIELD(delivery.backoff_base_ms),
      "first delay before a retry; the message's backoff says how it grows" },
    { "delivery", "backoff_cap", CONFIG_DURATION, false, "5m", 10, DAY, NULL,
      FIELD(delivery.backoff_cap_ms), "longest delay before a retry, also of a nack" },
    { "delivery", "expiring", CONFIG_DURATION, false, "60s", 0, HOUR, NULL,
      FIELD(delivery.expiring_ms),
      "how long before its token expires a client is told; of a short one, a fifth of it" },
    { "delivery", "hide_targets", CONFIG_BOOL, false, "off", 0, 0, NULL,
      FIELD(delivery.hide_targets),
      "empty routing.audience.targets for receivers, in place of all who get a notification" },
    { "delivery", "resume_pages", CONFIG_INT, false, "100", 0, 100000, NULL,
      FIELD(delivery.resume_pages),
      "pages (256 kB) that the sessions of one user read from the store a second; 0: no bound" },
    { "delivery", "shed_bytes", CONFIG_SIZE, false, "256MB", 0, 1024 * 1024 * MB, NULL,
      FIELD(delivery.shed_bytes),
      "unsent bytes of all clients at which LOW, then NORMAL lines of type REALTIME are left out; "
      "0: never" },
    { "delivery", "shed_lag", CONFIG_DURATION, false, "5s", 0, HOUR, NULL,
      FIELD(delivery.shed_lag_ms), "how long lines wait for CPU when the same begins; 0: never" },
    { "delivery", "window", CONFIG_INT, false, "64", 1, 10000, NULL, FIELD(delivery.window),
      "lines without their acknowledgement that a connection may hold" },

    { "feed", "conninfo", CONFIG_TEXT, true, NULL, 0, TEXT_MAX, config_check_conninfo,
      FIELD(feed.conninfo), "libpq connection string of the replica" },
    { "feed", "create_slot", CONFIG_BOOL, false, "true", 0, 0, NULL, FIELD(feed.create_slot),
      "create the replication slot when it is missing" },
    { "feed", "create_timeout", CONFIG_DURATION, false, "5m", SECOND, DAY, NULL,
      FIELD(feed.create_timeout_ms),
      "how long a new slot on a standby may take before it is begun anew" },
    { "feed", "primary_conninfo", CONFIG_TEXT, true, NULL, 0, TEXT_MAX, config_check_conninfo,
      FIELD(feed.primary_conninfo),
      "libpq connection string of a standby's primary, which a new slot has to hear from; "
      "unset: it is not asked" },
    { "feed", "slot", CONFIG_TEXT, false, "clairon", 1, 63, config_check_slot, FIELD(feed.slot),
      "name of the replication slot" },
    { "feed", "topic_prefix", CONFIG_TEXT, false, NULL, 0, 255, NULL, FIELD(feed.topic_prefix),
      "what topics begin with; unset: the database's name" },

    { "gate", "admin_listen", CONFIG_TEXT, false, NULL, 0, 255, config_check_listen,
      FIELD(gate.admin_listen),
      "address of its own for /metrics, /console and /v1/push, which listen then does not serve; "
      "also of a process without the role gate; host:port, [v6]:port or unix:/path" },
    { "gate", "connect_rate", CONFIG_INT, false, "2000", 0, 1000000, NULL, FIELD(gate.connect_rate),
      "new WebSocket and SSE connections per second to this process; the default spares proxies; "
      "0: no limit" },
    { "gate", "connect_timeout", CONFIG_DURATION, false, "10s", 100, 600 * SECOND, NULL,
      FIELD(gate.connect_timeout_ms),
      "time a client has for its connect line, or for a request's body" },
    { "gate", "console", CONFIG_BOOL, false, "off", 0, 0, NULL, FIELD(gate.console),
      "serve /console, whose data only tokens with the claim admin see" },
    { "gate", "drain", CONFIG_DURATION, false, "30s", 0, 600 * SECOND, NULL, FIELD(gate.drain_ms),
      "time over which clients are sent away at a stop" },
    { "gate", "listen", CONFIG_TEXT, false, "127.0.0.1:8080", 1, 255, config_check_listen,
      FIELD(gate.listen), "host:port, [v6]:port or unix:/path" },
    { "gate", "max_connections", CONFIG_INT, false, "19000", 1, 1000000, NULL,
      FIELD(gate.max_connections), "client connections of this process" },
    { "gate", "max_frame_bytes", CONFIG_SIZE, false, "64kB", 256, MB, NULL,
      FIELD(gate.max_frame_bytes), "maximum frame of a client; before connect 20 kB at most" },
    { "gate", "max_per_address", CONFIG_INT, false, "5000", 0, 1000000, NULL,
      FIELD(gate.max_per_address),
      "client connections of this process from one address, or one /64 of IPv6; the default spares "
      "loopback, private addresses and proxies; 0: no limit" },
    { "gate", "max_per_user", CONFIG_INT, false, "1000", 0, 1000000, NULL, FIELD(gate.max_per_user),
      "client connections of this process by one user; 0: no limit" },
    { "gate", "message_rate", CONFIG_INT, false, "1000", 0, 1000000, NULL, FIELD(gate.message_rate),
      "lines a second that a client may send; 0: no limit" },
    { "gate", "origins", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, config_check_origins,
      FIELD(gate.origins),
      "origins that may connect, scheme://host[:port] between commas, or *; unset: the same host" },
    { "gate", "ping", CONFIG_DURATION, false, "25s", 100, HOUR, NULL, FIELD(gate.ping_ms),
      "time between pings" },
    { "gate", "pong_timeout", CONFIG_DURATION, false, "10s", 100, HOUR, NULL,
      FIELD(gate.pong_timeout_ms), "time a client has to answer a ping" },
    { "gate", "request_rate", CONFIG_INT, false, "5000", 0, 1000000, NULL, FIELD(gate.request_rate),
      "HTTP requests per second to this process by one user, or, upgrades and requests without a "
      "valid token, from one address, which by default is no proxy; 0: no limit" },
    { "gate", "slow_age", CONFIG_DURATION, false, "30s", 100, HOUR, NULL, FIELD(gate.slow_age_ms),
      "age of the oldest unsent line at which a client is too slow" },
    { "gate", "slow_bytes", CONFIG_SIZE, false, "1MB", KB, 1024 * MB, NULL, FIELD(gate.slow_bytes),
      "unsent bytes at which a client is too slow" },
    { "gate", "tls_cert", CONFIG_TEXT, false, NULL, 0, PATH_LIMIT, NULL, FIELD(gate.tls_cert),
      "PEM file with the certificate and its chain; together with tls_key" },
    { "gate", "tls_ciphers", CONFIG_TEXT, false, "ECDHE+AESGCM:ECDHE+CHACHA20", 1, TEXT_MAX, NULL,
      FIELD(gate.tls_ciphers), "cipher list of OpenSSL for TLS 1.2; TLS 1.3 has its own" },
    { "gate", "tls_key", CONFIG_TEXT, false, NULL, 0, PATH_LIMIT, NULL, FIELD(gate.tls_key),
      "PEM file with the certificate's private key" },
    { "gate", "trusted_proxies", CONFIG_TEXT, false, NULL, 0, TEXT_MAX, config_check_networks,
      FIELD(gate.trusted_proxies), "whose X-Forwarded-For is believed: networks, or unix" },
    { "gate", "workers", CONFIG_INT, false, "1", 1, CONFIG_WORKERS_MAX, NULL, FIELD(gate.workers),
      "processes that share the listening socket; the first carries the feed" },

    { "relay", "log_format", CONFIG_FORMAT, false, "logfmt", 0, 0, NULL, FIELD(relay.log_format),
      "form of the log's lines" },
    { "relay", "log_level", CONFIG_LEVEL, false, "info", 0, 0, NULL, FIELD(relay.log_level),
      "least important level that is logged" },
    { "relay", "roles", CONFIG_ROLES, false, "feed,gate", 0, 0, NULL, FIELD(relay.roles),
      "what this process does" },

    { "store", "min_replicas", CONFIG_INT, false, "0", 0, 16, NULL, FIELD(store.min_replicas),
      "replicas that must have what PostgreSQL is told to forget" },
    { "store", "prefix", CONFIG_TEXT, false, "clairon", 1, 64, config_check_prefix,
      FIELD(store.prefix), "what the store's keys begin with" },
    { "store", "publish_sync", CONFIG_BOOL, false, "off", 0, 0, NULL, FIELD(store.publish_sync),
      "wait of POST /v1/notifications until the store's disk has the notification (2 s, or none "
      "with appendfsync always)" },
    { "store", "retention", CONFIG_DURATION, false, "7d", SECOND, 3650 * DAY, NULL,
      FIELD(store.retention_ms), "how long the stream is kept" },
    { "store", "shards", CONFIG_INT, false, "1", 1, 16, NULL, FIELD(store.shards),
      "streams that the store is made of; store.url may name as many servers, between commas" },
    { "store", "tls_ca", CONFIG_TEXT, false, NULL, 0, PATH_LIMIT, NULL, FIELD(store.tls_ca),
      "PEM file with those who sign the store's certificate; unset: the system's" },
    { "store", "tls_cert", CONFIG_TEXT, false, NULL, 0, PATH_LIMIT, NULL, FIELD(store.tls_cert),
      "PEM file with the relay's own certificate, for a store that asks; together with tls_key" },
    { "store", "tls_key", CONFIG_TEXT, false, NULL, 0, PATH_LIMIT, NULL, FIELD(store.tls_key),
      "PEM file with that certificate's private key" },
    { "store", "url", CONFIG_TEXT, true, "redis://127.0.0.1:6379", 1, TEXT_MAX, config_check_url,
      FIELD(store.url), CONFIG_URL_FORM },
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
