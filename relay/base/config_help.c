/* config_help.c: prints the table of settings, the most important ones first. */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/config_key.h"
#include "base/config_value.h"

/* tests/tap/settings/invalid_settings_rejected.pl checks that every key is listed once. */
static const char *const SECTIONS[] = {"feed",     "store", "auth", "gate",
                                       "delivery", "rows",  "relay"};
static const char *const NEEDED[] = {"conninfo",        "url",    "hs256_secret_file",
                                     "public_key_file", "listen", "origins"};

static const char *const type_words[] = {
    [CONFIG_TEXT] = "TEXT",   [CONFIG_BOOL] = "BOOL",     [CONFIG_INT] = "NUMBER",
    [CONFIG_SIZE] = "SIZE",   [CONFIG_ROLES] = "ROLES",   [CONFIG_DURATION] = "DURATION",
    [CONFIG_LEVEL] = "LEVEL", [CONFIG_FORMAT] = "FORMAT",
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
        (strcmp(key->name, "public_key_file") == 0 || strncmp(key->name, "hs256_secret", 12) == 0))
        return "required with role gate: one of hs256_secret_file, hs256_secret, public_key_file";
    return NULL;
}

static void
help_key(FILE *out, const struct config_key *key)
{
    const char *required = requirement(key);
    char described[CONFIG_REASON_MAX];

    config_value_describe(key, described, sizeof described);
    fprintf(out, "  --%s.%s=%s\n      %s", key->section, key->name, type_words[key->type],
            key->help);
    if (key->type != CONFIG_TEXT && key->check == NULL)
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
        fprintf(out, "%s[%s]\n", is_found ? "\n" : "", SECTIONS[i]);
        help_keys(out, SECTIONS[i], true);
        help_keys(out, SECTIONS[i], false);
        is_found = true;
    }
    return is_found;
}
