/* config_error.c: collects the errors in the settings, each with its origin. */
#include <ctype.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/config_load.h"

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
