/* options.h: options, settings, store and output, shared by the commands. */
#ifndef CLAIRON_CLI_OPTIONS_H
#define CLAIRON_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "store/command.h"

#define CLI_USAGE_ERROR 2 /* exit status: wrong usage, or an invalid setting */

struct cli_option {
    const char *name;   /* "--user" */
    const char **value; /* set to the value; NULL: a flag */
    bool *flag;
};

/*
 * Parses the options and up to `operand_max` operands of argv[1..] and sets them to NULL. Settings
 * (--section.key=V) remain in argv. A value that starts with -- requires the form
 * --option=value. Returns 0, or CLI_USAGE_ERROR after printing the error.
 */
int cli_options_parse(const char *command, int argc, char **argv, const struct cli_option *options,
                      size_t option_count, const char **operands, size_t operand_max);

/*
 * Calls config_load with `path` (may be NULL), the environment, and the arguments that
 * cli_options_parse left. `forced`, terminated by NULL, contains arguments that override them.
 */
MUST_CHECK enum rc cli_settings_load(struct config *ret_config, const char *path, int argc,
                                     char **argv, char *const *forced,
                                     char error[CONFIG_ERROR_MAX]);

/*
 * Loads the settings and connects to the store. Returns NULL after printing the error; *ret_code is
 * then the exit status. In both cases the caller frees the connection, then the settings.
 */
struct command *cli_store_open(const char *command, const char *path, int argc, char **argv,
                               struct config *ret_config, int *ret_code);

/* Prints "clairon COMMAND: what about" and returns CLI_USAGE_ERROR. */
int cli_usage_error(const char *command, const char *what, const char *about);

/*
 * Prints the errors in the settings and returns CLI_USAGE_ERROR. If `path` is NULL, adds that no
 * file was read.
 */
int cli_settings_error(const char *command, const char *path, const char *error);

/* Returns the exit status: 1 if the text could not be printed. */
int cli_print(const char *text);

/* Prints untrusted text, such as a name. Control characters become ? or a blank. */
void cli_print_plain(const char *text, size_t len);

#endif
