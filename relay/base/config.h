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

#define CONFIG_WORKERS_MAX 64
#define CONFIG_KEYS_MAX 96

struct config_origin {
    enum { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_VARIABLE, ORIGIN_ARGUMENT } from;
    unsigned line; /* of the file; a value that was overridden keeps it */
};

/* Strings are owned by the config and live until config_free; NULL means unset. */
struct config {
    const char *path; /* of its file, the caller's; NULL: none */
    struct config_origin origins[CONFIG_KEYS_MAX];
    struct {
        char *conninfo;            /* libpq connection string; `replication=database` is added */
        char *slot;                /* default "clairon" */
        bool create_slot;          /* default true */
        int64_t create_timeout_ms; /* default 5 m */
        char *primary_conninfo;    /* of a standby's primary; NULL: it is not asked for anything */
        char *topic_prefix;        /* NULL: the plugin's default, the database's name */
    } feed;
    struct {
        char *url;      /* default redis://127.0.0.1:6379 */
        char *prefix;   /* default "clairon" */
        char *tls_ca;   /* for rediss://; NULL: the system's authorities */
        char *tls_cert; /* the relay's own, for stores that ask for one */
        char *tls_key;
        int shards;           /* default 1 */
        int64_t retention_ms; /* default 7 d */
        int min_replicas;     /* that must have what is confirmed; default 0 */
        bool publish_sync;    /* POST /v1/notifications waits for the disk */
    } store;
    struct {
        char *listen;       /* host:port, [v6]:port or unix:/path; default 127.0.0.1:8080 */
        char *admin_listen; /* of /metrics, /console and /v1/push; NULL: of `listen` */
        char *origins;      /* comma-separated; NULL: same host only */
        int workers;
        int max_connections;         /* default 19000 */
        int max_per_address;         /* connections; 0: no limit, as the four below */
        int max_per_user;            /* connections */
        int connect_rate;            /* new WebSocket and SSE connections a second */
        int message_rate;            /* lines a second from one connection */
        int request_rate;            /* HTTP requests a second of one user, or address */
        bool max_per_address_is_set; /* not at its default, which spares proxies */
        bool connect_rate_is_set;
        bool request_rate_is_set;
        char *trusted_proxies; /* networks, between commas; NULL: none */
        char *tls_cert;
        char *tls_key;
        char *tls_ciphers; /* of TLS 1.2 */
        bool console;      /* /console, for tokens of admins */
        int64_t ping_ms;
        int64_t pong_timeout_ms;
        int64_t connect_timeout_ms;
        int64_t slow_age_ms;
        int64_t slow_bytes;
        int64_t max_frame_bytes;
        int64_t drain_ms;
    } gate;
    struct {
        int64_t ack_timeout_ms;
        int64_t backoff_base_ms;
        int64_t backoff_cap_ms;
        int window; /* unacked lines a connection may hold */
        int64_t expiring_ms;
        int64_t shed_lag_ms; /* how long lines wait when shedding begins; 0: never */
        int64_t shed_bytes;  /* in queues, likewise */
        bool hide_targets;   /* from receivers */
        int resume_pages;    /* of the store, a second and user; 0: as many as they ask for */
    } delivery;
    struct {
        char *hs256_secret_file;
        char *hs256_secret;
        char *public_key_file;
        char *issuer;
        char *audience;
        int64_t leeway_ms;
        char *key; /* the secret or PEM itself, read at load; never logged */
        size_t key_len;
        int64_t key_written; /* ns since 1970, of its file; 0: it is in none */
        char *previous;      /* the key before, still believed; NULL: none */
        size_t previous_len;
    } auth;
    struct {
        unsigned roles; /* CONFIG_ROLE_* */
        enum log_level log_level;
        enum log_format log_format;
    } relay;
    bool secret_arguments[CONFIG_KEYS_MAX]; /* by key: holds a secret and was an argument */
    bool file_is_secret;                    /* the settings file holds a secret itself */
};

#define CONFIG_ERROR_MAX 16384
#define CONFIG_WHERE_MAX 512

/* "relay.conf:3: [gate] listen", "argument --gate.listen", .. or "[gate] listen". */
void config_where(const struct config *config, const char *section, const char *name,
                  char where[CONFIG_WHERE_MAX]);

/*
 * Fills *ret_config: defaults, then the file (path may be NULL: no file), then
 * CLAIRON_SECTION_KEY from the environment, then --section.key=value out of
 * argv; entries of argv that it took are set to NULL. On RC_BAD `error` holds
 * a line for each mistake: what is wrong, where (file:line, argument or variable), and
 * what would be valid. The caller frees with config_free in either case.
 */
MUST_CHECK enum rc config_load(struct config *ret_config, const char *path, int argc, char **argv,
                               char error[CONFIG_ERROR_MAX]);

/* What became of auth.key when its file was read again. */
enum config_key_change {
    CONFIG_KEY_FIXED,   /* it is in no file */
    CONFIG_KEY_BAD,     /* and stays as it was */
    CONFIG_KEY_AS_WAS,  /* the file was not written since: nothing changes */
    CONFIG_KEY_CHANGED, /* what was auth.key is auth.previous now */
    CONFIG_KEY_ALONE,   /* the file was written again with the same key: auth.previous is gone */
};

/*
 * Reads the key file of [auth] again; pointers to the keys are void. BAD: `error` says what is
 * wrong.
 */
enum config_key_change config_renew_key(struct config *config, char error[CONFIG_ERROR_MAX]);

/* A file that holds a secret. */
struct config_secret_file {
    const char *name; /* "hs256_secret_file" */
    const char *section;
    const char *path;
    bool is_exposed; /* users who neither own it nor are of its group have rights to it */
};

#define CONFIG_SECRET_FILES_MAX 4

/* Fills `files` with those that are set; returns how many. The settings file: of no section. */
size_t config_secret_files(const struct config *config,
                           struct config_secret_file files[CONFIG_SECRET_FILES_MAX]);

/* Logs secrets that other users of the machine can read. */
void config_warn_exposed(const struct config *config);

/*
 * Writes every setting of `section` (NULL: of all, the most needed first) with its type, range,
 * default and meaning, as arguments. False: there is no such section.
 */
bool config_help(FILE *out, const char *section);

/* Frees what config_load allocated and wipes the key; accepts a zeroed config. */
void config_free(struct config *config);

#endif
