/* errors_print.h: prints entries of the error log for `clairon errors`. */
#ifndef CLAIRON_CLI_ERRORS_PRINT_H
#define CLAIRON_CLI_ERRORS_PRINT_H

#include <jansson.h>

#include "store/error_entry.h"

void cli_errors_print_header(void);
/* Prints one line. `users`: the result of cli_errors_users. */
void cli_errors_print_row(const struct error_entry *entry, const json_t *users);
/* Prints one JSON object on one line. */
void cli_errors_print_json(const struct error_entry *entry);

/*
 * Returns an array of the users who have not acknowledged, empty if the field is missing or
 * invalid. The caller frees it.
 */
json_t *cli_errors_users(const struct error_entry *entry);

#endif
