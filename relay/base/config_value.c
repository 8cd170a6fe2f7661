/* config_value.c: parses the values of settings by type, and checks the form of strings. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "base/config_private.h"
#include "base/urls.h"
#include "base/memory.h"
#include "base/addresses.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define HOST_LETTERS LOWER UPPER DIGITS ".-_"

#define UNIX_PATH_MAX (sizeof((struct sockaddr_un *)NULL)->sun_path - 1)

struct unit {
    const char *name;
    int64_t factor;
};

/* Largest unit first, so that a number is printed in the largest unit that fits. */
static const struct unit duration_units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0},
};
static const struct unit size_units[] = {
    {"MB", 1024 * 1024}, {"kB", 1024}, {"B", 1}, {"", 1}, {NULL, 0},
};
static const struct unit no_units[] = {{"", 1}, {NULL, 0}};

static const char *const level_words[] = {"error", "warn", "info", "debug", NULL};
static const char *const format_words[] = {"logfmt", "json", NULL};

/*
 * Parses digits, optional blanks, and the unit. A minus sign is accepted, so that -1 is reported as
 * out of range, not as malformed.
 */
static enum rc
read_number(const char *text, const struct unit *units, int64_t *ret_value)
{
    const char *digits = *text == '-' ? text + 1 : text;
    int64_t value = 0;
    size_t len = strspn(digits, "0123456789");

    if (len == 0 || len > 18)
        return RC_BAD;
    for (size_t i = 0; i < len; i++)
        value = value * 10 + (digits[i] - '0');

    const char *unit = digits + len + strspn(digits + len, " \t");

    while (units->name != NULL && strcmp(units->name, unit) != 0)
        units++;
    if (units->name == NULL && (*unit != '\0' || value != 0))
        return RC_BAD;

    int64_t factor = units->name != NULL ? units->factor : 1;

    if (value > INT64_MAX / factor)
        return RC_BAD;
    *ret_value = digits > text ? -value * factor : value * factor;
    return RC_OK;
}

enum rc
config_value_duration(const char *text, int64_t *ret_ms)
{
    return read_number(text, duration_units, ret_ms);
}

static enum rc
read_bool(const char *text, bool *ret_value)
{
    static const char *const words[] = {"false", "true", "off", "on", "no", "yes", "0", "1"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *ret_value = i % 2 == 1;
            return RC_OK;
        }
    return RC_BAD;
}

static enum rc
read_word(const char *text, const char *const *words, unsigned *ret_value)
{
    for (unsigned i = 0; words[i] != NULL; i++)
        if (strcmp(text, words[i]) == 0) {
            *ret_value = i;
            return RC_OK;
        }
    return RC_BAD;
}

static enum rc
read_roles(const char *text, unsigned *ret_roles)
{
    unsigned roles = 0;

    for (;;) {
        size_t len;

        text += strspn(text, " \t");
        len = strcspn(text, ", \t");
        if (len == 4 && memcmp(text, "feed", 4) == 0)
            roles |= CONFIG_ROLE_FEED;
        else if (len == 4 && memcmp(text, "gate", 4) == 0)
            roles |= CONFIG_ROLE_GATE;
        else if (len == 4 && memcmp(text, "sink", 4) == 0)
            roles |= CONFIG_ROLE_SINK;
        else
            return RC_BAD;
        text += len + strspn(text + len, " \t");
        if (*text == '\0')
            break;
        if (*text++ != ',')
            return RC_BAD;
    }
    *ret_roles = roles;
    return RC_OK;
}

static const struct unit *
units_of(enum config_type type)
{
    return type == CONFIG_DURATION ? duration_units : type == CONFIG_SIZE ? size_units : no_units;
}

static void
format_number(int64_t value, const struct unit *units, char text[32])
{
    while (units[1].name != NULL && (value == 0 || value % units->factor != 0))
        units++;
    (void)snprintf(text, 32, "%" PRId64 "%s", value / units->factor, units->name);
}

void
config_value_describe(const struct config_key *key, char *text, size_t room)
{
    char min[32], max[32];

    format_number(key->min, units_of(key->type), min);
    format_number(key->max, units_of(key->type), max);
    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
    case CONFIG_PATHS:
        (void)snprintf(text, room, "a string of %s to %s bytes", min, max);
        break;
    case CONFIG_BOOL:
        (void)snprintf(text, room, "true, false, on, off, yes, no, 1 or 0");
        break;
    case CONFIG_INT:
        (void)snprintf(text, room, "a number from %s to %s", min, max);
        break;
    case CONFIG_DURATION:
        (void)snprintf(text, room, "a duration from %s to %s in ms, s, m, h or d", min, max);
        break;
    case CONFIG_SIZE:
        (void)snprintf(text, room, "a size from %s to %s in B, kB or MB", min, max);
        break;
    case CONFIG_ROLES:
        (void)snprintf(text, room, "a list of feed, gate and sink, such as feed,gate,sink");
        break;
    case CONFIG_LEVEL:
        (void)snprintf(text, room, "error, warn, info or debug");
        break;
    case CONFIG_FORMAT:
        (void)snprintf(text, room, "logfmt or json");
        break;
    }
}

static enum rc
set_text(char **field, const struct config_key *key, const char *text)
{
    size_t len = strlen(text);

    if ((int64_t)len < key->min || (int64_t)len > key->max)
        return RC_BAD;
    if (*field != NULL)
        explicit_bzero(*field, strlen(*field));
    free(*field);
    *field = len > 0 ? memory_text(text, len) : NULL;
    return RC_OK;
}

static enum rc
set_number(void *field, const struct config_key *key, const char *text)
{
    int64_t value;

    if (read_number(text, units_of(key->type), &value) != RC_OK)
        return RC_BAD;
    if (value < key->min || value > key->max)
        return RC_BAD;
    if (key->type == CONFIG_INT)
        *(int *)field = (int)value;
    else
        *(int64_t *)field = value;
    return RC_OK;
}

static enum rc
set_field(void *field, const struct config_key *key, const char *text)
{
    unsigned word;

    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
    case CONFIG_PATHS:
        return set_text(field, key, text);
    case CONFIG_BOOL:
        return read_bool(text, field);
    case CONFIG_ROLES:
        return read_roles(text, field);
    case CONFIG_LEVEL:
        if (read_word(text, level_words, &word) != RC_OK)
            return RC_BAD;
        *(enum log_level *)field = (enum log_level)word;
        return RC_OK;
    case CONFIG_FORMAT:
        if (read_word(text, format_words, &word) != RC_OK)
            return RC_BAD;
        *(enum log_format *)field = (enum log_format)word;
        return RC_OK;
    default:
        return set_number(field, key, text);
    }
}

enum rc
config_value_set(struct config *config, const struct config_key *key, const char *text,
                 char reason[CONFIG_REASON_MAX])
{
    void *field = (char *)config + key->offset;
    /* An empty string unsets the key. A key that cannot be unset fails the length check. */
    const char *wrong = key->check != NULL && *text != '\0' ? key->check(text) : NULL;

    if (wrong != NULL) {
        (void)snprintf(reason, CONFIG_REASON_MAX, "%s", wrong);
        return RC_BAD;
    }
    if (set_field(field, key, text) == RC_OK)
        return RC_OK;

    char described[CONFIG_REASON_MAX - 16];

    config_value_describe(key, described, sizeof described);
    (void)snprintf(reason, CONFIG_REASON_MAX, "must be %s", described);
    return RC_BAD;
}

/* The form of strings: names, addresses, URLs. */

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
    static const char form[] = "must be " URLS_FORM;

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
        return "must be " URLS_FORM "; the port is missing, usually :6379";
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

/* scheme://[user@]host[:port] and the rest of a URL, without blanks or letters outside ASCII. */
static bool
is_url(const char *text, const char *scheme, bool needs_port, const char **ret_rest)
{
    size_t scheme_len = strlen(scheme), host_len;
    const char *at;

    for (const char *each = text; *each != '\0'; each++)
        if (*each <= ' ' || *each > '~' || *each == '#')
            return false;
    if (strncmp(text, scheme, scheme_len) != 0)
        return false;
    text += scheme_len;
    *ret_rest = text + strcspn(text, "/?");
    at = memrchr(text, '@', (size_t)(*ret_rest - text));
    text = at != NULL ? at + 1 : text;
    host_len = (size_t)(*ret_rest - text);
    return is_address(text, host_len, HOST_LETTERS) ||
           (!needs_port && is_host(text, host_len, HOST_LETTERS));
}

const char *
config_check_webhook_url(const char *value)
{
    const char *rest;

    return is_url(value, "https://", false, &rest) || is_url(value, "http://", false, &rest)
               ? NULL
               : "must be https://host[:port]/path, in ASCII and without #";
}

const char *
config_check_proxy(const char *value)
{
    const char *rest;

    return is_url(value, "http://", true, &rest) && (rest[0] == '\0' || strcmp(rest, "/") == 0)
               ? NULL
               : "must be http://[user:password@]host:port";
}

bool
config_list_contains(const char *list, const char *word)
{
    size_t len = strlen(word);

    while (*list != '\0') {
        list += strspn(list, ", \t");
        if (strncmp(list, word, len) == 0 && strchr(", \t", list[len]) != NULL)
            return true; /* strchr also finds the end of the list */
        list += strcspn(list, ", \t");
    }
    return false;
}

const char *
config_check_outcomes(const char *value)
{
    static const char *const OUTCOMES[] = {"acked",   "expired",   "exhausted", "unreached",
                                           "dropped", "forgotten", "escalated", "escalated2"};
    size_t words = 0, known = 0;

    for (const char *at = value; *at != '\0'; at += strcspn(at, ", \t")) {
        at += strspn(at, ", \t");
        words += *at != '\0';
    }
    for (size_t i = 0; i < sizeof OUTCOMES / sizeof OUTCOMES[0]; i++)
        known += config_list_contains(value, OUTCOMES[i]);
    return words > 0 && words == known
               ? NULL
               : "must be a list of acked, expired, exhausted, unreached, dropped, forgotten, "
                 "escalated and escalated2";
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

/*
 * Endpoints are compared byte for byte, and browsers write hosts in lower case. *. is only allowed
 * before a domain, and with https.
 */
static bool
is_push_origin(const char *text, size_t len)
{
    bool is_https = len > 8 && memcmp(text, "https://", 8) == 0;
    size_t scheme_len = is_https ? 8 : 7;

    if (!is_https && (len <= 7 || memcmp(text, "http://", 7) != 0))
        return false;
    text += scheme_len;
    len -= scheme_len;
    if (is_https && len > 2 && memcmp(text, "*.", 2) == 0)
        return is_made_of(text + 2, len - 2, LOWER DIGITS ".-_") && text[2] != '.';
    return is_host(text, len, LOWER DIGITS ".-_") || is_address(text, len, LOWER DIGITS ".-_");
}

const char *
config_check_push_origins(const char *value)
{
    bool is_empty = true;

    for (;;) {
        size_t len;

        value += strspn(value, ", \t");
        len = strcspn(value, ", \t");
        if (len == 0 && !is_empty)
            return NULL;
        if (!is_push_origin(value, len))
            return "must be scheme://host[:port] in lower case without a path, or "
                   "https://*.domain, comma-separated";
        is_empty = false;
        value += len;
    }
}

/* Letters that a URL does not need to encode. */
static bool
is_url_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text > '~' || strchr("\"<>\\^`{|}", *text) != NULL)
            return false;
    }
    return true;
}

static bool
is_localhost(const char *host, size_t len)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == len && strncasecmp(host, names[i], len) == 0)
            return true;
    return false;
}

/* Some push services reject a subject at localhost. */
const char *
config_check_subject(const char *value)
{
    const char *host = NULL;
    size_t len;

    if (strncmp(value, "mailto:", 7) == 0 && strchr(value + 7, '@') > value + 7)
        host = strchr(value, '@') + 1;
    else if (strncmp(value, "https://", 8) == 0)
        host = value + 8;
    len = host != NULL ? strcspn(host, ":/?#") : 0;
    if (len > 0 && is_url_text(value) && !is_localhost(host, len) &&
        is_host(host, len, HOST_LETTERS))
        return NULL;
    return "must be mailto:you@host or https://host, not at localhost";
}

const char *
config_check_app_url(const char *value)
{
    size_t scheme_len = strncmp(value, "https://", 8) == 0  ? 8
                        : strncmp(value, "http://", 7) == 0 ? 7
                                                            : 0;
    const char *host = value + scheme_len;
    size_t len = strcspn(host, "/?#");

    if (scheme_len > 0 && is_url_text(value) && strchr(value, '#') == NULL &&
        (is_host(host, len, HOST_LETTERS) || is_address(host, len, HOST_LETTERS)))
        return NULL;
    return "must be https://host[:port][/path], without user and fragment";
}

#define KIND_LETTERS LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define KIND_MAX 63 /* bytes of a kind of groups */

const char *
config_check_jwks_url(const char *value)
{
    const char *host = strstr(value, "://");

    if ((strncmp(value, "https://", 8) != 0 && strncmp(value, "http://", 7) != 0) ||
        strcspn(host + 3, "/?#") == 0 || strpbrk(value, " \t#\"<>\\^`{|}") != NULL ||
        memchr(host + 3, '@', strcspn(host + 3, "/?#")) != NULL)
        return "must be https://host[:port]/path, without user and fragment";
    return NULL;
}

/* Each item of a list: [KIND=]path, or path=value. */
static const char *
check_items(const char *value, bool is_kind, const char *valid)
{
    while (*value != '\0') {
        size_t len = strcspn(value, ","), name_len = strcspn(value, "=,");
        size_t word_len = strspn(value, KIND_LETTERS DIGITS);

        if (!is_kind && (name_len == len || name_len == 0))
            return valid;
        if (is_kind && name_len < len &&
            (word_len != name_len || name_len == 0 || name_len > KIND_MAX ||
             strchr(KIND_LETTERS, value[0]) == NULL || strncasecmp(value, "USER=", 5) == 0 ||
             strncasecmp(value, "ALL=", 4) == 0))
            return valid;
        value += len;
        value += strspn(value, ", \t");
    }
    return NULL;
}

const char *
config_check_groups_claim(const char *value)
{
    return check_items(value, true,
                       "must be [KIND=]path, comma-separated, with a KIND of 1 to 63 letters, "
                       "digits and _, and not USER or ALL");
}

const char *
config_check_required(const char *value)
{
    return check_items(value, false, "must be path=value, comma-separated");
}
