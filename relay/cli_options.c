/* cli_options.c: what the commands that ask the store share: options, settings, the connection. */
#include "cli_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

int
cli_refuse(const char *command, const char *what, const char *about)
{
    fprintf(stderr, "clairon %s: %s%s\n", command, what, about);
    return 2;
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

/* False when the value that must follow is not there. */
static bool
take_value(int argc, char **argv, int *at, const struct cli_option *option)
{
    const char *argument = argv[*at];
    size_t len = strlen(option->name);

    if (option->value == NULL) {
        *option->flag = true;
    } else if (argument[len] == '=') {
        *option->value = argument + len + 1;
    } else if (*at + 1 < argc && argv[*at + 1] != NULL) {
        argv[*at] = NULL;
        *option->value = argv[++*at];
    } else {
        return false;
    }
    argv[*at] = NULL;
    return true;
}

int
cli_options_take(const char *command, int argc, char **argv, const struct cli_option *options,
                 size_t option_count, const char **operands, size_t operand_max)
{
    size_t operand_count = 0;

    for (int at = 1; at < argc; at++) {
        const char *argument = argv[at];
        const struct cli_option *option = find_option(argument, options, option_count);

        if (is_setting(argument))
            continue;
        if (option != NULL) {
            if (!take_value(argc, argv, &at, option))
                return cli_refuse(command, "missing value behind ", option->name);
        } else if (argument[0] != '-' && operand_count < operand_max) {
            operands[operand_count++] = argument;
            argv[at] = NULL;
        } else {
            fprintf(stderr, "clairon %s: unknown argument %s; see clairon %s --help\n", command,
                    argument, command);
            return 2;
        }
    }
    return 0;
}

/* Only the store's settings matter here: whoever asks need not hold the relay's secrets. */
static enum rc
load_settings(struct config *config, const char *path, int argc, char **argv,
              char error[CONFIG_ERROR_MAX])
{
    static char only_feed[] = "--relay.roles=feed", unused[] = "--feed.conninfo=dbname=unused";
    char **arguments = memory_new(((size_t)argc + 2) * sizeof(*arguments));
    int count = 1;

    arguments[0] = argv[0];
    for (int i = 1; i < argc; i++) {
        if (argv[i] != NULL)
            arguments[count++] = argv[i];
    }
    arguments[count++] = only_feed;
    arguments[count++] = unused;

    enum rc rc = config_load(config, path, count, arguments, error);

    free(arguments);
    return rc;
}

struct direct *
cli_store_open(const char *command, const char *path, int argc, char **argv, int *ret_code)
{
    struct config config = {0};
    char config_error[CONFIG_ERROR_MAX], store_error[DIRECT_ERROR_MAX];
    struct direct *direct = NULL;

    if (load_settings(&config, path, argc, argv, config_error) != RC_OK) {
        *ret_code = cli_refuse(command, config_error, "");
    } else {
        direct = direct_open(&config, store_error);
        if (direct == NULL) {
            fprintf(stderr, "clairon %s: %s\n", command, store_error);
            *ret_code = 1;
        }
    }
    config_free(&config);
    return direct;
}
