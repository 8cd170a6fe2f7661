/* doctor.c: `clairon doctor`: runs the checks and prints the findings. */
#include "doctor/doctor.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/config.h"
#include "base/log.h"
#include "cli/cli.h"
#include "doctor/doctor_private.h"

#define DOCTOR "doctor"
#define JSON_MAX (64u << 20)

static const char doctor_usage[] =
    "Usage: clairon doctor [-c FILE] [--json] [--quiet] [--primary=CONNINFO]\n"
    "Checks the settings, this machine, the running relay, PostgreSQL and the store, and prints\n"
    "each problem with the command that fixes it. Changes nothing.\n"
    "\n"
    "  -c FILE               configuration file of the relay\n"
    "  --section.key=V       one setting, such as --store.url=redis://10.0.0.5\n"
    "  --primary=CONNINFO    primary of the standby in [feed] conninfo\n"
    "                        (default: feed.primary_conninfo)\n"
    "  --quiet               only failures and warnings\n"
    "  --json                one object: {\"ok\":..,\"errors\":N,\"warnings\":N,\"checks\":[..]}\n"
    "\n"
    "ERROR: a failed check. WARN: a risk, or a setting that may be intended.\n"
    "Exit status: 0 no check failed, 1 a check failed, 2 invalid settings or arguments.\n"
    "Run it on the relay's machine, as the relay's user. In the database,\n"
    "SELECT * FROM clairon.doctor() runs the PostgreSQL checks.\n";

struct doctor {
    const char *path;
    const char *primary;
    bool json;
    bool quiet;
    bool help;
};

static enum rc
add_text(struct buffer *out, const char *name, const char *text)
{
    enum rc rc = buffer_addf(out, ",\"%s\":", name);

    return rc == RC_OK ? buffer_add_json(out, text, strlen(text)) : rc;
}

static bool
needs_attention(const struct finding *row)
{
    return !row->ok || row->is_warning;
}

static enum rc
add_finding(struct buffer *out, const struct finding *row, bool is_first)
{
    enum rc rc = buffer_addf(out, "%s{\"ok\":%s", is_first ? "" : ",", row->ok ? "true" : "false");

    if (rc == RC_OK)
        rc = add_text(out, "area", row->area);
    if (rc == RC_OK)
        rc = add_text(out, "check", row->check);
    if (rc == RC_OK)
        rc = add_text(out, "detail", row->detail);
    if (rc == RC_OK)
        rc = add_text(out, "level", row->is_warning ? "warn" : row->ok ? "ok" : "error");
    if (rc == RC_OK && needs_attention(row))
        rc = add_text(out, "hint", row->hint);
    return rc == RC_OK ? buffer_add(out, "}", 1) : rc;
}

static bool
print_json(const struct findings *findings, bool quiet)
{
    struct buffer out;
    bool is_first = true;
    enum rc rc;

    buffer_init(&out, JSON_MAX);
    rc =
        buffer_addf(&out, "{\"ok\":%s,\"errors\":%zu,\"warnings\":%zu,\"checks\":[",
                    findings->errors == 0 ? "true" : "false", findings->errors, findings->warnings);
    for (size_t i = 0; i < findings->count && rc == RC_OK; i++) {
        if (quiet && !needs_attention(&findings->rows[i]))
            continue;
        rc = add_finding(&out, &findings->rows[i], is_first);
        is_first = false;
    }
    if (rc == RC_OK)
        rc = buffer_add(&out, "]}", 2);

    bool is_done = rc == RC_OK && puts(out.bytes) >= 0;

    buffer_free(&out);
    return is_done;
}

/* Names of tables and slots may contain any bytes. */
static void
print_text(const char *text)
{
    cli_print_plain(text, strlen(text));
}

static void
print_row(const struct finding *row)
{
    printf("%s%-6s%s %-10s  ",
           cli_colour(row->is_warning ? CLI_COLOUR_WARN
                      : row->ok       ? CLI_COLOUR_GOOD
                                      : CLI_COLOUR_BAD),
           row->is_warning ? "WARN"
           : row->ok       ? "ok"
                           : "ERROR",
           cli_colour(CLI_COLOUR_NONE), row->area);
    print_text(row->check);
    printf(": ");
    print_text(row->detail);
    putchar('\n');
    if (row->hint[0] != '\0') {
        printf("                   hint: ");
        print_text(row->hint);
        putchar('\n');
    }
}

static bool
print_sum(const struct findings *findings)
{
    if (findings->errors == 0)
        fputs(findings->warnings == 0 ? "all checks passed" : "no check failed", stdout);
    else
        printf("%zu of %zu checks failed", findings->errors, findings->count);
    if (findings->warnings > 0)
        printf(", %zu warning%s", findings->warnings, cli_plural((long long)findings->warnings));
    putchar('\n');
    return ferror(stdout) == 0;
}

/* Prints the findings since the last call, before the checks of a server that may not reply. */
static void
print_new(const struct doctor *doctor, const struct findings *findings, size_t *printed)
{
    for (; !doctor->json && *printed < findings->count; ++*printed)
        if (!doctor->quiet || needs_attention(&findings->rows[*printed]))
            print_row(&findings->rows[*printed]);
    (void)fflush(stdout);
}

static void
run_checks(const struct doctor *doctor, const struct config *config, struct findings *findings)
{
    struct origin origin = {0};
    bool is_read = false;
    size_t printed = 0;

    doctor_check_settings(config, doctor->path, findings);
    if ((config->relay.roles & CONFIG_ROLE_GATE) != 0)
        doctor_check_limits(config, findings);
    print_new(doctor, findings, &printed);
    if ((config->relay.roles & CONFIG_ROLE_GATE) != 0)
        doctor_check_gate(config, findings);
    print_new(doctor, findings, &printed);
    if ((config->relay.roles & CONFIG_ROLE_FEED) != 0)
        doctor_check_postgresql(config, doctor->primary, findings, &origin, &is_read);
    print_new(doctor, findings, &printed);
    doctor_check_sink(config, findings);
    print_new(doctor, findings, &printed);
    doctor_check_store(config, &origin, is_read, findings);
    print_new(doctor, findings, &printed);
}

static int
run(const struct doctor *doctor, const struct config *config)
{
    struct findings findings = {0};
    bool is_printed;
    int code;

    log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT); /* the findings contain the store's errors */
    run_checks(doctor, config, &findings);
    if (doctor->json)
        is_printed = print_json(&findings, doctor->quiet);
    else
        is_printed = print_sum(&findings);
    code = is_printed && fflush(stdout) == 0 && findings.errors == 0 ? 0 : 1;
    findings_free(&findings);
    return code;
}

int
doctor_command(int argc, char **argv)
{
    struct doctor doctor = {0};
    const struct cli_option options[] = {
        {"--primary", &doctor.primary, NULL}, {"--json", NULL, &doctor.json},
        {"--quiet", NULL, &doctor.quiet},     {"--help", NULL, &doctor.help},
        {"-h", NULL, &doctor.help},           {"--config", &doctor.path, NULL},
        {"-c", &doctor.path, NULL},
    };
    struct config config = {0};
    char error[CONFIG_ERROR_MAX];
    int code = cli_options_parse(DOCTOR, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 NULL, 0);

    if (code != 0)
        return code;
    if (doctor.help)
        return cli_print(doctor_usage);
    if (config_load(&config, doctor.path, argc, argv, error) != RC_OK)
        code = cli_settings_error(DOCTOR, doctor.path, error);
    else
        code = run(&doctor, &config);
    config_free(&config);
    return code;
}
