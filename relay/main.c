/* main.c: the command line: which command, with which settings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "cli.h"
#include "decoder/version.h"
#include "feed/feed.h"
#include "relay.h"

#define EXIT_WRONG_USE 2

static const char usage[] =
    "Usage: clairon COMMAND [options]\n"
    "Rows written in PostgreSQL reach browsers, and their acks come home.\n"
    "\n"
    "  relay -c FILE           run the daemon (--check: only check the settings)\n"
    "  doctor -c FILE          look for what is wrong, and say what mends it\n"
    "  token --sub USER        print a development token\n"
    "  errors list             the error log (redrive: send anew; drop: forget)\n"
    "  trace ID                the life of one notification\n"
    "  --help, --version\n"
    "\n"
    "clairon COMMAND --help tells more.\n";

static const char relay_usage[] =
    "Usage: clairon relay [-c FILE] [--check] [--section.key=value ...]\n"
    "\n"
    "  -c FILE     settings in INI form; without it, arguments and environment alone\n"
    "  --check     check the settings and exit: 0 good, 2 bad\n"
    "\n"
    "A setting is taken from --section.key=value, else from CLAIRON_SECTION_KEY in the\n"
    "environment, else from the file, else from its default:\n"
    "\n";

struct relay_options {
    const char *path;
    bool check_only;
    bool help;
};

static int
wrong_use(const char *what, const char *about)
{
    fprintf(stderr, "clairon relay: %s%s; see clairon relay --help\n", what, about);
    return EXIT_WRONG_USE;
}

/* Takes the options that are no settings, and empties their places. 0 or an exit code. */
static int
take_options(int argc, char **argv, struct relay_options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--check") == 0) {
            options->check_only = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            options->help = true;
        } else if (strcmp(argv[i], "-c") == 0 || strcmp(argv[i], "--config") == 0) {
            if (i + 1 >= argc)
                return wrong_use("a file must follow ", argv[i]);
            argv[i] = NULL;
            options->path = argv[++i];
        } else {
            continue;
        }
        argv[i] = NULL;
    }
    return 0;
}

static int
refuse(const char *path, const char *error)
{
    fprintf(stderr, "clairon relay: %s%s%s\n", path != NULL ? path : "", path != NULL ? ": " : "",
            error);
    return EXIT_WRONG_USE;
}

static int
run_with(struct config *config, const struct relay_options *options)
{
    char error[CONFIG_ERROR_MAX];

    if ((config->relay.roles & CONFIG_ROLE_FEED) != 0 && feed_check(config, error) != RC_OK)
        return refuse(options->path, error);
    if (options->check_only) {
        printf("settings are good\n");
        return 0;
    }
    log_setup(config->relay.log_level, config->relay.log_format);
    return workers_run(config);
}

static int
command_relay(int argc, char **argv)
{
    struct relay_options options = {0};
    struct config config = {0};
    char error[CONFIG_ERROR_MAX];
    int code = take_options(argc, argv, &options);

    if (code != 0)
        return code;
    if (options.help) {
        fputs(relay_usage, stdout);
        config_help(stdout);
        return 0;
    }
    if (config_load(&config, options.path, argc, argv, error) != RC_OK) {
        config_free(&config);
        return refuse(NULL, error); /* it names the place itself */
    }
    for (int i = 1; i < argc && code == 0; i++) {
        if (argv[i] != NULL)
            code = wrong_use("unknown argument ", argv[i]);
    }
    if (code == 0)
        code = run_with(&config, &options);
    config_free(&config);
    return code;
}

int
main(int argc, char **argv)
{
    if (argc < 2) {
        fputs(usage, stderr);
        return EXIT_WRONG_USE;
    }
    if (strcmp(argv[1], "relay") == 0)
        return command_relay(argc - 1, argv + 1);
    if (strcmp(argv[1], "doctor") == 0)
        return cli_doctor(argc - 1, argv + 1);
    if (strcmp(argv[1], "token") == 0)
        return cli_token(argc - 1, argv + 1);
    if (strcmp(argv[1], "errors") == 0)
        return cli_errors(argc - 1, argv + 1);
    if (strcmp(argv[1], "trace") == 0)
        return cli_trace(argc - 1, argv + 1);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("clairon " CLAIRON_VERSION);
        return 0;
    }
    fprintf(stderr,
            "clairon: unknown command \"%s\", valid are relay, doctor, token, errors and trace\n",
            argv[1]);
    return EXIT_WRONG_USE;
}
