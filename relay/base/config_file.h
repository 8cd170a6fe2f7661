/* config_file.h: reads an INI file line by line. */
#ifndef CLAIRON_BASE_CONFIG_FILE_H
#define CLAIRON_BASE_CONFIG_FILE_H

#define CONFIG_FILE_MAX (1024 * 1024) /* maximum bytes */

/* Called for each `name = value`, and with name and value NULL at each [section]. */
typedef void (*config_file_fn)(void *user, unsigned line, const char *section, const char *name,
                               const char *value);
/* Called for each line with a syntax error; `reason` is a constant. */
typedef void (*config_file_fault_fn)(void *user, unsigned line, const char *reason);

/*
 * Reads to the end despite errors, so that one run reports all of them. Settings below an invalid
 * section line are skipped. Returns NULL, or a constant reason why the file could not be read.
 */
const char *config_file_read(const char *path, config_file_fn on_value,
                             config_file_fault_fn on_fault, void *user);

#endif
