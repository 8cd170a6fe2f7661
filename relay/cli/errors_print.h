/* errors_print.h: prints entries of the error log for `clairon errors`. */
#ifndef CLAIRON_CLI_ERRORS_PRINT_H
#define CLAIRON_CLI_ERRORS_PRINT_H

#include <jansson.h>

#include "store/error_entry.h"

void cli_errors_print_header(void);
/* One line; `users` as cli_errors_users read them. */
void cli_errors_print_row(const struct error_entry *entry, const json_t *users);
/* One JSON object on one line. */
void cli_errors_print_json(const struct error_entry *entry);

/*
 * Users without an acknowledgement, as an array; empty if it cannot be read. The caller frees it.
 */
json_t *cli_errors_users(const struct error_entry *entry);

#endif
