/* drop.c: `clairon drop`: ends the pending pairs of notifications. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/command.h"
#include "wire/frame.h"

#define DROP "drop"
#define OBJECT_MAX 1024

static const char drop_usage[] =
    "Usage: clairon drop ID ... | --source SOURCE [--rule RULE] [options]\n"
    "Ends pending notifications for all users who have not acknowledged them: they are not "
    "retried\n"
    "any more, and need no acknowledgement. The trace records it as dropped. Clients that have "
    "not\n"
    "received them yet may still receive them once.\n"
    "\n"
    "  ID              only these notifications\n"
    "  --source NAME   all notifications with this metadata.source, such as a table\n"
    "  --rule NAME     with --source: only those of this rule of clairon.watch\n"
    "  --dry-run       only count what would be dropped\n"
    "  --json          one JSON object per line and notification, with its number of users\n"
    "  -c FILE         configuration file of the relay; only [store] is used\n"
    "  --store.url=V   one setting\n"
    "\n"
    "Exit status: 0 success, 1 an ID is not pending, SOURCE has no pending notification,\n"
    "or the store or a shard of it is unavailable, 2 wrong usage.\n";

struct drop_request {
    struct command_selection selection;
    struct cli_ids ids;
    bool json;
    const char *path;
};

struct drop_walk {
    struct drop_request *request;
    struct command *store;
    long long notifications;
    long long users;
};

/* Before the first change. */
static void
audit(const struct drop_walk *walk, const char *id)
{
    const struct command_selection *selection = &walk->request->selection;
    char object[OBJECT_MAX];

    if (selection->source == NULL) {
        cli_audit(DROP, id);
    } else if (walk->notifications == 0) {
        snprintf(object, sizeof(object), "source=%s%s%s", selection->source,
                 selection->rule != NULL ? " rule=" : "",
                 selection->rule != NULL ? selection->rule : "");
        cli_audit(DROP, object);
    }
}

static bool
on_pending(void *ctx, const char *id, long long users)
{
    struct drop_walk *walk = ctx;
    const struct drop_request *request = walk->request;
    const struct command_selection *selection = &request->selection;
    struct cli_id *requested = cli_ids_find(&request->ids, id, strlen(id));

    if (requested != NULL)
        requested->is_found = true;
    if (!selection->dry_run)
        audit(walk, id);
    walk->notifications++;
    walk->users += users;
    if (request->json)
        printf("{\"id\":\"%s\",\"users\":%lld}\n", id, users);
    else
        cli_progress("%lld notification%s found", walk->notifications,
                     cli_plural(walk->notifications));
    return ferror(stdout) == 0;
}

static void
print_sum(const struct drop_walk *walk)
{
    const bool dry_run = walk->request->selection.dry_run;
    const struct command_changes *changed = command_changed(walk->store);
    const long long notifications = dry_run ? walk->notifications : changed->entries;
    const long long users = dry_run ? walk->users : changed->users;

    if (!walk->request->json)
        printf("%s %lld notification%s for %lld user%s%s\n", dry_run ? "would drop" : "dropped",
               notifications, cli_plural(notifications), users, cli_plural(users),
               dry_run ? "; nothing was changed" : "");
}

static int
finish_walk(const struct drop_walk *walk, enum rc rc)
{
    const struct drop_request *request = walk->request;
    const char *missing = command_missing(walk->store);
    bool is_good = rc == RC_OK;

    cli_progress_end();
    if (rc != RC_OK)
        fprintf(stderr, "clairon " DROP ": %s\n", command_error(walk->store));
    print_sum(walk);
    for (size_t i = 0; i < request->selection.id_count && rc == RC_OK; i++) {
        if (request->ids.items[i].is_found)
            continue;
        fprintf(stderr, "clairon " DROP ": no pending notification has id %s\n",
                request->ids.items[i].text);
        is_good = false;
    }
    if (rc == RC_OK && request->selection.source != NULL && walk->notifications == 0) {
        fprintf(stderr, "clairon " DROP ": no pending notification has source %s%s%s\n",
                request->selection.source, request->selection.rule != NULL ? " and rule " : "",
                request->selection.rule != NULL ? request->selection.rule : "");
        is_good = false;
    }
    if (missing[0] != '\0' && (request->selection.id_count == 0 || !is_good)) {
        fprintf(stderr,
                "clairon " DROP ": shards unavailable: %s; their notifications are not included\n",
                missing);
        is_good = false;
    }
    return is_good && fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : 1;
}

static int
walk_pending(struct command *store, void *ctx)
{
    struct drop_request *request = ctx;
    struct drop_walk walk = {.request = request, .store = store};

    return finish_walk(&walk, command_drop_pending(store, &request->selection, on_pending, &walk));
}

static int
run(struct drop_request *request, const char **operands, int argc, char **argv)
{
    struct command_selection *selection = &request->selection;
    int code = cli_ids_read(DROP, operands, &request->ids);

    for (size_t i = 0; i < request->ids.count; i++)
        operands[i] = request->ids.items[i].text;
    selection->ids = operands;
    selection->id_count = request->ids.count;
    if (code == 0 && (selection->id_count > 0) == (selection->source != NULL))
        code = cli_usage_error(DROP, "name the notifications: either ID ..., or --source", "");
    if (code == 0 && selection->rule != NULL && selection->source == NULL)
        code = cli_usage_error(DROP, "--rule needs --source, the source of its notifications", "");
    if (code == 0)
        code = cli_with_store(DROP, request->path, argc, argv, walk_pending, request);
    return code;
}

int
cli_drop(int argc, char **argv)
{
    struct drop_request request = {.path = NULL};
    bool help = false;
    const struct cli_option options[] = {
        {"--source", &request.selection.source, NULL},
        {"--rule", &request.selection.rule, NULL},
        {"--dry-run", NULL, &request.selection.dry_run},
        {"--json", NULL, &request.json},
        {"--help", NULL, &help},
        {"-h", NULL, &help},
        {"-c", &request.path, NULL},
        {"--config", &request.path, NULL},
    };
    const size_t max = (size_t)argc;
    const char **operands = memory_new((max + 1) * sizeof(*operands));
    int code = cli_options_parse(DROP, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 operands, max);

    if (code == 0)
        code = help ? cli_print(drop_usage) : run(&request, operands, argc, argv);
    free(request.ids.items);
    free(operands);
    return code;
}
