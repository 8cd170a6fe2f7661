/* cli.c: options, settings, store and output, shared by the commands. */
#include "cli/cli.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/command.h"

#define OPTIONS_MAX 16
#define STORE_URL_DEFAULT "redis://127.0.0.1:6379" /* the default in config_table.c */
#define DATE_LEN 10                                /* 2026-11-22 */
#define PROGRESS_US 200000
#define ERASE_LINE "\r\033[K"

static bool is_progress_printed;

int
cli_usage_error(const char *command, const char *what, const char *about)
{
    fprintf(stderr, "clairon %s: %s%s\n", command, what, about);
    return CLI_USAGE_ERROR;
}

int
cli_settings_error(const char *command, const char *path, const char *error)
{
    /* `error` has one line per error. */
    for (const char *end = strchr(error, '\n'); end != NULL; end = strchr(error, '\n')) {
        fprintf(stderr, "clairon %s: %.*s\n", command, (int)(end - error), error);
        error = end + 1;
    }
    return cli_usage_error(command, error,
                           path == NULL ? "; no -c FILE: settings come from arguments, CLAIRON_* "
                                          "variables and defaults"
                                        : "");
}

int
cli_print(const char *text)
{
    return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? 0 : 1;
}

/* Control characters: C0, DEL, and C1 in UTF-8. */
static bool
is_control(const char *text, size_t step)
{
    const unsigned char *bytes = (const unsigned char *)text;

    return bytes[0] < ' ' || bytes[0] == 0x7f || (step == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0);
}

void
cli_print_plain(const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t step = utf8_char_len(text + at, len - at);

        if (step == 0 || is_control(text + at, step))
            putchar(text[at] == '\n' || text[at] == '\t' ? ' ' : '?');
        else
            (void)fwrite(text + at, 1, step, stdout);
        at += step > 0 ? step : 1;
    }
}

static bool
is_setting(const char *argument)
{
    return strncmp(argument, "--", 2) == 0 && argument[strcspn(argument, ".=")] == '.';
}

static const struct cli_option *
find_option(const char *argument, const struct cli_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(options[i].name);

        if (strncmp(argument, options[i].name, len) == 0 &&
            (argument[len] == '\0' || (argument[len] == '=' && options[i].value != NULL)))
            return &options[i];
    }
    return NULL;
}

/* Returns false if the value is missing. */
static bool
read_value(int argc, char **argv, int *at, const struct cli_option *option)
{
    const char *argument = argv[*at];
    size_t len = strlen(option->name);

    if (option->value == NULL) {
        *option->flag = true;
    } else if (argument[len] == '=') {
        *option->value = argument + len + 1;
    } else if (*at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0) {
        argv[*at] = NULL;
        *option->value = argv[++*at];
    } else {
        return false;
    }
    argv[*at] = NULL;
    return true;
}

static int
reject_argument(const char *command, const char *argument, const struct cli_option *options,
                size_t count)
{
    const char *names[OPTIONS_MAX] = {NULL}, *nearest;
    char name[SUGGEST_WORD_MAX + 1];

    for (size_t i = 0; i < count && i < OPTIONS_MAX; i++)
        names[i] = options[i].name;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(argument, "="), argument);
    nearest = suggest_word(name, names, count < OPTIONS_MAX ? count : OPTIONS_MAX);
    if (nearest != NULL && nearest[1] == '-')
        fprintf(stderr, "clairon %s: unknown argument %s; did you mean %s? See clairon %s --help\n",
                command, argument, nearest, command);
    else
        fprintf(stderr, "clairon %s: unknown argument %s; see clairon %s --help\n", command,
                argument, command);
    return CLI_USAGE_ERROR;
}

int
cli_options_parse(const char *command, int argc, char **argv, const struct cli_option *options,
                  size_t option_count, const char **operands, size_t operand_max)
{
    size_t operand_count = 0;
    bool has_ended = false; /* after --, all arguments are operands */

    for (int at = 1; at < argc; at++) {
        const char *argument = argv[at];
        const struct cli_option *option =
            has_ended ? NULL : find_option(argument, options, option_count);

        if (!has_ended && is_setting(argument))
            continue;
        if (!has_ended && strcmp(argument, "--") == 0) {
            has_ended = true;
            argv[at] = NULL;
            continue;
        }
        if (option != NULL && option->value != NULL && *option->value != NULL) {
            return cli_usage_error(command, "duplicate option ", option->name);
        } else if (option != NULL) {
            if (!read_value(argc, argv, &at, option))
                return cli_usage_error(command, "missing value after ", option->name);
        } else if ((has_ended || argument[0] != '-') && operand_count < operand_max) {
            operands[operand_count++] = argument;
            argv[at] = NULL;
        } else {
            return reject_argument(command, argument, options, option_count);
        }
    }
    return 0;
}

enum rc
cli_settings_load(struct config *ret_config, const char *path, int argc, char **argv,
                  char *const *forced, char error[CONFIG_ERROR_MAX])
{
    size_t given = (size_t)argc, count = 0;
    char **arguments;
    enum rc rc;

    while (forced[count] != NULL)
        count++;
    arguments = memory_new((given + count) * sizeof(*arguments));
    memcpy(arguments, argv, given * sizeof(*arguments));
    memcpy(arguments + given, forced, count * sizeof(*arguments));
    rc = config_load(ret_config, path, (int)(given + count), arguments, error);
    free(arguments);
    return rc;
}

static void
store_act(void *ctx, const struct log_act *act, int64_t at_us)
{
    log_flush(-1); /* no change without its audit line */
    command_audit(ctx, act, at_us);
}

/* Returns NULL after printing the error; *ret_code is then the exit status. */
static struct command *
open_store(const char *command, const char *path, int argc, char **argv, struct config *ret_config,
           int *ret_code)
{
    /*
     * Validates only the store's settings, because the caller may have no access to the relay's
     * secrets.
     */
    static char only_feed[] = "--relay.roles=feed", unused[] = "--feed.conninfo=dbname=unused";
    static char no_primary[] = "--feed.primary_conninfo=";
    static char *const forced[] = {only_feed, unused, no_primary, NULL};
    char config_error[CONFIG_ERROR_MAX], store_error[COMMAND_ERROR_MAX];
    struct command *store = NULL;

    *ret_config = (struct config){0};
    if (cli_settings_load(ret_config, path, argc, argv, forced, config_error) != RC_OK) {
        *ret_code = cli_settings_error(command, path, config_error);
    } else {
        if (path == NULL && strcmp(ret_config->store.url, STORE_URL_DEFAULT) == 0)
            fprintf(stderr, "clairon %s: no -c FILE: reading the default store, %s\n", command,
                    STORE_URL_DEFAULT);
        log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT); /* the command prints the store's errors */
        store = command_open(ret_config, store_error);
        if (store != NULL && command_check_shards(store)) {
            log_audit_listen(store_act, store);
            return store;
        }
        fprintf(stderr, "clairon %s: %s\n", command,
                store != NULL ? command_error(store) : store_error);
        command_close(store);
        *ret_code = 1;
    }
    return NULL;
}

int
cli_with_store(const char *command, const char *path, int argc, char **argv, cli_store_run *run,
               void *ctx)
{
    struct config config;
    int code;
    struct command *store = open_store(command, path, argc, argv, &config, &code);

    if (store != NULL)
        code = run(store, ctx);
    command_close(store);
    config_free(&config);
    return code;
}

static int
by_text(const void *left, const void *right)
{
    return strcmp(((const struct cli_id *)left)->text, ((const struct cli_id *)right)->text);
}

int
cli_ids_read(const char *command, const char *const *texts, struct cli_ids *ret_ids)
{
    size_t count = 0, kept = 0;

    while (texts[count] != NULL)
        count++;
    ret_ids->items = memory_new((count + 1) * sizeof(*ret_ids->items));
    for (size_t i = 0; i < count; i++) {
        if (!frame_uuid_parse(texts[i], strlen(texts[i]), ret_ids->items[i].text))
            return cli_usage_error(command, "invalid notification id, must be a UUID: ", texts[i]);
    }
    qsort(ret_ids->items, count, sizeof(*ret_ids->items), by_text);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || by_text(&ret_ids->items[kept - 1], &ret_ids->items[i]) != 0)
            ret_ids->items[kept++] = ret_ids->items[i];
    ret_ids->count = kept;
    return 0;
}

struct cli_id *
cli_ids_find(const struct cli_ids *ids, const char *text, size_t len)
{
    struct cli_id key = {.text = ""};

    if (!frame_uuid_parse(text, len, key.text))
        return NULL;
    return bsearch(&key, ids->items, ids->count, sizeof(key), by_text);
}

int
cli_store_error(const char *command, const struct command *store)
{
    fprintf(stderr, "clairon %s: %s\n", command, command_error(store));
    return 1;
}

void
cli_audit_user(const char *act, const char *before, const char *user, const char *after)
{
    const struct passwd *actor = getpwuid(getuid());
    char uid[24];

    snprintf(uid, sizeof(uid), "uid %ju", (uintmax_t)getuid());
    log_audit_act(
        &(struct log_act){actor != NULL ? actor->pw_name : uid, act, before, user, after});
}

void
cli_audit(const char *act, const char *object)
{
    cli_audit_user(act, object, "", "");
}

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
