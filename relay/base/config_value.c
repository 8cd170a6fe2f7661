/* config_value.c: parses the values of settings by type. */
#include "base/config_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

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
        (void)snprintf(text, room, "feed, gate or feed,gate");
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
