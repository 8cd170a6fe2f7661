/* config_rules.c: checks dependencies between settings, and the files that they name. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config_private.h"
#include "base/urls.h"
#include "base/memory.h"

#define KEY_FILE_MAX 16384
#define HS256_KEY_MIN 32 /* RFC 7518, section 3.2: at least as long as the hash */
#define PUBLIC_KEY_KINDS "RSA, or EC on P-256"
#define PUBLIC_KEY_FAULT_MAX 160
#define VAPID_KEY_KINDS "EC on P-256, as printed by clairon vapid"

#define CLUSTER_SHARDS 16       /* default of [store] shards with redis+cluster:// */
#define FAILOVER_MIN_REPLICAS 1 /* default of [store] min_replicas if failovers are automatic */

/* Reads a regular file into KEY_FILE_MAX + 1 bytes. Returns NULL, or the reason for a failure. */
static const char *
key_file_read(const char *path, char *bytes, size_t *ret_len, int64_t *ret_written)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat stat;
    const char *reason = NULL;
    size_t len = 0;
    ssize_t got = 1;

    if (fd < 0)
        return strerror(errno);
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))
        reason = "not a regular file";
    while (reason == NULL && got > 0 && len <= KEY_FILE_MAX) {
        got = read(fd, bytes + len, KEY_FILE_MAX + 1 - len);
        if (got < 0)
            reason = strerror(errno);
        else
            len += (size_t)got;
    }
    (void)close(fd);
    if (reason == NULL && len > KEY_FILE_MAX)
        reason = "larger than 16 kB";
    if (reason == NULL) {
        *ret_len = len;
        *ret_written = (int64_t)stat.st_mtim.tv_sec * 1000000000 + stat.st_mtim.tv_nsec;
    }
    return reason;
}

const char *
config_secret_read(const char *path, char **ret_bytes, size_t *ret_len)
{
    char *bytes = memory_new(KEY_FILE_MAX + 1);
    int64_t written;
    const char *reason = key_file_read(path, bytes, ret_len, &written);

    if (reason == NULL) {
        *ret_bytes = bytes;
        return NULL;
    }
    explicit_bzero(bytes, KEY_FILE_MAX + 1);
    free(bytes);
    return reason;
}

static size_t
number_of_key(const char *section, const char *name)
{
    return (size_t)(config_key_find(section, name) - config_keys);
}

static bool
is_invalid(const struct config_load *load, const char *section, const char *name)
{
    return load->is_invalid[number_of_key(section, name)];
}

/* A missing setting has no line, so the message starts with the file. */
static enum rc
fail_missing(struct config_load *load, const char *what)
{
    return config_fail(load, "%.384s%smissing setting %s",
                       load->config->path != NULL ? load->config->path : "",
                       load->config->path != NULL ? ": " : "", what);
}

static enum rc
fail_unreadable(struct config_load *load, const char *section, const char *name, const char *path,
                const char *reason)
{
    char where[CONFIG_WHERE_MAX], folder[CONFIG_FOLDER_MAX];

    config_where(load->config, section, name, where);
    return config_fail(load, "%s: could not read \"%.256s\"%s: %s", where, path,
                       config_folder(path, folder), reason);
}

static enum rc
check_secret(struct config_load *load, const char *name, size_t len)
{
    char where[CONFIG_WHERE_MAX];

    if (len >= HS256_KEY_MIN)
        return RC_OK;
    config_where(load->config, "auth", name, where);
    return config_fail(load, "%s has %zu bytes: an HS256 secret requires at least %d", where, len,
                       HS256_KEY_MIN);
}

/* Returns NID_undef if the curve has no name. */
static int
curve_of(EVP_PKEY *key)
{
    X509_PUBKEY *encoded = NULL;
    X509_ALGOR *algorithm = NULL;
    const void *curve = NULL;
    int type = V_ASN1_UNDEF, nid = NID_undef;

    if (X509_PUBKEY_set(&encoded, key) == 1 &&
        X509_PUBKEY_get0_param(NULL, NULL, NULL, &algorithm, encoded) == 1)
        X509_ALGOR_get0(NULL, &type, &curve, algorithm);
    if (type == V_ASN1_OBJECT)
        nid = OBJ_obj2nid(curve);
    X509_PUBKEY_free(encoded);
    return nid;
}

/* RS256 needs RSA and ES256 needs P-256 (RFC 7518, section 3.1). */
static const char *
public_key_kind_fault(EVP_PKEY *key, char fault[PUBLIC_KEY_FAULT_MAX])
{
    int kind = EVP_PKEY_base_id(key);
    bool is_ec = kind == EVP_PKEY_EC;
    int curve = is_ec ? curve_of(key) : NID_undef;

    if (kind == EVP_PKEY_RSA || curve == NID_X9_62_prime256v1)
        return NULL;
    (void)snprintf(fault, PUBLIC_KEY_FAULT_MAX,
                   "has an unsupported key type (%s%.40s), must be " PUBLIC_KEY_KINDS,
                   is_ec ? "EC on " : "", OBJ_nid2sn(is_ec ? curve : kind));
    return fault;
}

/* Returns NULL for a valid key, otherwise the problem: "must ...", "has ..." or "is ...". */
static const char *
public_key_fault(const char *pem, size_t len, char fault[PUBLIC_KEY_FAULT_MAX])
{
    static char no_passphrase[] = ""; /* prevents a prompt of OpenSSL on the terminal */
    const char *wrong = "is not a public key in PEM, must be " PUBLIC_KEY_KINDS;

    if (memmem(pem, len, "PRIVATE KEY-----", 16) != NULL)
        return "is a private key: the relay needs only the public key";
    if (memmem(pem, len, "-----BEGIN PUBLIC KEY-----", 26) == NULL ||
        memmem(pem, len, "-----END PUBLIC KEY-----", 24) == NULL)
        return "must name a PEM file with -----BEGIN PUBLIC KEY-----";

    BIO *bio = BIO_new_mem_buf(pem, (int)len);
    EVP_PKEY *key = PEM_read_bio_PUBKEY(bio, NULL, NULL, no_passphrase);

    if (key != NULL)
        wrong = public_key_kind_fault(key, fault);
    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error(); /* a TLS connection would report a leftover error as its own */
    return wrong;
}

static enum rc
check_public_key(struct config_load *load, const char *pem, size_t len)
{
    char where[CONFIG_WHERE_MAX], fault[PUBLIC_KEY_FAULT_MAX];
    const char *wrong = public_key_fault(pem, len, fault);

    config_where(load->config, "auth", "public_key_file", where);
    return wrong == NULL ? RC_OK : config_fail(load, "%s %s", where, wrong);
}

/* Moves the file's content to config.auth.key if it is a valid key. */
static enum rc
set_key(struct config_load *load, const char *name, char *bytes, size_t len)
{
    struct config *config = load->config;
    enum rc rc;

    if (strcmp(name, "public_key_file") == 0) {
        rc = check_public_key(load, bytes, len);
    } else {
        if (len > 0 && bytes[len - 1] == '\n')
            len--;
        rc = check_secret(load, name, len);
    }
    if (rc != RC_OK)
        return rc;
    config->auth.key = memory_text(bytes, len);
    config->auth.key_len = len;
    return RC_OK;
}

static enum rc
key_load_file(struct config_load *load, const char *name, const char *path)
{
    char *bytes = memory_new(KEY_FILE_MAX + 1);
    size_t len = 0;
    int64_t written = 0;
    const char *reason = key_file_read(path, bytes, &len, &written);
    enum rc rc = reason != NULL ? fail_unreadable(load, "auth", name, path, reason)
                                : set_key(load, name, bytes, len);

    if (rc == RC_OK)
        load->config->auth.key_written = written;
    explicit_bzero(bytes, KEY_FILE_MAX + 1);
    free(bytes);
    return rc;
}

static enum rc
load_sentinel_password(struct config_load *load, const char *path)
{
    char *bytes = memory_new(KEY_FILE_MAX + 1), where[CONFIG_WHERE_MAX];
    size_t len = 0;
    int64_t written;
    const char *reason = key_file_read(path, bytes, &len, &written);
    enum rc rc = RC_OK;

    config_where(load->config, "store", "sentinel_password_file", where);
    len -= len > 0 && bytes[len - 1] == '\n';
    if (reason != NULL)
        rc = fail_unreadable(load, "store", "sentinel_password_file", path, reason);
    else if (len == 0)
        rc = config_fail(load, "%s: \"%.256s\" is empty", where, path);
    else
        load->config->store.sentinel_password = memory_text(bytes, len);
    explicit_bzero(bytes, KEY_FILE_MAX + 1);
    free(bytes);
    return rc;
}

static enum rc
check_auth(struct config_load *load)
{
    struct config *config = load->config;
    const char *given[] = {config->auth.hs256_secret_file, config->auth.hs256_secret,
                           config->auth.public_key_file};
    const char *names[] = {"hs256_secret_file", "hs256_secret", "public_key_file"};
    int found = -1;

    for (int i = 0; i < 3; i++) {
        char first[CONFIG_WHERE_MAX], second[CONFIG_WHERE_MAX];

        if (given[i] == NULL)
            continue;
        if (found >= 0) {
            config_where(load->config, "auth", names[found], first);
            config_where(load->config, "auth", names[i], second);
            return config_fail(load, "%.400s and %.400s cannot be combined: keep one", second,
                               first);
        }
        found = i;
    }
    if ((config->relay.roles & CONFIG_ROLE_GATE) == 0)
        return RC_OK;
    for (int i = 0; i < 3 && found < 0; i++)
        if (is_invalid(load, "auth", names[i]))
            return RC_OK; /* already reported */
    if (found < 0)
        return fail_missing(load, "[auth] hs256_secret_file (or hs256_secret, or public_key_file): "
                                  "required to verify tokens; for HS256 tokens: "
                                  "head -c 32 /dev/urandom | base64 >clairon.secret");
    if (found != 1)
        return key_load_file(load, names[found], given[found]);
    if (check_secret(load, names[1], strlen(given[1])) != RC_OK)
        return RC_BAD;
    config->auth.key = memory_text(given[1], strlen(given[1]));
    config->auth.key_len = strlen(given[1]);
    return RC_OK;
}

static void
wipe_key(char **key, size_t len)
{
    if (*key != NULL)
        explicit_bzero(*key, len);
    free(*key);
    *key = NULL;
}

enum config_key_change
config_reload_key(struct config *config, char error[CONFIG_ERROR_MAX])
{
    struct config fresh = *config;
    struct config_load load = {.config = &fresh, .error = error};
    bool is_public = config->auth.public_key_file != NULL;
    const char *path = is_public ? config->auth.public_key_file : config->auth.hs256_secret_file;
    bool is_same, was_written;

    error[0] = '\0';
    if (path == NULL)
        return CONFIG_KEY_FIXED;
    if (key_load_file(&load, is_public ? "public_key_file" : "hs256_secret_file", path) != RC_OK)
        return CONFIG_KEY_BAD;
    is_same = fresh.auth.key_len == config->auth.key_len &&
              memcmp(fresh.auth.key, config->auth.key, fresh.auth.key_len) == 0;
    was_written = fresh.auth.key_written != config->auth.key_written;
    config->auth.key_written = fresh.auth.key_written;
    if (is_same)
        wipe_key(&fresh.auth.key, fresh.auth.key_len);
    if (is_same && !was_written)
        return CONFIG_KEY_UNCHANGED;
    wipe_key(&config->auth.previous, config->auth.previous_len);
    if (is_same)
        return CONFIG_KEY_PREVIOUS_REVOKED;
    config->auth.previous = config->auth.key;
    config->auth.previous_len = config->auth.key_len;
    config->auth.key = fresh.auth.key;
    config->auth.key_len = fresh.auth.key_len;
    return CONFIG_KEY_CHANGED;
}

static enum rc
check_readable(struct config_load *load, const char *section, const char *name, const char *path)
{
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

    if (path != NULL && fd < 0)
        return fail_unreadable(load, section, name, path, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return RC_OK;
}

static enum rc
check_certificate(struct config_load *load, const char *section, const char *cert, const char *key)
{
    char where[CONFIG_WHERE_MAX];

    if ((cert == NULL) != (key == NULL)) {
        config_where(load->config, section, cert != NULL ? "tls_cert" : "tls_key", where);
        return config_fail(load, "missing setting [%s] %s: required by %s", section,
                           cert != NULL ? "tls_key" : "tls_cert", where);
    }
    if (check_readable(load, section, "tls_cert", cert) != RC_OK)
        return RC_BAD;
    return check_readable(load, section, "tls_key", key);
}

static enum rc
check_tls(struct config_load *load)
{
    const struct config *config = load->config;
    bool is_gate =
        (config->relay.roles & CONFIG_ROLE_GATE) != 0 || config->gate.admin_listen != NULL;

    /* A command that uses only the store may run without read access to the gate's key. */
    if (is_gate &&
        check_certificate(load, "gate", config->gate.tls_cert, config->gate.tls_key) != RC_OK)
        return RC_BAD;
    if (check_certificate(load, "store", config->store.tls_cert, config->store.tls_key) != RC_OK)
        return RC_BAD;
    return check_readable(load, "store", "tls_ca", config->store.tls_ca);
}

static enum rc
check_backoff(struct config_load *load)
{
    char where[CONFIG_WHERE_MAX];

    if (load->config->delivery.backoff_cap_ms >= load->config->delivery.backoff_base_ms)
        return RC_OK;
    config_where(load->config, "delivery", "backoff_cap", where);
    return config_fail(load, "%s must not be less than [delivery] backoff_base", where);
}

/* Returns NULL for a valid key, otherwise the problem: "has ..." or "is ...". */
static const char *
vapid_key_fault(const char *pem, size_t len, char fault[PUBLIC_KEY_FAULT_MAX])
{
    static char no_passphrase[] = ""; /* prevents a prompt of OpenSSL on the terminal */
    BIO *bio = BIO_new_mem_buf(pem, (int)len);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, no_passphrase);
    const char *wrong = NULL;
    int kind = key != NULL ? EVP_PKEY_base_id(key) : NID_undef;
    int curve = kind == EVP_PKEY_EC ? curve_of(key) : NID_undef;

    if (key == NULL) {
        wrong = "is not a private key in PEM, must be " VAPID_KEY_KINDS;
    } else if (curve != NID_X9_62_prime256v1) {
        (void)snprintf(fault, PUBLIC_KEY_FAULT_MAX,
                       "has an unsupported key type (%s%.40s), must be " VAPID_KEY_KINDS,
                       kind == EVP_PKEY_EC ? "EC on " : "",
                       OBJ_nid2sn(kind == EVP_PKEY_EC ? curve : kind));
        wrong = fault;
    }
    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error(); /* a TLS connection would report a leftover error as its own */
    return wrong;
}

static enum rc
load_vapid_key(struct config_load *load, size_t number, const char *path)
{
    char *bytes = memory_new(KEY_FILE_MAX + 1);
    char where[CONFIG_WHERE_MAX], fault[PUBLIC_KEY_FAULT_MAX];
    size_t len = 0;
    int64_t written;
    const char *reason = key_file_read(path, bytes, &len, &written);
    const char *wrong = reason == NULL ? vapid_key_fault(bytes, len, fault) : NULL;
    enum rc rc = RC_OK;

    config_where(load->config, "webpush", "vapid_key_file", where);
    if (reason != NULL)
        rc = fail_unreadable(load, "webpush", "vapid_key_file", path, reason);
    else if (wrong != NULL)
        rc = config_fail(load, "%s: \"%.256s\" %s", where, path, wrong);
    else
        load->config->webpush.keys[number] = memory_text(bytes, len);
    explicit_bzero(bytes, KEY_FILE_MAX + 1);
    free(bytes);
    return rc;
}

/* Gate and sink use the keys. A command that uses only the store may run without read access. */
static enum rc
check_webpush(struct config_load *load)
{
    const struct config *config = load->config;
    const char *at = config->webpush.vapid_key_file;
    char where[CONFIG_WHERE_MAX];
    enum rc rc = check_readable(load, "webpush", "ca_file", config->webpush.ca_file);

    if (at != NULL && config->webpush.subject == NULL && !is_invalid(load, "webpush", "subject"))
        rc = fail_missing(load, "[webpush] subject: required by vapid_key_file, "
                                "such as mailto:ops@example.org");
    if (at != NULL && config->webpush.app_url == NULL && !is_invalid(load, "webpush", "app_url"))
        rc = fail_missing(load, "[webpush] app_url: required by vapid_key_file, "
                                "such as https://app.example.org/");
    for (size_t number = 0; at != NULL; number++) {
        const char *end = strchrnul(at, ',');
        size_t len = (size_t)(end - at);

        while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t'))
            len--;
        if (number == CONFIG_VAPID_KEYS_MAX || len == 0) {
            config_where(config, "webpush", "vapid_key_file", where);
            return config_fail(load, "%s must be one or two files, comma-separated", where);
        }
        load->config->webpush.key_files[number] = memory_text(at, len);
        if ((config->relay.roles & (CONFIG_ROLE_GATE | CONFIG_ROLE_SINK)) != 0 &&
            load_vapid_key(load, number, config->webpush.key_files[number]) != RC_OK)
            rc = RC_BAD;
        at = *end == ',' ? end + 1 + strspn(end + 1, " \t") : NULL;
    }
    return rc;
}

static bool
is_default(const struct config *config, const char *section, const char *key)
{
    return config->origins[number_of_key(section, key)].from == ORIGIN_DEFAULT;
}

/*
 * A cluster distributes the shards over its primaries, and the number of shards is fixed once it
 * has data. If a failover is possible, PostgreSQL must retain the WAL of changes that no replica
 * has stored: a primary may reply and then hang, or be disconnected from its replicas but not from
 * this relay.
 */
static void
set_defaults_of_several_servers(struct config *config)
{
    enum urls_kind kind = urls_kind(config->store.url);

    if (kind == URLS_CLUSTER && is_default(config, "store", "shards"))
        config->store.shards = CLUSTER_SHARDS;
    if (kind != URLS_SINGLE && is_default(config, "store", "min_replicas"))
        config->store.min_replicas = FAILOVER_MIN_REPLICAS;
}

static enum rc
check_sentinel(struct config_load *load)
{
    struct config *config = load->config;
    const char *user = config->store.sentinel_user, *path = config->store.sentinel_password_file;
    const char *name = user != NULL ? "sentinel_user" : "sentinel_password_file";
    char where[CONFIG_WHERE_MAX];

    if (user == NULL && path == NULL)
        return RC_OK;
    config_where(config, "store", name, where);
    if (urls_kind(config->store.url) != URLS_SENTINEL)
        return config_fail(load, "%s requires [store] url = redis+sentinel://..", where);
    if (path == NULL)
        return config_fail(load, "missing setting [store] sentinel_password_file: required by %s",
                           where);
    return load_sentinel_password(load, path);
}

static enum rc
check_admin_listen(struct config_load *load)
{
    const struct config *config = load->config;
    char where[CONFIG_WHERE_MAX];

    if (config->gate.admin_listen == NULL ||
        strcmp(config->gate.admin_listen, config->gate.listen) != 0)
        return RC_OK;
    config_where(load->config, "gate", "admin_listen", where);
    return config_fail(load, "%s must differ from [gate] listen", where);
}

/* If the passfile cannot be read, libpq reports only that a password is missing. */
static enum rc
check_passfile(struct config_load *load, const char *section, const char *name,
               const char *conninfo)
{
    char *path = conninfo != NULL ? conninfo_passfile(conninfo) : NULL;
    enum rc rc = check_readable(load, section, name, path);

    free(path);
    return rc;
}

static bool
is_sql_sink(const struct config *config)
{
    return config->receipts.sql && (config->relay.roles & CONFIG_ROLE_SINK) != 0;
}

static enum rc
check_passfiles(struct config_load *load)
{
    const struct config *config = load->config;
    enum rc rc = RC_OK;

    if ((config->relay.roles & CONFIG_ROLE_GATE) != 0)
        rc = check_passfile(load, "rows", "conninfo", config->rows.conninfo);
    if (is_sql_sink(config) &&
        check_passfile(load, "receipts", "conninfo", config->receipts.conninfo) != RC_OK)
        rc = RC_BAD;
    if ((config->relay.roles & CONFIG_ROLE_FEED) == 0)
        return rc;
    if (check_passfile(load, "feed", "conninfo", config->feed.conninfo) != RC_OK)
        rc = RC_BAD;
    if (check_passfile(load, "feed", "primary_conninfo", config->feed.primary_conninfo) != RC_OK)
        rc = RC_BAD;
    return rc;
}

static enum rc
check_feed(struct config_load *load)
{
    const struct config *config = load->config;

    if ((config->relay.roles & CONFIG_ROLE_FEED) == 0 || config->feed.conninfo != NULL)
        return RC_OK;
    if (is_invalid(load, "feed", "conninfo"))
        return RC_OK; /* already reported */
    return fail_missing(load, "[feed] conninfo: required to connect to PostgreSQL, such as "
                              "host=/run/postgresql dbname=app user=clairon");
}

static enum rc
check_receipts(struct config_load *load)
{
    const struct config *config = load->config;

    if (!is_sql_sink(config) || config->receipts.conninfo != NULL ||
        config->feed.primary_conninfo != NULL || config->feed.conninfo != NULL)
        return RC_OK;
    if (is_invalid(load, "receipts", "conninfo") || is_invalid(load, "feed", "conninfo") ||
        is_invalid(load, "feed", "primary_conninfo"))
        return RC_OK; /* already reported */
    return fail_missing(load, "[receipts] conninfo: required by [receipts] sql, to connect to the "
                              "primary");
}

/* The files belong to the role, so that commands may run without read access to them. */
static enum rc
check_webhook(struct config_load *load)
{
    const struct config *config = load->config;
    bool has_url = config->webhook.url != NULL;
    char where[CONFIG_WHERE_MAX];

    if (is_invalid(load, "webhook", "url") || is_invalid(load, "webhook", "secret_file"))
        return RC_OK; /* already reported */
    if (has_url != (config->webhook.secret_file != NULL)) {
        config_where(config, "webhook", has_url ? "url" : "secret_file", where);
        return config_fail(load, "missing setting [webhook] %s: required by %s",
                           has_url ? "secret_file" : "url", where);
    }
    if (!has_url)
        return RC_OK;
    if (strncmp(config->webhook.url, "http://", 7) == 0 && !config->webhook.allow_private) {
        config_where(config, "webhook", "url", where);
        return config_fail(load, "%s must start with https://, or set [webhook] allow_private",
                           where);
    }
    if ((config->relay.roles & CONFIG_ROLE_SINK) == 0)
        return RC_OK;
    if (check_readable(load, "webhook", "ca_file", config->webhook.ca_file) != RC_OK)
        return RC_BAD;
    return check_readable(load, "webhook", "secret_file", config->webhook.secret_file);
}

/* Runs every check, so that one run reports all errors. */
enum rc
config_rules(struct config_load *load)
{
    static enum rc (*const CHECKS[])(struct config_load *) = {
        check_feed, check_passfiles, check_admin_listen, check_sentinel, check_backoff,
        check_tls,  check_auth,      check_receipts,     check_webhook,  check_webpush,
    };
    struct config *config = load->config;
    enum rc rc = RC_OK;

    config->gate.max_per_address_is_set = !is_default(config, "gate", "max_per_address");
    config->gate.connect_rate_is_set = !is_default(config, "gate", "connect_rate");
    config->gate.request_rate_is_set = !is_default(config, "gate", "request_rate");
    set_defaults_of_several_servers(config);
    if (is_invalid(load, "relay", "roles"))
        config->relay.roles = 0; /* the roles determine the required settings */
    for (size_t i = 0; i < sizeof CHECKS / sizeof CHECKS[0]; i++)
        if (CHECKS[i](load) != RC_OK)
            rc = RC_BAD;
    return rc;
}
