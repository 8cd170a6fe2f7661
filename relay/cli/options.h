/* options.h: what the commands share: options, settings, the store, what they say. */
#ifndef CLAIRON_CLI_OPTIONS_H
#define CLAIRON_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "store/direct.h"

#define CLI_WRONG_USE 2 /* exit code: what was asked, or a setting, is wrong */

struct cli_option {
    const char *name;   /* "--user" */
    const char **value; /* set to the text behind it; NULL: a flag */
    bool *flag;
};

/*
 * Takes the options and up to `operand_max` operands out of argv[1..]; settings (--section.key=V)
 * are left where they are, the rest becomes NULL. A value that begins with -- must stand behind
 * the option's =. 0, or CLI_WRONG_USE after it said what is wrong.
 */
int cli_options_take(const char *command, int argc, char **argv, const struct cli_option *options,
                     size_t option_count, const char **operands, size_t operand_max);

/*
 * Loads the settings of `path` (may be NULL), the environment and what cli_options_take left of
 * argv. `forced`, up to a NULL, are settings that count more. As config_load otherwise.
 */
MUST_CHECK enum rc cli_settings_load(struct config *ret_config, const char *path, int argc,
                                     char **argv, char *const *forced,
                                     char error[CONFIG_ERROR_MAX]);

/* The store that those settings name. NULL after it said why; then *ret_code is the exit code. */
struct direct *cli_store_open(const char *command, const char *path, int argc, char **argv,
                              int *ret_code);

/* Says "clairon COMMAND: what about" and answers CLI_WRONG_USE. */
int cli_refuse(const char *command, const char *what, const char *about);

/* The same of settings that config_load refused; `path` NULL: adds that no file was read. */
int cli_refuse_settings(const char *command, const char *path, const char *error);

/* Prints a whole answer. Answers the exit code: 1 where it could not be written. */
int cli_print(const char *text);

/* Prints a text of others, say a name, with ? for what a terminal would obey. */
void cli_print_plain(const char *text, size_t len);

#endif
