/* config_file.h: reads an INI file line by line. */
#ifndef CLAIRON_BASE_CONFIG_FILE_H
#define CLAIRON_BASE_CONFIG_FILE_H

#include "base/rc.h"

#define CONFIG_FILE_MAX (1024 * 1024) /* bytes */

/* Called for each `name = value`, and with name and value NULL at each [section];
 * an answer other than RC_OK ends the reading. */
typedef enum rc (*config_file_fn)(void *user, unsigned line, const char *section, const char *name,
                                  const char *value);

/*
 * RC_BAD with *ret_reason (a constant) and *ret_line (0: the file as a whole)
 * when the file breaks the grammar or cannot be read; *ret_reason stays
 * untouched when `on_value` refused.
 */
MUST_CHECK enum rc config_file_read(const char *path, config_file_fn on_value, void *user,
                                    const char **ret_reason, unsigned *ret_line);

#endif
