/*
 * trace_command.c: `clairon trace` and `clairon why`: print the trace of one notification, and
 * whether it reached a user.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "store/command.h"
#include "wire/frame.h"
#include "wire/token.h"

#define TRACE "trace"
#define WHY "why"
#define TIME_WIDEST "2026-11-22T14:03:50.178151Z"

static const char trace_usage[] =
    "Usage: clairon trace ID [options]\n"
    "Prints the trace of one notification: the times at which it was committed, stored, sent to\n"
    "each user, acknowledged, retried, moved to the error log or dropped. Also prints its "
    "traceparent and\n"
    "the users who have not acknowledged it.\n"
    "\n"
    "  --json          print the JSON of GET /v1/notifications/ID\n"
    "  -c FILE         configuration file of the relay; only [store] is used\n"
    "  --store.url=V   one setting\n";

static const char why_usage[] =
    "Usage: clairon why ID USER [options]\n"
    "Explains whether a notification reached a user: whether it was addressed to the user, its\n"
    "deliveries, its acknowledgement or its end, and a gap that covers it. Names what the store\n"
    "does not know.\n"
    "\n"
    "  --json          print the JSON of GET /v1/notifications/ID/why\n"
    "  -c FILE         configuration file of the relay; only [store] is used\n"
    "  --store.url=V   one setting\n";

static void
print_name(struct bytes name)
{
    cli_print_plain((const char *)name.at, name.len);
}

static enum cli_colour
colour_of(struct bytes stage)
{
    static const struct {
        const char *stage;
        enum cli_colour colour;
    } colours[] = {{"acked", CLI_COLOUR_GOOD},    {"retried", CLI_COLOUR_WARN},
                   {"redriven", CLI_COLOUR_WARN}, {"nacked", CLI_COLOUR_WARN},
                   {"pending", CLI_COLOUR_WARN},  {"errored", CLI_COLOUR_BAD},
                   {"dropped", CLI_COLOUR_BAD}};

    for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++)
        if (stage.len == strlen(colours[i].stage) &&
            memcmp(stage.at, colours[i].stage, stage.len) == 0)
            return colours[i].colour;
    return CLI_COLOUR_NONE;
}

static void
print_stage(const char *at, struct bytes stage)
{
    char text[CLOCK_TEXT_MAX], widest[CLOCK_TEXT_MAX];
    const char *example = cli_time(TIME_WIDEST, widest);

    printf("%-*s  %s%-9.*s%s", (int)strlen(example), cli_time(at, text),
           cli_colour(colour_of(stage)), (int)stage.len, (const char *)stage.at,
           cli_colour(CLI_COLOUR_NONE));
}

static void
print_event(const struct trace_event *event)
{
    print_stage(event->at, event->stage);
    if (event->user.len > 0) {
        printf("  attempt %d  user ", event->attempt);
        print_name(event->user);
    }
    if (event->detail.len > 0 && event->detail.at[0] != '-')
        printf(bytes_equal_text(event->stage, "nacked") ? "  retry after %.*s ms" : "  %.*s",
               (int)event->detail.len, (const char *)event->detail.at);
    putchar('\n');
}

static int
print_table(const struct trace *trace)
{
    static const struct bytes pending = {(const unsigned char *)"pending", 7};
    char traceparent[TRACEPARENT_LEN + 1];

    if (notification_traceparent(trace->data, traceparent))
        printf("traceparent                  %s\n", traceparent);
    for (size_t i = 0; i < trace->event_count; i++)
        print_event(&trace->events[i]);
    for (size_t i = 0; i < trace->waiting_count; i++) {
        print_stage("now", pending);
        printf("  user ");
        print_name(trace->waiting[i]);
        putchar('\n');
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

static int
print_json(const struct trace *trace, const char *id)
{
    struct buffer out;
    bool is_done;

    buffer_init(&out, TRACE_JSON_MAX);
    is_done =
        trace_write_json(trace, id, &out) == RC_OK && puts(out.bytes) >= 0 && fflush(stdout) == 0;
    buffer_free(&out);
    return is_done ? 0 : 1;
}

static int
print_why(const struct trace *trace, const char *id, const char *user, bool json)
{
    struct buffer out;
    enum rc rc;

    buffer_init(&out, WHY_JSON_MAX);
    rc = json ? why_write_json(trace, id, user, &out) : why_write_text(trace, user, &out);
    if (rc == RC_OK && json)
        fputs(out.bytes, stdout);
    else if (rc == RC_OK)
        cli_print_plain(out.bytes, out.len);
    if (!json)
        putchar('\n');
    buffer_free(&out);
    return rc == RC_OK && fflush(stdout) == 0 ? 0 : 1;
}

struct printing {
    const char *command;
    const char *user; /* of `why`; NULL: `trace` */
    char id[FRAME_UUID_TEXT + 1];
    bool json;
    bool is_found;
    int code;
};

static void
on_trace(void *ctx, const struct trace *trace)
{
    struct printing *printing = ctx;

    printing->is_found = true;
    if (printing->user != NULL)
        printing->code = print_why(trace, printing->id, printing->user, printing->json);
    else
        printing->code = printing->json ? print_json(trace, printing->id) : print_table(trace);
}

static int
find_trace(struct command *store, void *ctx)
{
    struct printing *printing = ctx;
    const char *missing;

    if (command_trace(store, printing->id, printing->user, on_trace, printing) != RC_OK)
        return cli_store_error(printing->command, store);
    if (printing->is_found)
        return printing->code;
    missing = command_missing(store);
    if (missing[0] == '\0')
        fprintf(stderr, "clairon %s: no notification in the store has id %s\n", printing->command,
                printing->id);
    else
        fprintf(stderr, "clairon %s: no available shard has id %s; shards unavailable: %s\n",
                printing->command, printing->id, missing);
    return 1;
}

/* `command`: TRACE, with an id, or WHY, also with a user. */
static int
run(const char *command, const char *usage, int argc, char **argv)
{
    const bool has_user = strcmp(command, WHY) == 0;
    struct printing printing = {.command = command};
    const char *path = NULL, *operands[2] = {NULL};
    bool help = false;
    const struct cli_option options[] = {
        {"--json", NULL, &printing.json},
        {"--help", NULL, &help},
        {"-h", NULL, &help},
        {"-c", &path, NULL},
        {"--config", &path, NULL},
    };
    int code = cli_options_parse(command, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 operands, has_user ? 2 : 1);

    if (code != 0)
        return code;
    if (help)
        return cli_print(usage);
    if (operands[has_user ? 1 : 0] == NULL)
        return cli_usage_error(command, "expected a notification id, a UUID",
                               has_user ? ", and a user" : "");
    if (!frame_uuid_parse(operands[0], strlen(operands[0]), printing.id))
        return cli_usage_error(command, "invalid notification id, must be a UUID: ", operands[0]);
    if (has_user && (operands[1][0] == '\0' || strlen(operands[1]) > TOKEN_USER_MAX))
        return cli_usage_error(command, "invalid user, must have 1 to 255 bytes: ", operands[1]);
    printing.user = operands[1];
    return cli_with_store(command, path, argc, argv, find_trace, &printing);
}

int
cli_trace(int argc, char **argv)
{
    return run(TRACE, trace_usage, argc, argv);
}

int
cli_why(int argc, char **argv)
{
    return run(WHY, why_usage, argc, argv);
}
