/* config_load.h: a load of the settings under way, with the origin of each value. */
#ifndef CLAIRON_BASE_CONFIG_LOAD_H
#define CLAIRON_BASE_CONFIG_LOAD_H

#include "base/config.h"
#include "base/config_key.h"

#define CONFIG_WHERE_MAX 512

struct config_origin {
    enum { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_VARIABLE, ORIGIN_ARGUMENT } from;
    unsigned line; /* of the file; a value that was overridden keeps it */
};

struct config_load {
    struct config *config;
    const char *path;
    char *error; /* CONFIG_ERROR_MAX; a line for each mistake */
    bool has_failed;
    bool in_unknown_section; /* of the file */
    struct config_origin origins[CONFIG_KEYS_MAX];
};

/* Adds a line to the error and answers RC_BAD. */
MUST_CHECK enum rc config_fail(struct config_load *load, const char *format, ...) PRINTF_LIKE(2, 3);

/* "relay.conf:3: [gate] listen", "argument --gate.listen", .. or "[gate] listen". */
void config_where(const struct config_load *load, const char *section, const char *name,
                  char where[CONFIG_WHERE_MAX]);

/* Checks what must go together and reads auth.key. */
MUST_CHECK enum rc config_rules(struct config_load *load);

#endif
