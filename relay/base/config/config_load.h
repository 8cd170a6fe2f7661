/* config_load.h: a load of the settings under way, with the origin of each value. */
#ifndef CLAIRON_BASE_CONFIG_CONFIG_LOAD_H
#define CLAIRON_BASE_CONFIG_CONFIG_LOAD_H

#include "base/config.h"
#include "base/config/config_key.h"

struct config_load {
    struct config *config;
    char *error; /* CONFIG_ERROR_MAX; a line for each mistake */
    bool has_failed;
    bool in_unknown_section;          /* of the file */
    bool is_refused[CONFIG_KEYS_MAX]; /* it was set, to a value that is not valid */
};

#define CONFIG_FOLDER_MAX 512

/* Where a relative path was looked up: ` in folder "/.."`, of an absolute one an empty text. */
const char *config_folder(const char *path, char text[CONFIG_FOLDER_MAX]);

/* CLAIRON_SECTION_NAME */
void config_variable_name(const char *section, const char *name, char *variable, size_t room);

/* Adds a line to the error and answers RC_BAD. */
MUST_CHECK enum rc config_fail(struct config_load *load, const char *format, ...) PRINTF_LIKE(2, 3);

/* Checks what must go together and reads auth.key. */
MUST_CHECK enum rc config_rules(struct config_load *load);

#endif
