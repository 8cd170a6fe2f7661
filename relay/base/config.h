/* config.h: the relay's settings, from the file, the environment and the arguments. */
#ifndef CLAIRON_BASE_CONFIG_H
#define CLAIRON_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rc.h"

#define CONFIG_ROLE_FEED 1u
#define CONFIG_ROLE_GATE 2u
#define CONFIG_ROLE_SINK 4u

#define CONFIG_WORKERS_MAX 64
#define CONFIG_VAPID_KEYS_MAX 2
#define CONFIG_KEYS_MAX 128
#define CONFIG_ISSUERS_MAX 16

struct config_origin {
    enum { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_VARIABLE, ORIGIN_ARGUMENT } from;
    unsigned line; /* line in the file; kept if the value is overridden */
};

/* Which claims of a token are read. Strings as in struct config. */
struct config_claims {
    char *issuer;
    char *audience;       /* comma-separated */
    char *audience_claim; /* path; default "aud" */
    char *required;       /* path=value, comma-separated */
    char *user_claim;     /* paths, comma-separated; default "sub" */
    char *groups_claim;   /* [KIND=]path, comma-separated; default "groups" */
};

/* The keys of an issuer: a file or a URL. */
struct config_jwks {
    char *file;
    char *url;
    char *text; /* content of the file, read at load; never logged */
    size_t len;
};

/* A section [issuer NAME]. */
struct config_issuer {
    char *name;
    unsigned line; /* of its section in the file */
    struct config_claims claims;
    struct config_jwks jwks;
    char *user_prefix;
    bool admin, publish; /* these claims count */
};

/* Strings are owned by the config and live until config_free; NULL means unset. */
struct config {
    const char *path; /* path of its file, owned by the caller; NULL: no file */
    struct config_origin origins[CONFIG_KEYS_MAX];
    struct {
        char *conninfo;            /* libpq connection string; `replication=database` is added */
        char *slot;                /* default "clairon" */
        bool create_slot;          /* default true */
        int64_t create_timeout_ms; /* default 5 m */
        /* connection string of a standby's primary; NULL: the primary is not contacted */
        char *primary_conninfo;
        char *topic_prefix; /* NULL: the plugin's default, the database name */
        /* limits of one table owner in the plugin */
        int64_t owner_bytes;
        int64_t owner_memory;
        int64_t owner_time_ms;
        int owner_pairs;
        int owner_wal_factor;
    } feed;
    struct {
        char *url;      /* default redis://127.0.0.1:6379; for other forms see urls.h */
        char *prefix;   /* default "clairon" */
        char *tls_ca;   /* for rediss://; NULL: the system's CA certificates */
        char *tls_cert; /* the relay's client certificate, for stores that require one */
        char *tls_key;
        char *sentinel_user;
        char *sentinel_password_file;
        char *sentinel_password; /* content of that file, read at load; NULL: none */
        int shards;              /* default 1; 16 with a cluster */
        int64_t retention_ms;    /* default 7 d */
        /*
         * replicas of each primary that must store a change before its WAL is confirmed; default 0,
         * 1 with a cluster or sentinels
         */
        int min_replicas;
        bool publish_sync; /* POST /v1/notifications waits for the store's disk */
    } store;
    struct {
        char *listen;       /* host:port, [v6]:port or unix:/path; default 127.0.0.1:8080 */
        char *admin_listen; /* for /metrics, /console and operators; NULL: served by `listen` */
        char *origins;      /* comma-separated; NULL: same host only */
        int workers;
        int max_connections;         /* default 19000 */
        int max_per_address;         /* connections; 0: no limit, as for the next four */
        int max_per_user;            /* connections */
        int connect_rate;            /* new WebSocket and SSE connections per second */
        int message_rate;            /* client messages per second and connection */
        int request_rate;            /* HTTP requests per second and user or address */
        bool max_per_address_is_set; /* set explicitly; the default exempts proxies */
        bool connect_rate_is_set;
        bool request_rate_is_set;
        char *trusted_proxies; /* comma-separated networks; NULL: none */
        char *tls_cert;
        char *tls_key;
        char *tls_ciphers; /* for TLS 1.2 */
        bool console;      /* /console, for tokens with the admin claim */
        int64_t ping_ms;
        int64_t pong_timeout_ms;
        int64_t connect_timeout_ms;
        int64_t keepalive_ms;
        int64_t slow_age_ms;
        int64_t slow_bytes;
        int64_t max_frame_bytes;
        int64_t notice_ms; /* precedes drain */
        int64_t drain_ms;
    } gate;
    struct {
        int64_t ack_timeout_ms;
        int64_t backoff_base_ms;
        int64_t backoff_cap_ms;
        int window; /* unacknowledged notifications per connection */
        int64_t expiring_ms;
        int64_t shed_lag_ms; /* queueing delay at which load shedding starts; 0: never */
        int64_t shed_bytes;  /* bytes in outbound queues at which load shedding starts; 0: never */
        bool hide_targets;   /* recipients do not receive an audience's targets */
        int resume_pages;    /* pages read from the store per second and user; 0: no limit */
    } delivery;
    struct {
        char *hs256_secret_file;
        char *hs256_secret;
        char *public_key_file;
        struct config_claims claims;
        struct config_jwks jwks;
        char *jwks_ca;           /* for all URLs of keys; NULL: only the system's authorities */
        bool jwks_allow_private; /* for all URLs of keys: also http, and private addresses */
        int64_t leeway_ms;
        char *key; /* the secret or the PEM, read at load; never logged */
        size_t key_len;
        int64_t key_written; /* modification time of its file, ns since 1970; 0: not in a file */
        char *previous;      /* the previous key, still accepted; NULL: none */
        size_t previous_len;
    } auth;
    struct config_issuer issuer; /* the section that is being read */
    struct config_issuer issuers[CONFIG_ISSUERS_MAX];
    size_t issuer_count;
    struct {
        bool sql;             /* receipts are inserted into clairon.receipt */
        char *conninfo;       /* NULL: feed.primary_conninfo, or else feed.conninfo */
        int64_t retention_ms; /* default 7 d */
        int64_t max_bytes;    /* of each shard; default 256 MB */
    } receipts;
    struct {
        char *proxy; /* http://[user:password@]host:port; NULL: none */
    } sink;
    struct {
        char *url;          /* NULL: no webhook; may contain a secret */
        char *secret_file;  /* set if url is; for its format see wire/webhook_signature.h */
        char *ca_file;      /* in addition to the system's authorities; NULL: none */
        char *outcomes;     /* comma-separated; NULL: all */
        int64_t timeout_ms; /* of a request */
        int concurrency;    /* maximum requests in progress */
        int batch;          /* maximum receipts of a request */
        bool allow_private; /* also http, and addresses that are not public */
    } webhook;
    struct {
        unsigned roles; /* CONFIG_ROLE_* */
        enum log_level log_level;
        enum log_format log_format;
    } relay;
    struct {
        char *conninfo; /* NULL: feed.conninfo */
        int connections;
        int64_t timeout_ms;
        int max_rows;
        int64_t max_bytes;
        int queue; /* maximum queued requests */
    } rows;
    struct {
        char *subject; /* contact address, for push services */
        char *app_url; /* opened by a click */
        char *ca_file; /* NULL: only the system's CA certificates */
        bool allow_private;
        int64_t timeout_ms;
        int64_t delay_ms;     /* from the commit to the decision whether a user is absent */
        char *vapid_key_file; /* one or two files, comma-separated; NULL: no Web Push */
        char *origins;        /* of push services; never NULL */
        int max_per_user;
        int64_t keep_ms;
        char *key_files[CONFIG_VAPID_KEYS_MAX]; /* the files of vapid_key_file */
        char *keys[CONFIG_VAPID_KEYS_MAX];      /* their PEMs, read at load; never logged */
    } webpush;
    /* indexed by key: the secret was passed as an argument */
    bool secret_arguments[CONFIG_KEYS_MAX];
    bool file_is_secret; /* the configuration file itself contains a secret */
};

#define CONFIG_ERROR_MAX 16384
#define CONFIG_WHERE_MAX 512

/* "relay.conf:3: [gate] listen", "argument --gate.listen", ... or "[gate] listen". */
void config_where(const struct config *config, const char *section, const char *name,
                  char where[CONFIG_WHERE_MAX]);

/*
 * Fills *ret_config: defaults, then the file (path NULL: no file), then CLAIRON_SECTION_KEY from
 * the environment, then --section.key=value from argv. Consumed entries of argv are set to NULL.
 * RC_BAD: `error` has one line per error: the problem, its origin (file:line, argument or
 * variable), and the valid values. The caller calls config_free in either case.
 */
MUST_CHECK enum rc config_load(struct config *ret_config, const char *path, int argc, char **argv,
                               char error[CONFIG_ERROR_MAX]);

/* Parses "25s", "500 ms", "7d" or "0" into milliseconds. */
MUST_CHECK enum rc config_value_duration(const char *text, int64_t *ret_ms);

/* The result of reloading the auth key file. */
enum config_key_change {
    CONFIG_KEY_FIXED,            /* the key is not in a file */
    CONFIG_KEY_BAD,              /* read error; the key is unchanged */
    CONFIG_KEY_UNCHANGED,        /* the file was not modified */
    CONFIG_KEY_CHANGED,          /* a new key; auth.previous is the old one */
    CONFIG_KEY_PREVIOUS_REVOKED, /* the same key was written again: auth.previous is revoked */
};

/*
 * Reloads the auth key file; pointers to the keys become invalid. CONFIG_KEY_BAD: `error` is the
 * reason.
 */
enum config_key_change config_reload_key(struct config *config, char error[CONFIG_ERROR_MAX]);

/* Whether the keys of an issuer have a URL. */
bool config_fetches_keys(const struct config *config);

/*
 * Reads the files of JWK Sets again. False: one could not be read, and is unchanged; `error` is the
 * reason.
 */
bool config_reload_jwks(struct config *config, char error[CONFIG_ERROR_MAX]);

/* A file that contains a secret. */
struct config_secret_file {
    const char *name; /* "hs256_secret_file" */
    const char *section;
    const char *path;
    bool is_exposed; /* users other than its owner and group can access it */
};

#define CONFIG_SECRET_FILES_MAX 8

/*
 * Lists the files with secrets that the settings name, and the configuration file (section NULL) if
 * it contains one. Returns their number.
 */
size_t config_secret_files(const struct config *config,
                           struct config_secret_file files[CONFIG_SECRET_FILES_MAX]);

/* Logs a warning for each secret that other users of the machine can read. */
void config_warn_exposed(const struct config *config);

/*
 * Prints the settings of `section` (NULL: all sections) as arguments, with type, range, default and
 * meaning. Returns false if the section does not exist.
 */
bool config_help(FILE *out, const char *section);

/*
 * Reads a file with a secret, of at most 16 kB. Returns NULL, and the caller wipes and frees the
 * bytes; otherwise the reason for the failure.
 */
const char *config_secret_read(const char *path, char **ret_bytes, size_t *ret_len);

/* Whether a comma-separated list contains the word. */
bool config_list_contains(const char *list, const char *word);

/* Frees the contents and wipes the key; accepts a zeroed config. */
void config_free(struct config *config);

#endif
