/* cli_options.h: what the commands that ask the store share: options, settings, the connection. */
#ifndef CLAIRON_CLI_OPTIONS_H
#define CLAIRON_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "store/direct.h"

struct cli_option {
    const char *name;   /* "--user" */
    const char **value; /* set to the text behind it; NULL: a flag */
    bool *flag;
};

/*
 * Takes the options and up to `operand_max` operands out of argv[1..]; settings (--section.key=V)
 * are left where they are, the rest becomes NULL. 0, or 2 after it said what is wrong.
 */
int cli_options_take(const char *command, int argc, char **argv, const struct cli_option *options,
                     size_t option_count, const char **operands, size_t operand_max);

/*
 * The store that the settings name: of `path` (may be NULL), the environment and argv. NULL after
 * it said why; then *ret_code is the exit code.
 */
struct direct *cli_store_open(const char *command, const char *path, int argc, char **argv,
                              int *ret_code);

/* Says "clairon COMMAND: what about" and answers 2. */
int cli_refuse(const char *command, const char *what, const char *about);

#endif
