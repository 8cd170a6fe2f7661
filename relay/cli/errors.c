/* errors.c: `clairon errors`: lists, redrives and drops entries of the error log. */
#include "cli/cli.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/command.h"
#include "wire/frame.h"

#define ERRORS "errors"
#define USERS_PRINTED_MAX 3
#define OBJECT_MAX 1024
#define SOURCE_MAX 512
#define SOURCE_WIDTH 16

static const char errors_usage[] =
    "Usage: clairon errors list|redrive|drop [ID ...] [options]\n"
    "The error log: notifications that were not acknowledged, could not be decoded or were too\n"
    "large for the store.\n"
    "\n"
    "  list            print its entries, oldest first\n"
    "  redrive         send the notification to its users again, from attempt 0, and remove\n"
    "                  the entry. A notification with a ttl expires that time after now.\n"
    "                  Without a ttl, an expired one has one day; others do not expire\n"
    "  drop            remove the entry\n"
    "\n"
    "  ID, --id ID     only these notifications\n"
    "  --user USER     only entries of this user\n"
    "  --source NAME   only notifications with this metadata.source, such as a table\n"
    "  --reason WORD   exhausted, expired, rejected or undecodable\n"
    "  --since TIME    only entries of the last TIME, such as 90m, 24h or 7d\n"
    "  --limit N       at most N entries\n"
    "  --all           redrive or drop all entries; required without a filter\n"
    "  --dry-run       redrive or drop: only list what would be changed\n"
    "  --json          one JSON object per line, with the notification\n"
    "  -c FILE         configuration file of the relay; only [store] is used\n"
    "  --store.url=V   one setting\n"
    "\n"
    "Exit status: 0 success, 1 an ID was not redriven or dropped, or the store or a shard of it\n"
    "is unavailable, 2 wrong usage.\n";

enum verb { VERB_LIST, VERB_REDRIVE, VERB_DROP, VERB_COUNT };
static const char *const verbs[VERB_COUNT] = {"list", "redrive", "drop"};

struct errors_request {
    enum verb verb;
    struct cli_ids ids;
    const char *id; /* one more */
    const char *user;
    const char *source;
    const char *reason;
    const char *since;
    const char *limit;
    const char *path;
    bool all;
    bool dry_run;
    bool json;
    bool help;
};

/* An iteration over the error log. */
struct errors_walk {
    struct errors_request *request;
    struct command *store;
    long long left;        /* entries that may still be printed under --limit */
    long long entries;     /* matching entries */
    long long users;       /* pending users in the matching entries */
    long long scanned;     /* entries read */
    long long total;       /* entries in the error log; -1: unknown */
    struct entry_id since; /* the first entry */
    long long skipped;     /* matching entries that cannot be redriven */
    bool is_audited;       /* the audit line of a command without ids has been written */
    bool failed;
    char source[SOURCE_MAX]; /* of the visited entry; "-": the notification is lost */
};

static bool
is_text(struct bytes bytes, const char *text)
{
    return text == NULL ||
           (bytes.len == strlen(text) && strncasecmp((const char *)bytes.at, text, bytes.len) == 0);
}

static bool
includes_user(const json_t *users, const char *name)
{
    const json_t *user;
    size_t i;

    if (name == NULL)
        return true;
    json_array_foreach(users, i, user)
    {
        if (json_is_string(user) && strcmp(json_string_value(user), name) == 0)
            return true;
    }
    return false;
}

/* Returns the users who have not acknowledged; an empty array if the field is invalid. */
static json_t *
read_users(const struct error_entry *entry)
{
    json_t *users = entry->users.at != NULL
                        ? json_loadb((const char *)entry->users.at, entry->users.len, 0, NULL)
                        : NULL;

    if (json_is_array(users))
        return users;
    json_decref(users);
    return json_array();
}

static void
print_header(void)
{
    char now[CLOCK_TEXT_MAX], text[CLOCK_TEXT_MAX];

    clock_text_ms(0, text);
    printf("%s%-*s  %-36s  %-11s  %8s  %-*s  %s%s\n", cli_colour(CLI_COLOUR_FAINT),
           (int)strlen(cli_time(text, now)), "TIME", "ID", "REASON", "ATTEMPTS", SOURCE_WIDTH,
           "SOURCE", "USERS", cli_colour(CLI_COLOUR_NONE));
}

/* Names come from applications and may contain any bytes. */
static void
print_users(const json_t *users)
{
    size_t count = json_array_size(users);

    for (size_t i = 0; i < count && i < USERS_PRINTED_MAX; i++) {
        const json_t *user = json_array_get(users, i);

        if (i > 0)
            printf(", ");
        if (json_is_string(user))
            cli_print_plain(json_string_value(user), json_string_length(user));
    }
    if (count > USERS_PRINTED_MAX)
        printf(" and %zu more", count - USERS_PRINTED_MAX);
    if (count == 0)
        putchar('-');
}

static void
print_row(const struct error_entry *entry, const char *source, const json_t *users)
{
    const int len = (int)strlen(source);
    char full[CLOCK_TEXT_MAX], text[CLOCK_TEXT_MAX];

    clock_text_ms((int64_t)entry->entry.ms, full);
    printf("%s  %-36.*s  %s%-11.*s%s  %8.*s  ", cli_time(full, text), (int)entry->id.len,
           (const char *)entry->id.at, cli_colour(CLI_COLOUR_BAD), (int)entry->reason.len,
           (const char *)entry->reason.at, cli_colour(CLI_COLOUR_NONE), (int)entry->attempts.len,
           (const char *)entry->attempts.at);
    cli_print_plain(source, strlen(source));
    printf("%*s  ", len < SOURCE_WIDTH ? SOURCE_WIDTH - len : 0, "");
    print_users(users);
    putchar('\n');
}

/* Prints one JSON object on one line. */
static void
print_json(const struct error_entry *entry)
{
    bool has_data = entry->data.len > 0;
    char at[CLOCK_TEXT_MAX];

    clock_text_ms((int64_t)entry->entry.ms, at);
    printf("{\"entry\":\"%" PRIu64 "-%" PRIu64
           "\",\"at\":\"%s\",\"id\":\"%.*s\",\"reason\":\"%.*s\","
           "\"attempts\":%.*s,\"users\":%.*s,\"notification\":%.*s}\n",
           entry->entry.ms, entry->entry.seq, at, (int)entry->id.len, (const char *)entry->id.at,
           (int)entry->reason.len, (const char *)entry->reason.at, (int)entry->attempts.len,
           (const char *)entry->attempts.at, (int)entry->users.len, (const char *)entry->users.at,
           has_data ? (int)entry->data.len : 4, has_data ? (const char *)entry->data.at : "null");
}

static void
print_entry(const struct errors_walk *walk, const struct error_entry *entry, const json_t *users)
{
    if (walk->request->json) {
        print_json(entry);
        return;
    }
    if (walk->entries == 0)
        print_header();
    print_row(entry, walk->source, users);
}

/* Before the first change of the requested notification or, if none was requested, of all. */
static void
audit(struct errors_walk *walk, struct cli_id *requested)
{
    bool *is_audited = requested != NULL ? &requested->is_audited : &walk->is_audited;
    const struct errors_request *request = walk->request;
    const char *const filters[][2] = {{" source=", request->source},
                                      {" reason=", request->reason},
                                      {" since=", request->since},
                                      {" limit=", request->limit}};
    char before[OBJECT_MAX], after[OBJECT_MAX] = "";
    size_t len = 0;

    if (*is_audited)
        return;
    *is_audited = true;
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]) && len < sizeof(after); i++) {
        if (filters[i][1] != NULL)
            len += (size_t)snprintf(after + len, sizeof(after) - len, "%s%s", filters[i][0],
                                    filters[i][1]);
    }
    if (requested == NULL && request->user == NULL && len == 0)
        snprintf(after, sizeof(after), " all");
    snprintf(before, sizeof(before), "error log:%s%s%s", requested != NULL ? " " : "",
             requested != NULL ? requested->text : "", request->user != NULL ? " user=" : "");
    cli_audit_user(verbs[request->verb], before, request->user != NULL ? request->user : "", after);
}

static bool
can_redrive(const struct error_entry *entry, const json_t *users)
{
    return json_array_size(users) > 0 && command_can_redrive(entry);
}

static enum rc
redrive(struct errors_walk *walk, unsigned shard, const struct error_entry *entry,
        const json_t *users)
{
    size_t count = json_array_size(users), texts = 0;
    const char **names = memory_new((count + 1) * sizeof(*names));
    enum rc rc = RC_BAD;

    for (size_t i = 0; i < count; i++) {
        const json_t *user = json_array_get(users, i);
        if (json_is_string(user))
            names[texts++] = json_string_value(user);
    }
    if (texts > 0)
        rc = command_redrive(walk->store, shard, entry, names, texts);
    free(names);
    return rc;
}

static void
read_source(const struct error_entry *entry, char source[SOURCE_MAX])
{
    json_t *notification = entry->data.len > 0
                               ? json_loadb((const char *)entry->data.at, entry->data.len, 0, NULL)
                               : NULL;
    const json_t *metadata = json_object_get(notification, "metadata");
    const char *text = json_string_value(json_object_get(metadata, "source"));

    snprintf(source, SOURCE_MAX, "%s", text != NULL ? text : "-");
    json_decref(notification);
}

/* Adds the notification to the entry if it is needed. A drop by other filters needs none. */
static bool
has_source(struct errors_walk *walk, unsigned shard, struct error_entry *entry)
{
    const struct errors_request *request = walk->request;

    if (request->verb == VERB_DROP && request->source == NULL && !request->dry_run)
        return true;
    if (command_complete(walk->store, shard, entry) != RC_OK) {
        walk->failed = true;
        return false;
    }
    read_source(entry, walk->source);
    return request->source == NULL || strcmp(walk->source, request->source) == 0;
}

static void
handle(struct errors_walk *walk, unsigned shard, const struct error_entry *entry,
       const json_t *users, struct cli_id *requested)
{
    const struct errors_request *request = walk->request;
    enum rc rc = RC_OK;

    if (request->verb == VERB_REDRIVE && !can_redrive(entry, users)) {
        walk->skipped++; /* does not count towards --limit */
        return;
    }
    if (request->verb != VERB_LIST && !request->dry_run)
        audit(walk, requested);
    if (request->verb == VERB_LIST || request->dry_run)
        print_entry(walk, entry, users);
    else if (request->verb == VERB_REDRIVE)
        rc = redrive(walk, shard, entry, users);
    else
        command_drop(walk->store, shard, entry->entry);
    walk->left--;
    walk->entries++;
    walk->users += (long long)json_array_size(users);
    walk->failed = rc != RC_OK;
}

static void
print_progress(const struct errors_walk *walk)
{
    if (walk->request->verb != VERB_LIST && !walk->request->dry_run && walk->total > 0)
        cli_progress("%s: %lld of %lld entries of the error log scanned, %lld matched",
                     verbs[walk->request->verb], walk->scanned, walk->total, walk->entries);
}

static bool
on_entry(void *ctx, unsigned shard, const struct error_entry *entry)
{
    struct errors_walk *walk = ctx;
    struct errors_request *request = walk->request;
    struct cli_id *requested = NULL;
    struct error_entry completed = *entry;
    json_t *users;

    walk->scanned++;
    print_progress(walk);
    if (request->ids.count > 0 &&
        (requested = cli_ids_find(&request->ids, (const char *)entry->id.at, entry->id.len)) ==
            NULL)
        return true;
    if (!is_text(entry->reason, request->reason))
        return true;
    users = read_users(entry);
    if (includes_user(users, request->user) && has_source(walk, shard, &completed)) {
        handle(walk, shard, &completed, users, requested);
        if (requested != NULL)
            requested->is_found = true;
    }
    json_decref(users);
    return !walk->failed && walk->left > 0 && ferror(stdout) == 0;
}

/*
 * Returns false, and reports the ids, if requested ids were not found. After --limit ended the
 * iteration, unread entries may have the ids, so they are not reported.
 */
static bool
found_all(const struct errors_walk *walk)
{
    const struct errors_request *request = walk->request;
    bool is_all = true;

    for (size_t i = 0; i < request->ids.count && walk->left > 0; i++) {
        if (request->ids.items[i].is_found)
            continue;
        is_all = false;
        fprintf(stderr, "clairon " ERRORS ": no %sentry of the error log has id %s\n",
                request->user != NULL || request->source != NULL || request->reason != NULL ||
                        request->since != NULL
                    ? "matching "
                    : "",
                request->ids.items[i].text);
    }
    return is_all;
}

static void
print_sum(const struct errors_walk *walk)
{
    const struct command_changes *changes = command_changed(walk->store);
    enum verb verb = walk->request->verb;

    if (walk->request->dry_run && verb == VERB_REDRIVE)
        printf("would redrive %lld %s for %lld user%s; nothing was changed\n", walk->entries,
               cli_entries(walk->entries), walk->users, cli_plural(walk->users));
    else if (walk->request->dry_run && verb == VERB_DROP)
        printf("would drop %lld %s; nothing was changed\n", walk->entries,
               cli_entries(walk->entries));
    else if (verb == VERB_REDRIVE)
        printf("redrove %lld %s for %lld user%s\n", changes->entries, cli_entries(changes->entries),
               changes->users, cli_plural(changes->users));
    else if (verb == VERB_DROP)
        printf("dropped %lld %s\n", changes->entries, cli_entries(changes->entries));
    if (walk->skipped > 0)
        printf("skipped %lld %s: no pending user, or the notification is lost; drop %s instead\n",
               walk->skipped, cli_entries(walk->skipped), walk->skipped == 1 ? "it" : "them");
}

static void
warn_missing(const char *missing)
{
    fprintf(stderr, "clairon " ERRORS ": shards unavailable: %s; their entries are not included\n",
            missing);
}

static int
finish_walk(const struct errors_walk *walk, enum rc rc)
{
    const struct errors_request *request = walk->request;
    const char *missing = command_missing(walk->store);
    bool is_good = rc == RC_OK && !walk->failed, has_ids;

    cli_progress_end();
    if (!is_good)
        fprintf(stderr, "clairon " ERRORS ": %s\n", command_error(walk->store));
    else if (request->verb == VERB_LIST && walk->entries == 0 && request->ids.count == 0)
        fprintf(stderr, walk->scanned == 0 && request->since == NULL && missing[0] == '\0'
                            ? "the error log is empty\n"
                            : "no entry of the error log matches\n");
    print_sum(walk);
    has_ids = is_good && found_all(walk);
    if (is_good && missing[0] != '\0' && (request->ids.count == 0 || !has_ids)) {
        warn_missing(missing);
        is_good = false;
    }
    if (!has_ids && request->verb != VERB_LIST)
        is_good = false;
    if (request->ids.count > 0 && walk->skipped > 0)
        is_good = false;
    return is_good && fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : 1;
}

/* A misspelled filter must be an error, not an empty result. */
static int
check_reason(const struct errors_request *request)
{
    static const char *const reasons[] = {"exhausted", "expired", "rejected", "undecodable"};
    bool is_known = request->reason == NULL;

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]) && !is_known; i++)
        is_known = strcasecmp(request->reason, reasons[i]) == 0;
    if (is_known)
        return 0;
    return cli_usage_error(ERRORS,
                           "--reason must be exhausted, expired, rejected or undecodable, not ",
                           request->reason);
}

static int
check_limits(const struct errors_request *request, struct entry_id *ret_since, long long *ret_limit)
{
    int64_t ago_ms = 0;
    char *end = NULL;

    if (request->since != NULL &&
        (config_value_duration(request->since, &ago_ms) != RC_OK || ago_ms < 0))
        return cli_usage_error(ERRORS, "--since must be a duration such as 90m, 24h or 7d, not ",
                               request->since);
    *ret_limit = INT64_MAX;
    if (request->limit != NULL) {
        *ret_limit = strtoll(request->limit, &end, 10);
        if (*ret_limit <= 0 || *end != '\0')
            return cli_usage_error(ERRORS, "--limit must be a positive integer, not ",
                                   request->limit);
    }
    *ret_since = (struct entry_id){0, 0};
    if (request->since != NULL && ago_ms < clock_wall_us() / 1000)
        ret_since->ms = (uint64_t)(clock_wall_us() / 1000 - ago_ms);
    return 0;
}

/* Returns 0, or an exit status after printing the error. */
static int
check_request(const struct errors_request *request)
{
    if (request->verb != VERB_LIST && !request->all && request->ids.count == 0 &&
        request->user == NULL && request->source == NULL && request->reason == NULL &&
        request->since == NULL && request->limit == NULL)
        return cli_usage_error(
            ERRORS, "name the entries (ID, --user, --source, --reason, --since, --limit), ",
            "or --all");
    if (request->dry_run && request->verb == VERB_LIST)
        return cli_usage_error(ERRORS, "--dry-run only applies to redrive and drop", "");
    return check_reason(request);
}

/* Returns the verb, or VERB_COUNT after printing the error. */
static enum verb
read_verb(const char *word)
{
    const char *nearest;

    for (enum verb verb = VERB_LIST; word != NULL && verb < VERB_COUNT; verb++)
        if (strcmp(word, verbs[verb]) == 0)
            return verb;
    nearest = word != NULL ? suggest_word(word, verbs, VERB_COUNT) : NULL;
    fprintf(stderr, "clairon " ERRORS ": expected list, redrive or drop%s%s%s%s%s\n",
            word != NULL ? ", not " : "", word != NULL ? word : "",
            nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
            nearest != NULL ? "?" : "");
    return VERB_COUNT;
}

static int
walk_log(struct command *store, void *ctx)
{
    struct errors_walk *walk = ctx;

    walk->store = store;
    if (walk->request->verb != VERB_LIST && !walk->request->dry_run)
        walk->total = command_error_count(store);
    return finish_walk(walk, command_errors(store, walk->since, on_entry, walk));
}

/* The first operand is the verb, the other operands are ids. */
static int
run(struct errors_request *request, const char **operands, int argc, char **argv)
{
    struct errors_walk walk = {.request = request, .total = -1};
    size_t count = 1;
    int code;

    request->verb = read_verb(operands[0]);
    if (request->verb == VERB_COUNT)
        return CLI_USAGE_ERROR;
    while (operands[count] != NULL)
        count++;
    operands[count] = request->id;
    code = cli_ids_read(ERRORS, operands + 1, &request->ids);
    if (code == 0)
        code = check_request(request);
    if (code == 0)
        code = check_limits(request, &walk.since, &walk.left);
    if (code != 0)
        return code;
    return cli_with_store(ERRORS, request->path, argc, argv, walk_log, &walk);
}

int
cli_errors(int argc, char **argv)
{
    struct errors_request request = {.verb = VERB_LIST};
    const struct cli_option options[] = {
        {"--id", &request.id, NULL},         {"--user", &request.user, NULL},
        {"--source", &request.source, NULL}, {"--reason", &request.reason, NULL},
        {"--since", &request.since, NULL},   {"--limit", &request.limit, NULL},
        {"--all", NULL, &request.all},       {"--dry-run", NULL, &request.dry_run},
        {"--json", NULL, &request.json},     {"--help", NULL, &request.help},
        {"-h", NULL, &request.help},         {"-c", &request.path, NULL},
        {"--config", &request.path, NULL},
    };
    size_t max = (size_t)argc;
    const char **operands = memory_new((max + 2) * sizeof(*operands));
    int code = cli_options_parse(ERRORS, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 operands, max);

    if (code == 0)
        code = request.help ? cli_print(errors_usage) : run(&request, operands, argc, argv);
    free(request.ids.items);
    free(operands);
    return code;
}
