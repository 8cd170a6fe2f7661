/* config_secrets.c: reads the files of keys and secrets, and checks the settings that name them. */
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
#include "base/memory.h"

#define SECRET_FILE_MAX 16384
#define HS256_KEY_MIN 32 /* RFC 7518, section 3.2: at least as long as the hash */
#define RSA_BITS_MIN 2048
#define PUBLIC_KEY_KINDS "RSA, or EC on P-256"
#define VAPID_KEY_KINDS "EC on P-256, as printed by clairon vapid"
#define KEY_FAULT_MAX 160

/* ---- files */

static void
wipe(char **bytes, size_t len)
{
    if (*bytes != NULL)
        explicit_bzero(*bytes, len);
    free(*bytes);
    *bytes = NULL;
}

/*
 * Reads a regular file. Returns NULL, and the caller wipes the bytes; otherwise the reason for the
 * failure. `ret_written` is the time of its last change in ns.
 */
static const char *
file_read(const char *path, size_t max, char **ret_bytes, size_t *ret_len, int64_t *ret_written)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *bytes = NULL;
    struct stat stat;
    const char *reason = NULL;
    size_t len = 0;
    ssize_t got = 1;

    *ret_bytes = NULL;
    *ret_len = 0;
    if (fd < 0)
        return strerror(errno);
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))
        reason = "not a regular file";
    else
        bytes = memory_new(max + 1);
    while (reason == NULL && got > 0 && len <= max) {
        got = read(fd, bytes + len, max + 1 - len);
        if (got < 0)
            reason = strerror(errno);
        else
            len += (size_t)got;
    }
    (void)close(fd);
    if (reason == NULL && len > max)
        reason = max == SECRET_FILE_MAX ? "larger than 16 kB" : "larger than 256 kB";
    if (reason != NULL) {
        wipe(&bytes, len);
        return reason;
    }
    *ret_bytes = bytes;
    *ret_len = len;
    *ret_written = (int64_t)stat.st_mtim.tv_sec * 1000000000 + stat.st_mtim.tv_nsec;
    return NULL;
}

const char *
config_file_read(const char *path, size_t max, char **ret_bytes, size_t *ret_len)
{
    int64_t written;

    return file_read(path, max, ret_bytes, ret_len, &written);
}

const char *
config_secret_read(const char *path, char **ret_bytes, size_t *ret_len)
{
    return config_file_read(path, SECRET_FILE_MAX, ret_bytes, ret_len);
}

/* ---- the key of tokens */

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

/* RS256 needs RSA with 2048 bits, and ES256 needs P-256 (RFC 7518, sections 3.3 and 3.4). */
static const char *
public_key_kind_fault(EVP_PKEY *key, char fault[KEY_FAULT_MAX])
{
    int kind = EVP_PKEY_base_id(key);
    bool is_ec = kind == EVP_PKEY_EC;
    int curve = is_ec ? curve_of(key) : NID_undef;

    if (kind == EVP_PKEY_RSA && EVP_PKEY_bits(key) < RSA_BITS_MIN) {
        (void)snprintf(fault, KEY_FAULT_MAX, "has %d bits, must be RSA with at least %d bits",
                       EVP_PKEY_bits(key), RSA_BITS_MIN);
        return fault;
    }
    if (kind == EVP_PKEY_RSA || curve == NID_X9_62_prime256v1)
        return NULL;
    (void)snprintf(fault, KEY_FAULT_MAX,
                   "has an unsupported key type (%s%.40s), must be " PUBLIC_KEY_KINDS,
                   is_ec ? "EC on " : "", OBJ_nid2sn(is_ec ? curve : kind));
    return fault;
}

/* Returns NULL for a valid key, otherwise the problem: "must ...", "has ..." or "is ...". */
static const char *
public_key_fault(const char *pem, size_t len, char fault[KEY_FAULT_MAX])
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
    char where[CONFIG_WHERE_MAX], fault[KEY_FAULT_MAX];
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
load_key(struct config_load *load, const char *name, const char *path)
{
    char *bytes;
    size_t len;
    int64_t written = 0;
    const char *reason = file_read(path, SECRET_FILE_MAX, &bytes, &len, &written);
    enum rc rc = reason != NULL ? config_fail_unreadable(load, "auth", name, path, reason)
                                : set_key(load, name, bytes, len);

    if (rc == RC_OK)
        load->config->auth.key_written = written;
    wipe(&bytes, len);
    return rc;
}

enum rc
config_check_auth(struct config_load *load)
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
        if (config_is_invalid(load, "auth", names[i]))
            return RC_OK; /* already reported */
    if (found < 0 && (config->auth.jwks.file != NULL || config->auth.jwks.url != NULL ||
                      config->issuer_count > 0 || config_is_invalid(load, "auth", "jwks_url")))
        return RC_OK;
    if (found < 0)
        return config_fail_missing(
            load, "[auth] hs256_secret_file (or hs256_secret, public_key_file, jwks_file, "
                  "jwks_url, or an [issuer NAME]): required to verify tokens; for HS256 tokens: "
                  "head -c 32 /dev/urandom | base64 >clairon.secret");
    if (found != 1)
        return load_key(load, names[found], given[found]);
    if (check_secret(load, names[1], strlen(given[1])) != RC_OK)
        return RC_BAD;
    config->auth.key = memory_text(given[1], strlen(given[1]));
    config->auth.key_len = strlen(given[1]);
    return RC_OK;
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
    if (load_key(&load, is_public ? "public_key_file" : "hs256_secret_file", path) != RC_OK)
        return CONFIG_KEY_BAD;
    is_same = fresh.auth.key_len == config->auth.key_len &&
              memcmp(fresh.auth.key, config->auth.key, fresh.auth.key_len) == 0;
    was_written = fresh.auth.key_written != config->auth.key_written;
    config->auth.key_written = fresh.auth.key_written;
    if (is_same)
        wipe(&fresh.auth.key, fresh.auth.key_len);
    if (is_same && !was_written)
        return CONFIG_KEY_UNCHANGED;
    wipe(&config->auth.previous, config->auth.previous_len);
    if (is_same)
        return CONFIG_KEY_PREVIOUS_REVOKED;
    config->auth.previous = config->auth.key;
    config->auth.previous_len = config->auth.key_len;
    config->auth.key = fresh.auth.key;
    config->auth.key_len = fresh.auth.key_len;
    return CONFIG_KEY_CHANGED;
}

/* ---- other secrets */

enum rc
config_load_sentinel_password(struct config_load *load, const char *path)
{
    char *bytes, where[CONFIG_WHERE_MAX];
    size_t len;
    const char *reason = config_secret_read(path, &bytes, &len);
    size_t used = len - (len > 0 && bytes[len - 1] == '\n');
    enum rc rc = RC_OK;

    config_where(load->config, "store", "sentinel_password_file", where);
    if (reason != NULL)
        rc = config_fail_unreadable(load, "store", "sentinel_password_file", path, reason);
    else if (used == 0)
        rc = config_fail(load, "%s: \"%.256s\" is empty", where, path);
    else
        load->config->store.sentinel_password = memory_text(bytes, used);
    wipe(&bytes, len);
    return rc;
}

/* Returns NULL for a valid key, otherwise the problem: "has ..." or "is ...". */
static const char *
vapid_key_fault(const char *pem, size_t len, char fault[KEY_FAULT_MAX])
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
        (void)snprintf(
            fault, KEY_FAULT_MAX, "has an unsupported key type (%s%.40s), must be " VAPID_KEY_KINDS,
            kind == EVP_PKEY_EC ? "EC on " : "", OBJ_nid2sn(kind == EVP_PKEY_EC ? curve : kind));
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
    char *bytes, where[CONFIG_WHERE_MAX], fault[KEY_FAULT_MAX];
    size_t len;
    const char *reason = config_secret_read(path, &bytes, &len);
    const char *wrong = reason == NULL ? vapid_key_fault(bytes, len, fault) : NULL;
    enum rc rc = RC_OK;

    config_where(load->config, "webpush", "vapid_key_file", where);
    if (reason != NULL)
        rc = config_fail_unreadable(load, "webpush", "vapid_key_file", path, reason);
    else if (wrong != NULL)
        rc = config_fail(load, "%s: \"%.256s\" %s", where, path, wrong);
    else
        load->config->webpush.keys[number] = memory_text(bytes, len);
    wipe(&bytes, len);
    return rc;
}

/* Gate and sink use the keys. A command that uses only the store may run without read access. */
enum rc
config_check_webpush(struct config_load *load)
{
    const struct config *config = load->config;
    const char *at = config->webpush.vapid_key_file;
    char where[CONFIG_WHERE_MAX];
    enum rc rc = config_check_readable(load, "webpush", "ca_file", config->webpush.ca_file);

    if (at != NULL && config->webpush.subject == NULL &&
        !config_is_invalid(load, "webpush", "subject"))
        rc = config_fail_missing(load, "[webpush] subject: required by vapid_key_file, "
                                       "such as mailto:ops@example.org");
    if (at != NULL && config->webpush.app_url == NULL &&
        !config_is_invalid(load, "webpush", "app_url"))
        rc = config_fail_missing(load, "[webpush] app_url: required by vapid_key_file, "
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
