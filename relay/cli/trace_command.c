/* trace_command.c: `clairon trace`: prints the trace of one notification. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "store/command.h"
#include "wire/frame.h"

#define TRACE "trace"
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

/* How to print the trace. */
struct printing {
    const char *id;
    bool json;
    bool is_found;
    int code;
};

static void
on_trace(void *ctx, const struct trace *trace)
{
    struct printing *printing = ctx;

    printing->is_found = true;
    printing->code = printing->json ? print_json(trace, printing->id) : print_table(trace);
}

static int
trace_print(struct command *store, const char *id, bool json)
{
    struct printing printing = {.id = id, .json = json};
    const char *missing;

    if (command_trace(store, id, NULL, on_trace, &printing) != RC_OK) {
        fprintf(stderr, "clairon " TRACE ": %s\n", command_error(store));
        return 1;
    }
    if (printing.is_found)
        return printing.code;
    missing = command_missing(store);
    if (missing[0] == '\0')
        fprintf(stderr, "clairon " TRACE ": no notification in the store has id %s\n", id);
    else
        fprintf(stderr, "clairon " TRACE ": no available shard has id %s; shards unavailable: %s\n",
                id, missing);
    return 1;
}

int
cli_trace(int argc, char **argv)
{
    const char *path = NULL, *operands[1] = {NULL};
    bool json = false, help = false;
    const struct cli_option options[] = {
        {"--json", NULL, &json}, {"--help", NULL, &help},   {"-h", NULL, &help},
        {"-c", &path, NULL},     {"--config", &path, NULL},
    };
    char id[FRAME_UUID_TEXT + 1];
    struct config config;
    struct command *store;
    int code = cli_options_parse(TRACE, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 operands, 1);

    if (code != 0)
        return code;
    if (help)
        return cli_print(trace_usage);
    if (operands[0] == NULL)
        return cli_usage_error(TRACE, "expected a notification id, a UUID", "");
    if (!frame_uuid_parse(operands[0], strlen(operands[0]), id))
        return cli_usage_error(TRACE, "invalid notification id, must be a UUID: ", operands[0]);
    store = cli_store_open(TRACE, path, argc, argv, &config, &code);
    if (store != NULL)
        code = trace_print(store, id, json);
    command_close(store);
    config_free(&config);
    return code;
}
