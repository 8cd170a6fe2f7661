/* cli_errors.c: shows the error log, sends its messages anew, or forgets them. */
#include "cli.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/config_value.h"
#include "base/memory.h"
#include "cli_options.h"
#include "wire/frame.h"

#define ERRORS "errors"

static const char errors_usage[] =
    "Usage: clairon errors list|redrive|drop [options]\n"
    "The error log: who never acknowledged what, and what could not be decoded.\n"
    "\n"
    "  list            shows its entries, oldest first\n"
    "  redrive         their users get the message anew, from attempt 0; the entries go\n"
    "  drop            forgets them\n"
    "\n"
    "  --id UUID       only this message\n"
    "  --user USER     only entries that name this user\n"
    "  --reason WORD   exhausted, expired, rejected or undecodable\n"
    "  --since TIME    only what was logged in the last such as 90m, 24h or 7d\n"
    "  --limit N       at most so many entries\n"
    "  --all           redrive or drop without any of these filters\n"
    "  --json          list: one JSON object a line, with the notification\n"
    "  -c FILE         the relay's settings; only [store] matters\n"
    "  --store.url=V   one setting, such as this\n";

struct errors_request {
    const char *verb;
    const char *id;
    const char *user;
    const char *reason;
    const char *since;
    const char *limit;
    const char *path;
    bool all;
    bool json;
    bool help;
};

/* A walk through the log. */
struct errors_walk {
    const struct errors_request *request;
    struct direct *direct;
    long long left;    /* entries that may still be treated */
    long long entries; /* treated */
    long long users;   /* redriven */
    long long skipped; /* that cannot be sent anew */
    bool failed;
};

static bool
is_text(struct bytes bytes, const char *text)
{
    return text == NULL ||
           (bytes.len == strlen(text) && strncasecmp((const char *)bytes.at, text, bytes.len) == 0);
}

/* An empty array when it cannot be read. */
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

static bool
names_user(const json_t *users, const char *name)
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

static void
print_time(struct entry_id entry)
{
    time_t seconds = (time_t)(entry.ms / 1000);
    char text[32] = "";
    struct tm utc;

    if (gmtime_r(&seconds, &utc) != NULL && strftime(text, sizeof(text), "%FT%T", &utc) > 0)
        printf("%s.%03dZ", text, (int)(entry.ms % 1000));
}

static void
print_row(const struct error_entry *entry)
{
    print_time(entry->entry);
    printf("  %.*s  %-11.*s  %8.*s  ", (int)entry->id.len, (const char *)entry->id.at,
           (int)entry->reason.len, (const char *)entry->reason.at, (int)entry->attempts.len,
           (const char *)entry->attempts.at);
    cli_print_plain((const char *)entry->users.at, entry->users.len);
    putchar('\n');
}

static void
print_json(const struct error_entry *entry)
{
    bool has_data = entry->data.len > 0;

    printf("{\"entry\":\"%" PRIu64 "-%" PRIu64 "\",\"at\":\"", entry->entry.ms, entry->entry.seq);
    print_time(entry->entry);
    printf("\",\"id\":\"%.*s\",\"reason\":\"%.*s\",\"attempts\":%.*s,\"users\":%.*s,"
           "\"notification\":%.*s}\n",
           (int)entry->id.len, (const char *)entry->id.at, (int)entry->reason.len,
           (const char *)entry->reason.at, (int)entry->attempts.len,
           (const char *)entry->attempts.at, (int)entry->users.len, (const char *)entry->users.at,
           has_data ? (int)entry->data.len : 4, has_data ? (const char *)entry->data.at : "null");
}

static void
redrive(struct errors_walk *walk, const struct error_entry *entry, const json_t *users)
{
    size_t count = json_array_size(users), texts = 0;
    const char **names = memory_new((count + 1) * sizeof(*names));
    long long waiting = 0;
    enum rc rc = RC_BAD; /* nobody waited for it, or the store never had its text */

    for (size_t i = 0; i < count; i++) {
        const json_t *user = json_array_get(users, i);
        if (json_is_string(user))
            names[texts++] = json_string_value(user);
    }
    if (texts > 0)
        rc = direct_redrive(walk->direct, entry, names, texts, &waiting);
    if (rc == RC_BAD) {
        walk->skipped++;
        walk->left++; /* as if it were not there */
    } else if (rc != RC_OK) {
        walk->failed = true;
    } else if (waiting >= 0) {
        walk->entries++;
    }
    walk->users += waiting > 0 ? waiting : 0;
    free(names);
}

static void
treat(struct errors_walk *walk, const struct error_entry *entry, const json_t *users)
{
    bool done = false;

    walk->left--;
    if (strcmp(walk->request->verb, "redrive") == 0) {
        redrive(walk, entry, users);
    } else if (strcmp(walk->request->verb, "drop") == 0) {
        if (direct_drop(walk->direct, entry->entry, &done) != RC_OK)
            walk->failed = true;
        walk->entries += done;
    } else {
        (walk->request->json ? print_json : print_row)(entry);
        walk->entries++;
    }
}

static bool
on_entry(void *ctx, const struct error_entry *entry)
{
    struct errors_walk *walk = ctx;
    const struct errors_request *request = walk->request;
    json_t *users;

    if (!is_text(entry->id, request->id) || !is_text(entry->reason, request->reason))
        return true;
    users = read_users(entry);
    if (names_user(users, request->user))
        treat(walk, entry, users);
    json_decref(users);
    return !walk->failed && walk->left > 0 && ferror(stdout) == 0;
}

static int
finish(const struct errors_walk *walk, enum rc rc)
{
    const char *verb = walk->request->verb;

    if (rc != RC_OK || walk->failed)
        fprintf(stderr, "clairon " ERRORS ": %s\n", direct_error(walk->direct));
    if (strcmp(verb, "redrive") == 0)
        printf("redrove %lld entries for %lld users\n", walk->entries, walk->users);
    else if (strcmp(verb, "drop") == 0)
        printf("dropped %lld entries\n", walk->entries);
    if (walk->skipped > 0)
        printf("left %lld entries that cannot be sent anew, as nobody waited for them or their "
               "text is lost: drop them\n",
               walk->skipped);
    return rc == RC_OK && !walk->failed && fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : 1;
}

/* What is misspelt must not look as if there were no such entries. */
static int
check_filters(const struct errors_request *request)
{
    static const char *const reasons[] = {"exhausted", "expired", "rejected", "undecodable"};
    bool is_known = request->reason == NULL;

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]) && !is_known; i++)
        is_known = strcasecmp(request->reason, reasons[i]) == 0;
    if (!is_known)
        return cli_refuse(ERRORS,
                          "--reason must be exhausted, expired, rejected or undecodable, not ",
                          request->reason);
    if (request->id != NULL && !frame_is_uuid(request->id, strlen(request->id)))
        return cli_refuse(ERRORS, "--id must be the id of a notification, a UUID, not ",
                          request->id);
    return 0;
}

/* 0, or an exit code after it said what is wrong. */
static int
check_request(const struct errors_request *request, struct entry_id *ret_since,
              long long *ret_limit)
{
    static const char *const verbs[] = {"list", "redrive", "drop"};
    bool is_known = false;
    int64_t ago_ms = 0;
    char *end = NULL;

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        is_known = is_known || strcmp(request->verb, verbs[i]) == 0;
    if (!is_known)
        return cli_refuse(ERRORS, "list, redrive or drop must follow, not ", request->verb);
    if (strcmp(request->verb, "list") != 0 && !request->all && request->id == NULL &&
        request->user == NULL && request->reason == NULL && request->since == NULL &&
        request->limit == NULL)
        return cli_refuse(ERRORS, "say which entries (--id, --user, --reason, --since, --limit), ",
                          "or --all");
    if (request->since != NULL &&
        (config_value_duration(request->since, &ago_ms) != RC_OK || ago_ms < 0))
        return cli_refuse(ERRORS, "--since must be a duration such as 90m, 24h or 7d, not ",
                          request->since);
    *ret_limit = INT64_MAX;
    if (request->limit != NULL) {
        *ret_limit = strtoll(request->limit, &end, 10);
        if (*ret_limit <= 0 || *end != '\0')
            return cli_refuse(ERRORS, "--limit must be a number above 0, not ", request->limit);
    }
    *ret_since = (struct entry_id){0, 0};
    if (request->since != NULL && ago_ms < clock_wall_us() / 1000)
        ret_since->ms = (uint64_t)(clock_wall_us() / 1000 - ago_ms);
    return check_filters(request);
}

int
cli_errors(int argc, char **argv)
{
    struct errors_request request = {.verb = NULL};
    const char *operands[2] = {NULL, NULL};
    const struct cli_option options[] = {
        {"--id", &request.id, NULL},         {"--user", &request.user, NULL},
        {"--reason", &request.reason, NULL}, {"--since", &request.since, NULL},
        {"--limit", &request.limit, NULL},   {"--all", NULL, &request.all},
        {"--json", NULL, &request.json},     {"--help", NULL, &request.help},
        {"-h", NULL, &request.help},         {"-c", &request.path, NULL},
        {"--config", &request.path, NULL},
    };
    struct errors_walk walk = {.request = &request};
    struct entry_id since;
    int code = cli_options_take(ERRORS, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                operands, 2);

    if (code != 0)
        return code;
    if (request.help)
        return cli_print(errors_usage);
    request.verb = operands[0] != NULL ? operands[0] : "nothing";
    if (operands[1] != NULL)
        request.id = operands[1];
    code = check_request(&request, &since, &walk.left);
    if (code != 0)
        return code;
    walk.direct = cli_store_open(ERRORS, request.path, argc, argv, &code);
    if (walk.direct == NULL)
        return code;
    code = finish(&walk, direct_errors(walk.direct, since, on_entry, &walk));
    direct_close(walk.direct);
    return code;
}
