/* terminal.c: colour, short times and progress, only on a terminal. */
#include "cli/terminal.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATE_LEN 10 /* 2026-11-22 */
#define PROGRESS_US 200000
#define ERASE_LINE "\r\033[K"

static bool is_progress_printed;

static bool
is_coloured(void)
{
    const char *term = getenv("TERM"), *never = getenv("NO_COLOR");

    return isatty(STDOUT_FILENO) == 1 && (never == NULL || never[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

const char *
cli_colour(enum cli_colour colour)
{
    static const char *const codes[] = {
        [CLI_COLOUR_NONE] = "\033[0m",  [CLI_COLOUR_GOOD] = "\033[32m",
        [CLI_COLOUR_WARN] = "\033[33m", [CLI_COLOUR_BAD] = "\033[31m",
        [CLI_COLOUR_FAINT] = "\033[2m",
    };

    return is_coloured() ? codes[colour] : "";
}

const char *
cli_time(const char *iso, char ret_text[CLOCK_TEXT_MAX])
{
    size_t len = strlen(iso);
    char today[CLOCK_TEXT_MAX];

    if (isatty(STDOUT_FILENO) != 1 || len <= DATE_LEN + 1 || len >= CLOCK_TEXT_MAX)
        return iso;
    clock_text_us(clock_wall_us(), today);
    memcpy(ret_text, iso, len + 1);
    if (ret_text[len - 1] == 'Z')
        ret_text[len - 1] = '\0';
    ret_text[DATE_LEN] = ' ';
    return strncmp(iso, today, DATE_LEN) == 0 ? ret_text + DATE_LEN + 1 : ret_text;
}

void
cli_progress(const char *format, ...)
{
    static int64_t printed_us;
    int64_t now_us = clock_monotonic_us();
    va_list args;

    if (isatty(STDERR_FILENO) != 1 || now_us - printed_us < PROGRESS_US)
        return;
    printed_us = now_us;
    is_progress_printed = true;
    fputs(ERASE_LINE, stderr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fflush(stderr);
}

void
cli_progress_end(void)
{
    if (is_progress_printed)
        fputs(ERASE_LINE, stderr);
    is_progress_printed = false;
}

const char *
cli_plural(long long count)
{
    return count == 1 ? "" : "s";
}

const char *
cli_entries(long long count)
{
    return count == 1 ? "entry" : "entries";
}
