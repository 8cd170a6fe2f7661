/* terminal.h: colour, short times and progress, only on a terminal. */
#ifndef CLAIRON_CLI_TERMINAL_H
#define CLAIRON_CLI_TERMINAL_H

#include "base/clock.h"
#include "base/rc.h"

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
