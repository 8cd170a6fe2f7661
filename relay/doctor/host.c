/* host.c: the doctor's checks of this host: files, keys, certificates, limits. */
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "doctor/doctor_private.h"
#include "gate/gate.h"

#define SETTINGS "settings"
#define HOST "host"
#define HOST_HINT_MAX 768
/* minimum distinct bytes of a secret; 32 random bytes in base64 have about 24 */
#define DISTINCT_MIN 12
#define BACKLOG_MIN 1024

/* Other users of the machine could sign tokens or read a password. */
static void
check_file(const struct config_secret_file *file, struct findings *findings)
{
    char check[64], hint[HOST_HINT_MAX];

    snprintf(check, sizeof(check), "permissions of %s%s%s",
             file->section != NULL ? file->section : "", file->section != NULL ? "." : "",
             file->name);
    snprintf(hint, sizeof(hint), "chmod o= '%.256s'", file->path);
    if (file->is_exposed)
        findings_warn(findings, SETTINGS, check, hint,
                      "%s contains a secret and is accessible to all users", file->path);
    else
        findings_add(findings, SETTINGS, check, true, NULL, "%s", file->path);
}

static int
distinct_bytes(const char *bytes, size_t len)
{
    bool seen[256] = {false};
    int count = 0;

    for (size_t i = 0; i < len; i++) {
        count += !seen[(unsigned char)bytes[i]];
        seen[(unsigned char)bytes[i]] = true;
    }
    return count;
}

/* config_load has checked that this is a public key. */
static void
check_public_key(const struct config *config, struct findings *findings)
{
    BIO *bio = BIO_new_mem_buf(config->auth.key, (int)config->auth.key_len);
    EVP_PKEY *key = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
    bool is_rsa = EVP_PKEY_base_id(key) == EVP_PKEY_RSA;
    int bits = EVP_PKEY_bits(key);

    findings_add(findings, SETTINGS, "auth.public_key_file", true, NULL, "%s, %d bits",
                 is_rsa ? "RSA" : "EC", bits);
    EVP_PKEY_free(key);
    BIO_free(bio);
}

static void
check_key(const struct config *config, struct findings *findings)
{
    int distinct = distinct_bytes(config->auth.key, config->auth.key_len);

    if (config->auth.public_key_file != NULL) {
        check_public_key(config, findings);
        return;
    }
    findings_add(findings, SETTINGS, "secret strength", distinct >= DISTINCT_MIN,
                 "Use a random secret, because a guessed one can sign any token: head -c 32 "
                 "/dev/urandom | base64 >clairon.secret",
                 "%zu bytes, %d of them distinct", config->auth.key_len, distinct);
}

static int
days_until(const ASN1_TIME *time)
{
    int days = 0, seconds = 0;

    if (ASN1_TIME_diff(&days, &seconds, NULL, time) != 1)
        return 0;
    return seconds < 0 && days == 0 ? -1 : days;
}

static void
check_dates(const struct config *config, X509 *certificate, struct findings *findings)
{
    int left = days_until(X509_get0_notAfter(certificate));
    int until = days_until(X509_get0_notBefore(certificate));
    char hint[HOST_HINT_MAX];

    snprintf(hint, sizeof(hint), "Replace '%.256s', then systemctl reload clairon-relay",
             config->gate.tls_cert);
    if (until > 0)
        findings_add(findings, SETTINGS, "gate.tls_cert", false, hint,
                     "not valid for another %d day%s", until, cli_plural(until));
    else if (left < 0)
        findings_add(findings, SETTINGS, "gate.tls_cert", false, hint, "expired %d day%s ago",
                     -left, cli_plural(-left));
    else
        findings_add(findings, SETTINGS, "gate.tls_cert", left >= GATE_CERT_WARN_DAYS, hint,
                     "expires in %d day%s", left, cli_plural(left));
}

/* Without a callback OpenSSL prompts on the terminal. */
static int
no_passphrase(char *text, int size, int writes, void *ctx)
{
    (void)text;
    (void)size;
    (void)writes;
    (void)ctx;
    return -1;
}

static void
check_tls(const struct config *config, struct findings *findings)
{
    FILE *cert_file = fopen(config->gate.tls_cert, "re");
    FILE *key_file = fopen(config->gate.tls_key, "re");
    X509 *certificate = cert_file != NULL ? PEM_read_X509(cert_file, NULL, NULL, NULL) : NULL;
    EVP_PKEY *key =
        key_file != NULL ? PEM_read_PrivateKey(key_file, NULL, no_passphrase, NULL) : NULL;
    bool fits =
        key != NULL && (certificate == NULL || X509_check_private_key(certificate, key) == 1);

    if (certificate != NULL)
        check_dates(config, certificate, findings);
    else
        findings_add(
            findings, SETTINGS, "gate.tls_cert", false,
            "The file must be PEM (-----BEGIN CERTIFICATE-----), the server certificate first, "
            "then the chain",
            "%s contains no certificate", config->gate.tls_cert);
    findings_add(findings, SETTINGS, "gate.tls_key", fits,
                 "Set it to the PEM file with the certificate's private key, without a "
                 "passphrase",
                 "%s",
                 key == NULL ? "could not read a private key"
                 : fits      ? "matches the certificate"
                             : "does not match the certificate");
    EVP_PKEY_free(key);
    X509_free(certificate);
    if (key_file != NULL)
        (void)fclose(key_file);
    if (cert_file != NULL)
        (void)fclose(cert_file);
}

void
doctor_check_settings(const struct config *config, const char *path, struct findings *findings)
{
    struct config_secret_file files[CONFIG_SECRET_FILES_MAX];
    const size_t count = config_secret_files(config, files);

    findings_add(findings, SETTINGS, "read", true, NULL, "%s",
                 path != NULL ? path
                              : "no -c FILE: arguments, CLAIRON_* variables and "
                                "defaults");
    for (size_t i = 0; i < count; i++)
        check_file(&files[i], findings);
    if (config->auth.key != NULL)
        check_key(config, findings);
    if ((config->relay.roles & CONFIG_ROLE_GATE) != 0 && config->gate.tls_cert != NULL)
        check_tls(config, findings);
}

/* Returns -1 if the file cannot be read. */
static long
read_sysctl(const char *path)
{
    FILE *file = fopen(path, "re");
    char text[32] = "";
    bool is_read = file != NULL && fgets(text, sizeof(text), file) != NULL;

    if (file != NULL)
        (void)fclose(file);
    return is_read ? strtol(text, NULL, 10) : -1;
}

void
doctor_check_limits(const struct config *config, struct findings *findings)
{
    rlim_t wanted = (rlim_t)config->gate.max_connections + GATE_DESCRIPTORS_SPARE;
    long backlog = read_sysctl("/proc/sys/net/core/somaxconn");
    struct rlimit limit;
    char hint[HOST_HINT_MAX];

    snprintf(
        hint, sizeof(hint),
        "Set LimitNOFILE=%llu under [Service] (systemctl edit clairon-relay), or ulimit -n %llu in "
        "a shell; or lower gate.max_connections",
        (unsigned long long)wanted, (unsigned long long)wanted);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        findings_add(findings, HOST, "open files", limit.rlim_max >= wanted, hint,
                     "limit %llu, gate.max_connections = %d", (unsigned long long)limit.rlim_max,
                     config->gate.max_connections);
    if (backlog >= 0)
        findings_add(
            findings, HOST, "net.core.somaxconn", backlog >= BACKLOG_MIN,
            "Connections are dropped when many clients reconnect simultaneously: sysctl -w "
            "net.core.somaxconn=4096",
            "net.core.somaxconn is %ld", backlog);
}
