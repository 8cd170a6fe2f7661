/* main.c: parses the command line and runs the command. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "daemon/daemon.h"
#include "decoder/protocol/version.h"
#include "doctor/doctor.h"
#include "feed/feed.h"
#include "gate/gate.h"
#include "sink/sink.h"

#define RELAY "relay"

static const char usage[] =
    "Usage: clairon COMMAND [options]\n"
    "Sends changes of PostgreSQL tables to browsers, and returns their acknowledgements.\n"
    "\n"
    "  relay -c FILE           run the daemon (--check: only check the settings)\n"
    "  doctor -c FILE          run the checks, and print how to fix each problem\n"
    "  token --sub USER        print a development token\n"
    "  types -c FILE           print the rows of live rules as TypeScript types\n"
    "  vapid                   print a new private key for Web Push\n"
    "  errors list             print the error log (redrive: send again; drop: remove)\n"
    "  drop ID ...             end pending notifications (--source SOURCE: of a table)\n"
    "  kick USER               close the connections of a user, and reject the tokens so far\n"
    "  forget USER             remove a user from the store\n"
    "  trace ID                print the trace of one notification\n"
    "  why ID USER             explain whether a notification reached a user\n"
    "  store accept SHARD      use a shard of a cluster without the keys on a lost node\n"
    "  --help, --version\n"
    "\n"
    "clairon COMMAND --help prints the options.\n";

static const char relay_usage[] =
    "Usage: clairon relay [-c FILE] [--check] [--section.key=value ...]\n"
    "\n"
    "  -c FILE         configuration file (INI); without it, only arguments and environment\n"
    "  --check         check the settings, list all errors and exit: 0 valid, 2 invalid\n"
    "  --help SECTION  only the settings of one section, such as feed\n"
    "\n"
    "Each setting is read from the first of these sources that has it: the argument\n"
    "--section.key=value, the environment variable CLAIRON_SECTION_KEY, the file, the default.\n"
    "\n";

struct relay_options {
    const char *path;
    bool check_only;
    bool help;
};

/*
 * Runs the checks that need OpenSSL, and appends to `error`. A gate loads its files when it starts.
 */
static enum rc
check_gate(const struct config *config, char error[CONFIG_ERROR_MAX])
{
    size_t len = strlen(error);
    size_t start = len > 0 && len + 1 < CONFIG_ERROR_MAX ? len + 1 : len;

    if (!gate_has_socket(config) ||
        gate_tls_check(config, error + start, CONFIG_ERROR_MAX - start) == RC_OK)
        return RC_OK;
    if (start > len)
        error[len] = '\n';
    return RC_BAD;
}

static int
relay_help(const char *section)
{
    int code = section == NULL ? cli_print(relay_usage) : 0;

    if (!config_help(stdout, section))
        return cli_usage_error(
            RELAY,
            "unknown section, valid are feed, store, auth, issuer, gate, delivery, "
            "rows, receipts, webhook, webpush, sink and relay: ",
            section);
    return fflush(stdout) == 0 ? code : 1;
}

static int
command_relay(int argc, char **argv)
{
    struct relay_options parsed = {0};
    const struct cli_option options[] = {
        {"--check", NULL, &parsed.check_only},
        {"--help", NULL, &parsed.help},
        {"-h", NULL, &parsed.help},
        {"-c", &parsed.path, NULL},
        {"--config", &parsed.path, NULL},
    };
    struct config config = {0};
    char error[CONFIG_ERROR_MAX];
    const char *section = NULL;
    enum rc rc;
    int code = cli_options_parse(RELAY, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 &section, 1);

    if (code != 0)
        return code;
    if (parsed.help)
        return relay_help(section);
    if (section != NULL)
        return cli_usage_error(RELAY, "unknown argument ", section);
    rc = config_load(&config, parsed.path, argc, argv, error);
    if (rc == RC_OK)
        rc = gate_check_keys(&config, error, sizeof(error));
    if (rc == RC_OK)
        rc = sinks_check(&config, error, sizeof(error));
    if (parsed.check_only && check_gate(&config, error) != RC_OK)
        rc = RC_BAD;
    if (rc == RC_OK) {
        log_setup(config.relay.log_level, config.relay.log_format);
        config_warn_exposed(&config);
        if (sinks_unused_setting(&config) != NULL)
            log_warn("sink", "setting has no effect without the role sink",
                     LOG_TEXT("setting", sinks_unused_setting(&config)));
        code = parsed.check_only ? cli_print("settings are valid\n") : workers_run(&config);
        log_flush(LOG_FLUSH_MS);
    } else {
        /* the error message names its origin */
        code = cli_settings_error(RELAY, parsed.path, error);
    }
    config_free(&config);
    return code;
}

/*
 * If a standard descriptor is closed, the next socket would get its number and receive the log. So
 * /dev/null is opened for it, in a mode in which reads or writes fail as before.
 */
static void
reserve_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static int
reject_command(const char *word)
{
    static const char *const commands[] = {RELAY,  "doctor", "token", "errors", "drop",  "forget",
                                           "kick", "trace",  "store", "types",  "vapid", "why"};
    const char *nearest = suggest_word(word, commands, sizeof(commands) / sizeof(commands[0]));

    fprintf(
        stderr,
        "clairon: unknown command \"%s\", valid are relay, doctor, token, errors, drop, forget, "
        "kick, trace, store, types, vapid and why%s%s%s\n",
        word, nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
        nearest != NULL ? "?" : "");
    return CLI_USAGE_ERROR;
}

int
main(int argc, char **argv)
{
    reserve_standard_descriptors();
    /* Large buffers return to the system: glibc would keep up to 64 MB, once it has freed one. */
    (void)mallopt(M_MMAP_THRESHOLD, 1024 * 1024);
    (void)mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
    signal(SIGPIPE, SIG_IGN); /* EPIPE is handled as an ordinary write error */
    if (argc < 2) {
        fputs(usage, stderr);
        return CLI_USAGE_ERROR;
    }
    if (strcmp(argv[1], RELAY) == 0)
        return command_relay(argc - 1, argv + 1);
    if (strcmp(argv[1], "doctor") == 0)
        return doctor_command(argc - 1, argv + 1);
    if (strcmp(argv[1], "token") == 0)
        return cli_token(argc - 1, argv + 1);
    if (strcmp(argv[1], "errors") == 0)
        return cli_errors(argc - 1, argv + 1);
    if (strcmp(argv[1], "drop") == 0)
        return cli_drop(argc - 1, argv + 1);
    if (strcmp(argv[1], "kick") == 0)
        return cli_kick(argc - 1, argv + 1);
    if (strcmp(argv[1], "forget") == 0)
        return cli_forget(argc - 1, argv + 1);
    if (strcmp(argv[1], "trace") == 0)
        return cli_trace(argc - 1, argv + 1);
    if (strcmp(argv[1], "why") == 0)
        return cli_why(argc - 1, argv + 1);
    if (strcmp(argv[1], "store") == 0)
        return cli_store(argc - 1, argv + 1);
    if (strcmp(argv[1], "types") == 0)
        return cli_types(argc - 1, argv + 1);
    if (strcmp(argv[1], "vapid") == 0)
        return cli_vapid(argc - 1, argv + 1);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return cli_print(usage);
    if (strcmp(argv[1], "--version") == 0)
        return cli_print("clairon " CLAIRON_VERSION "\n");
    return reject_command(argv[1]);
}
