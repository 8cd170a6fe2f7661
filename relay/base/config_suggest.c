/* config_suggest.c: suggests settings for an unknown name. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/config.h"
#include "base/config_key.h"
#include "base/suggest.h"

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
