/* why_command.c: `clairon why`: explains whether a notification reached a user. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "store/command.h"
#include "wire/frame.h"
#include "wire/token.h"

#define WHY "why"

static const char why_usage[] =
    "Usage: clairon why ID USER [options]\n"
    "Explains whether a notification reached a user: whether it was addressed to the user, its\n"
    "deliveries, its acknowledgement or its end, and a gap that covers it. Names what the store\n"
    "does not know.\n"
    "\n"
    "  --json          print the JSON of GET /v1/notifications/ID/why\n"
    "  -c FILE         configuration file of the relay; only [store] is used\n"
    "  --store.url=V   one setting\n";

/* How to print the explanation. */
struct printing {
    const char *id;
    const char *user;
    bool json;
    bool is_found;
    bool is_printed;
};

static void
on_traced(void *ctx, const struct trace *trace)
{
    struct printing *printing = ctx;
    struct buffer out;
    enum rc rc;

    printing->is_found = true;
    buffer_init(&out, WHY_JSON_MAX);
    if (printing->json)
        rc = why_write_json(trace, printing->id, printing->user, &out);
    else
        rc = why_write_text(trace, printing->user, &out);
    if (rc == RC_OK && printing->json)
        fputs(out.bytes, stdout);
    else if (rc == RC_OK)
        cli_print_plain(out.bytes, out.len);
    if (!printing->json)
        putchar('\n');
    printing->is_printed = rc == RC_OK && fflush(stdout) == 0;
    buffer_free(&out);
}

static int
explain(struct command *store, struct printing *printing)
{
    const char *missing;

    if (command_trace(store, printing->id, printing->user, on_traced, printing) != RC_OK) {
        fprintf(stderr, "clairon " WHY ": %s\n", command_error(store));
        return 1;
    }
    if (printing->is_found)
        return printing->is_printed ? 0 : 1;
    missing = command_missing(store);
    if (missing[0] == '\0')
        fprintf(stderr, "clairon " WHY ": no notification in the store has id %s\n", printing->id);
    else
        fprintf(stderr, "clairon " WHY ": no available shard has id %s; shards unavailable: %s\n",
                printing->id, missing);
    return 1;
}

int
cli_why(int argc, char **argv)
{
    const char *path = NULL, *operands[2] = {NULL};
    bool json = false, help = false;
    const struct cli_option options[] = {
        {"--json", NULL, &json}, {"--help", NULL, &help},   {"-h", NULL, &help},
        {"-c", &path, NULL},     {"--config", &path, NULL},
    };
    char id[FRAME_UUID_TEXT + 1];
    struct printing printing = {.id = id};
    struct config config;
    struct command *store;
    int code = cli_options_parse(WHY, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 operands, 2);

    if (code != 0)
        return code;
    if (help)
        return cli_print(why_usage);
    if (operands[0] == NULL || operands[1] == NULL)
        return cli_usage_error(WHY, "expected a notification id, a UUID, and a user", "");
    if (!frame_uuid_parse(operands[0], strlen(operands[0]), id))
        return cli_usage_error(WHY, "invalid notification id, must be a UUID: ", operands[0]);
    if (operands[1][0] == '\0' || strlen(operands[1]) > TOKEN_USER_MAX)
        return cli_usage_error(WHY, "invalid user, must have 1 to 255 bytes: ", operands[1]);
    printing.user = operands[1];
    printing.json = json;
    store = cli_store_open(WHY, path, argc, argv, &config, &code);
    if (store != NULL)
        code = explain(store, &printing);
    command_close(store);
    config_free(&config);
    return code;
}
