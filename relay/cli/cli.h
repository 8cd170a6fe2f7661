/* cli.h: the commands except the daemon and the doctor, and what all commands share. */
#ifndef CLAIRON_CLI_H
#define CLAIRON_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/rc.h"
#include "wire/frame.h"

struct command;

/*
 * `clairon token`: prints a development token. argv[0] is the command's name. Returns the exit
 * code: 0, 1 if the token could not be created or written, 2 for wrong usage.
 */
int cli_token(int argc, char **argv);

/*
 * `clairon errors list|redrive|drop`, `clairon trace ID` and `clairon why ID USER`. Return the exit
 * status: 0, 1 if the command failed for an id or the store failed, 2 for wrong usage.
 */
int cli_errors(int argc, char **argv);
int cli_trace(int argc, char **argv);
int cli_why(int argc, char **argv);

/*
 * `clairon drop ID ...` and `clairon drop --source SOURCE`. Returns the exit status: 0, 1 if an id
 * is not pending or the store failed, 2 for wrong usage.
 */
int cli_drop(int argc, char **argv);

/* `clairon forget USER`. Returns the exit status: 0, 1 if the store failed, 2 for wrong usage. */
int cli_forget(int argc, char **argv);

/*
 * `clairon kick USER`. Returns the exit status: 0, 1 if the store failed, 2 for wrong usage.
 */
int cli_kick(int argc, char **argv);

/*
 * `clairon store accept SHARD --without NODE`. Returns the exit status: 0, 1 if the node is not
 * lost or the store failed, 2 for wrong usage.
 */
int cli_store(int argc, char **argv);

/* `clairon vapid`: prints a key. Returns the exit status: 0, 1 for failure, 2 for wrong usage. */
int cli_vapid(int argc, char **argv);

/*
 * `clairon types`: prints the rows of live rules as a TypeScript module. Returns the exit status:
 * 0, 1 if PostgreSQL failed, 2 for wrong usage or invalid settings.
 */
int cli_types(int argc, char **argv);

/* ---- options, settings and the store */

#define CLI_USAGE_ERROR 2 /* exit status: wrong usage, or an invalid setting */

struct cli_option {
    const char *name;   /* "--user" */
    const char **value; /* set to the value; NULL: a flag */
    bool *flag;
};

/*
 * Parses the options and up to `operand_max` operands of argv[1..] and sets them to NULL. Settings
 * (--section.key=V) remain in argv. A value that starts with -- requires the form --option=value.
 * After --, all arguments are operands. Returns 0, or CLI_USAGE_ERROR after printing the error.
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
 * Loads the settings, connects to the store, and returns the exit status of `run`, or of an error
 * that was printed.
 */
typedef int cli_store_run(struct command *store, void *ctx);
int cli_with_store(const char *command, const char *path, int argc, char **argv, cli_store_run *run,
                   void *ctx);

/* Prints the error of the last call, and returns the exit status 1. */
int cli_store_error(const char *command, const struct command *store);

/* Prints "clairon COMMAND: what about" and returns CLI_USAGE_ERROR. */
int cli_usage_error(const char *command, const char *what, const char *about);

/*
 * Prints the errors in the settings and returns CLI_USAGE_ERROR. If `path` is NULL, adds that no
 * file was read.
 */
int cli_settings_error(const char *command, const char *path, const char *error);

/* ---- ids of notifications */

struct cli_id {
    char text[FRAME_UUID_TEXT + 1]; /* in lower case */
    bool is_found;
    bool is_audited; /* its audit line has been written */
};

struct cli_ids {
    struct cli_id *items; /* sorted, without duplicates; the caller frees them */
    size_t count;
};

/* Parses texts up to NULL. Returns 0, or CLI_USAGE_ERROR after printing the error. */
int cli_ids_read(const char *command, const char *const *texts, struct cli_ids *ret_ids);
/* Returns NULL if it is none of the ids. */
struct cli_id *cli_ids_find(const struct cli_ids *ids, const char *text, size_t len);

/* ---- output */

/* Returns the exit status: 1 if the text could not be printed. */
int cli_print(const char *text);

/* Prints untrusted text, such as a name. Control characters become ? or a blank. */
void cli_print_plain(const char *text, size_t len);

/*
 * Writes the audit line of an act to standard error, and stores it; the actor is the user of the
 * process. Call it before the change. The object is `before`, `user` and `after`, joined; `user` is
 * "" unless it names a user.
 */
void cli_audit(const char *act, const char *object);
void cli_audit_user(const char *act, const char *before, const char *user, const char *after);

/* ---- colour, short times and progress, only on a terminal */

enum cli_colour {
    CLI_COLOUR_NONE,
    CLI_COLOUR_GOOD,
    CLI_COLOUR_WARN,
    CLI_COLOUR_BAD,
    CLI_COLOUR_FAINT
};

/*
 * The escape sequence of a colour on standard output; CLI_COLOUR_NONE resets it. "" if standard
 * output is not a terminal, TERM is dumb, or NO_COLOR is set (https://no-color.org).
 */
const char *cli_colour(enum cli_colour colour);

/*
 * Returns the UTC time `iso` (2026-11-22T14:03:50.237Z). For a terminal, removes T, Z, and the date
 * if it is today.
 */
const char *cli_time(const char *iso, char ret_text[CLOCK_TEXT_MAX]);

/*
 * Overwrites one line of standard error, at most a few times per second. A no-op if it is not a
 * terminal. cli_progress_end removes the line.
 */
void cli_progress(const char *format, ...) PRINTF_LIKE(1, 2);
void cli_progress_end(void);

/* Returns "" for 1, otherwise "s": 1 user, 2 users. */
const char *cli_plural(long long count);
/* Returns "entry" or "entries". */
const char *cli_entries(long long count);

#endif
