/* config_check.c: checks the form of strings: names, addresses, URLs. */
#include "base/config_check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "base/conninfo.h"
#include "base/networks.h"
#include "base/urls.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define HOST_LETTERS LOWER UPPER DIGITS ".-_"

#define UNIX_PATH_MAX (sizeof((struct sockaddr_un *)NULL)->sun_path - 1)

static bool
is_made_of(const char *text, size_t len, const char *letters)
{
    return len > 0 && strspn(text, letters) >= len;
}

const char *
config_check_slot(const char *value)
{
    return is_made_of(value, strlen(value), LOWER DIGITS "_")
               ? NULL
               : "must have 1 to 63 of the characters a-z, 0-9 and _";
}

const char *
config_check_prefix(const char *value)
{
    /* Braces would change the hash slot of the keys in a cluster. */
    return is_made_of(value, strlen(value), LOWER UPPER DIGITS "_.:-")
               ? NULL
               : "must have 1 to 64 letters, digits or characters of _ . : -";
}

static bool
is_number(const char *text, size_t len, long min, long max)
{
    if (!is_made_of(text, len, DIGITS) || len > 6)
        return false;

    long value = strtol(text, NULL, 10);

    return value >= min && value <= max;
}

/* A host name, or an address as "[v6]". */
static bool
is_host(const char *text, size_t len, const char *letters)
{
    if (len > 2 && text[0] == '[' && text[len - 1] == ']')
        return strspn(text + 1, DIGITS "abcdefABCDEF:.%") == len - 2;
    return is_made_of(text, len, letters);
}

/* True if all `len` bytes are "host:port" or "[v6]:port". */
static bool
is_address(const char *text, size_t len, const char *letters)
{
    const char *colon = memrchr(text, ':', len);

    return colon != NULL && is_number(colon + 1, len - (size_t)(colon + 1 - text), 1, 65535) &&
           is_host(text, (size_t)(colon - text), letters);
}

static bool
is_unix_path(const char *path)
{
    return path[0] == '/' && path[1] != '\0' && strlen(path) <= UNIX_PATH_MAX;
}

/* Independent servers are rejected: the store's own sharding and replication work better. */
static bool
is_plain_list(const char *value)
{
    static const char *const schemes[] = {"redis://", "rediss://", "unix://"};
    const char *sign = strrchr(value, '@');

    for (const char *at = strchr(value, ','); at != NULL; at = strchr(at + 1, ',')) {
        for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
            if (strncmp(at + 1, schemes[i], strlen(schemes[i])) == 0)
                return true;
    }
    return strncmp(value, "unix://", 7) != 0 && strchr(sign != NULL ? sign : value, ',') != NULL;
}

static const char *
check_one_url(const char *value)
{
    static const char form[] = "must be " CONFIG_URL_FORM;

    if (strncmp(value, "unix://", 7) == 0)
        return is_unix_path(value + 7) ? NULL : form;
    if (strncmp(value, "rediss://", 9) == 0) {
#ifdef CLAIRON_STORE_TLS
        value += 9;
#else
        return "must not use rediss: TLS requires hiredis 1.0 or later";
#endif
    } else if (strncmp(value, "redis://", 8) == 0) {
        value += 8;
    } else {
        return form;
    }

    const char *at = strrchr(value, '@');

    if (at != NULL && memchr(value, ':', (size_t)(at - value)) == NULL)
        return form;
    if (at != NULL)
        value = at + 1;

    const char *slash = strchr(value, '/');
    size_t len = slash != NULL ? (size_t)(slash - value) : strlen(value);

    if (slash != NULL && !is_number(slash + 1, strlen(slash + 1), 0, 65535))
        return form;
    if (memchr(value, ':', len) == NULL && is_host(value, len, HOST_LETTERS))
        return "must be " CONFIG_URL_FORM "; the port is missing, usually :6379";
    return is_address(value, len, HOST_LETTERS "*") ? NULL : form;
}

/* Checks the part after the servers: the primary's name for sentinels, nothing for a cluster. */
static const char *
check_url_rest(const char *value)
{
    const char *rest = urls_rest(value);

    switch (urls_kind(value)) {
    case URLS_SENTINEL:
        return is_made_of(rest, strlen(rest), HOST_LETTERS)
                   ? NULL
                   : "must end in /<primary name>, as in sentinel monitor: " URLS_SENTINEL_FORM;
    case URLS_CLUSTER:
        return rest[0] == '\0' && value[strlen(value) - 1] != '/'
                   ? NULL
                   : "must have no database number, because a cluster has only "
                     "database 0: " URLS_CLUSTER_FORM;
    default:
        return NULL;
    }
}

const char *
config_check_url(const char *value)
{
    const char *wrong = NULL;

    if (urls_kind(value) == URLS_SINGLE && is_plain_list(value))
        return "must be one server; for several, " URLS_SENTINEL_FORM
               " (a primary with replicas) or " URLS_CLUSTER_FORM;
    for (unsigned i = 0; i < urls_count(value) && wrong == NULL; i++) {
        char *url = urls_at(value, i);

        wrong = check_one_url(url);
        explicit_bzero(url, strlen(url)); /* may contain a password */
        free(url);
    }
    return wrong != NULL ? wrong : check_url_rest(value);
}

const char *
config_check_listen(const char *value)
{
    bool good = strncmp(value, "unix:", 5) == 0
                    ? is_unix_path(value + 5)
                    : is_address(value, strlen(value), HOST_LETTERS "*");

    return good ? NULL : "must be host:port, [v6]:port or unix:/path";
}

const char *
config_check_conninfo(const char *value)
{
    return *value == '"' || *value == '\''
               ? "must be a libpq connection string, without quotes around it"
               : conninfo_error(value);
}

const char *
config_check_networks(const char *value)
{
    return networks_are_valid(value)
               ? NULL
               : "must be addresses, networks such as 10.0.0.0/8, or unix, comma-separated";
}

/*
 * The gate compares the whole origin, as browsers send it. null and file:// have no host but are
 * valid: browsers send them, for example for local files.
 */
static bool
is_origin(const char *text, size_t len)
{
    static const char *const others[] = {"*", "null", "file://"};
    const char *sign = memmem(text, len, "://", 3);
    size_t scheme_len = sign != NULL ? (size_t)(sign - text) : 0;

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (len == strlen(others[i]) && memcmp(text, others[i], len) == 0)
            return true;
    if (!is_made_of(text, scheme_len, LOWER UPPER DIGITS "+.-"))
        return false;
    len -= scheme_len + 3;
    return is_host(sign + 3, len, HOST_LETTERS) || is_address(sign + 3, len, HOST_LETTERS);
}

const char *
config_check_origins(const char *value)
{
    for (;;) {
        size_t len;

        value += strspn(value, ", \t");
        len = strcspn(value, ", \t");
        if (len == 0)
            return NULL;
        if (!is_origin(value, len))
            return memchr(value, '*', len) != NULL
                       ? "must list each origin: * inside an origin is not supported, * alone "
                         "allows all origins"
                       : "must be scheme://host[:port] without a path, or *, comma-separated";
        value += len;
    }
}
