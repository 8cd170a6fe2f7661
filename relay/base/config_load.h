/* config_load.h: the state of loading the settings, with the origin of each value. */
#ifndef CLAIRON_BASE_CONFIG_LOAD_H
#define CLAIRON_BASE_CONFIG_LOAD_H

#include "base/config.h"
#include "base/config_key.h"

struct config_load {
    struct config *config;
    char *error; /* CONFIG_ERROR_MAX bytes; one line per error */
    bool has_failed;
    bool in_unknown_section;          /* the file's current section is unknown */
    bool is_invalid[CONFIG_KEYS_MAX]; /* the setting has an invalid value */
};

#define CONFIG_FOLDER_MAX 512

/* ` in folder "/..."` for a relative path, "" for an absolute one. */
const char *config_folder(const char *path, char text[CONFIG_FOLDER_MAX]);

/* CLAIRON_SECTION_NAME */
void config_variable_name(const char *section, const char *name, char *variable, size_t room);

/* Adds a line to load->error and returns RC_BAD. */
MUST_CHECK enum rc config_fail(struct config_load *load, const char *format, ...) PRINTF_LIKE(2, 3);

/* Checks the dependencies between settings, and reads auth.key. */
MUST_CHECK enum rc config_rules(struct config_load *load);

#endif
