/* config_error.c: collects the errors in the settings, each with its origin and what is valid. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/config_private.h"
#include "base/suggest.h"

const char *
config_folder(const char *path, char text[CONFIG_FOLDER_MAX])
{
    char folder[CONFIG_FOLDER_MAX - 16];

    text[0] = '\0';
    if (path[0] != '/' && getcwd(folder, sizeof folder) != NULL)
        (void)snprintf(text, CONFIG_FOLDER_MAX, " in folder \"%s\"", folder);
    return text;
}

enum rc
config_fail(struct config_load *load, const char *format, ...)
{
    size_t len = strlen(load->error);
    va_list args;

    load->has_failed = true;
    if (len + 1 >= CONFIG_ERROR_MAX)
        return RC_BAD;
    if (len > 0)
        load->error[len++] = '\n';
    va_start(args, format);
    (void)vsnprintf(load->error + len, CONFIG_ERROR_MAX - len, format, args);
    va_end(args);
    return RC_BAD;
}

void
config_variable_name(const char *section, const char *name, char *variable, size_t room)
{
    (void)snprintf(variable, room, "CLAIRON_%s_%s", section, name);
    for (; *variable != '\0'; variable++)
        *variable = (char)toupper((unsigned char)*variable);
}

void
config_where(const struct config *config, const char *section, const char *name,
             char where[CONFIG_WHERE_MAX])
{
    const struct config_key *key = config_key_find(section, name);
    char variable[128];

    switch (key != NULL ? config->origins[key - config_keys].from : ORIGIN_DEFAULT) {
    case ORIGIN_FILE:
        (void)snprintf(where, CONFIG_WHERE_MAX, "%.384s:%u: [%s] %s", config->path,
                       config->origins[key - config_keys].line, section, name);
        break;
    case ORIGIN_VARIABLE:
        config_variable_name(section, name, variable, sizeof variable);
        (void)snprintf(where, CONFIG_WHERE_MAX, "variable %s", variable);
        break;
    case ORIGIN_ARGUMENT:
        (void)snprintf(where, CONFIG_WHERE_MAX, "argument --%s.%s", section, name);
        break;
    case ORIGIN_DEFAULT:
        (void)snprintf(where, CONFIG_WHERE_MAX, "[%s] %s", section, name);
        break;
    }
}

/* Suggestions for an unknown name. */

static void
text_add(char *text, size_t room, const char *more)
{
    size_t len = strlen(text);

    (void)snprintf(text + len, room - len, "%s", more);
}

/* A known name in the wrong section is a better match than a similar name. */
static size_t
key_distance(const struct config_key *key, const char *section, const char *name)
{
    return 2 * suggest_distance(key->name, name) + (strcmp(key->section, section) != 0);
}

static void
add_nearest(const char *section, const char *name, char *text, size_t room)
{
    const char *before = "did you mean [";
    size_t best = 2 * (strlen(name) / 2) + 1;

    for (size_t i = 0; i < config_key_count; i++)
        if (key_distance(&config_keys[i], section, name) < best)
            best = key_distance(&config_keys[i], section, name);
    for (size_t i = 0; i < config_key_count; i++) {
        if (key_distance(&config_keys[i], section, name) != best)
            continue;
        text_add(text, room, before);
        text_add(text, room, config_keys[i].section);
        text_add(text, room, "] ");
        text_add(text, room, config_keys[i].name);
        before = " or [";
    }
    if (*text != '\0')
        text_add(text, room, "? ");
}

static void
add_nearest_section(const char *section, char *text, size_t room)
{
    const char *names[CONFIG_KEYS_MAX] = {NULL}, *nearest;

    for (size_t i = 0; i < config_key_count; i++)
        names[i] = config_keys[i].section;
    nearest = suggest_word(section, names, config_key_count);
    for (size_t i = 0; i < config_key_count; i++)
        if (strcasecmp(section, config_keys[i].section) == 0)
            nearest = config_keys[i].section;
    if (nearest == NULL || strcmp(nearest, section) == 0)
        return;
    text_add(text, room, "did you mean [");
    text_add(text, room, nearest);
    text_add(text, room, "]? ");
}

/* Lists the keys of the section, or all sections if it does not exist. */
static void
add_valid(const char *section, char *text, size_t room)
{
    const char *before = "";
    size_t start = strlen(text);

    text_add(text, room, "[");
    text_add(text, room, section);
    text_add(text, room, "] has ");
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0) {
            text_add(text, room, before);
            text_add(text, room, config_keys[i].name);
            before = ", ";
        }
    if (*before != '\0')
        return;
    text[start] = '\0';
    text_add(text, room, "sections are ");
    for (size_t i = 0; i < config_key_count; i++)
        if (i == 0 || strcmp(config_keys[i].section, config_keys[i - 1].section) != 0) {
            text_add(text, room, before);
            text_add(text, room, config_keys[i].section);
            before = ", ";
        }
}

void
config_key_suggest(const char *section, const char *name, char *text, size_t room)
{
    *text = '\0';
    if (*name == '\0')
        add_nearest_section(section, text, room);
    else
        add_nearest(section, name, text, room);
    add_valid(section, text, room);
}
