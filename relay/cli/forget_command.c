/*
 * forget_command.c: `clairon forget`: removes a user from the store, and prints where the name
 * remains.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/command.h"

#define FORGET "forget"
#define JSON_MAX 4096

static const char forget_usage[] =
    "Usage: clairon forget USER [options]\n"
    "Removes a user from the store: ends the user's sessions and pending notifications, and\n"
    "deletes the notifications to this user alone, subscriptions, tickets, idempotency keys and\n"
    "the name in the error log and in traces. The user is not banned. Prints where the name\n"
    "remains. It may be repeated, and completes a run that was interrupted.\n"
    "\n"
    "  USER            the user's id, as in the claim sub of tokens and in clairon.member\n"
    "  --json          print the result as a JSON object\n"
    "  -c FILE         configuration file of the relay; only [store] is used\n"
    "  --store.url=V   one setting\n"
    "\n"
    "Exit status: 0 success, 1 the store or a shard of it is unavailable, 2 wrong usage.\n";

static void
print_remainder(const struct forget_remainder *remainder, const char *what, const char *before,
                const char *end)
{
    char until[CLOCK_TEXT_MAX];

    if (remainder->entries == 0)
        return;
    clock_text_ms(remainder->until_ms, until);
    printf("  %s: %" PRIu64 ", %s%s%s\n", what, remainder->entries, before,
           remainder->has_no_end ? end : "until at the latest ",
           remainder->has_no_end ? "" : until);
}

static void
print_name(const char *before, const char *user, const char *after)
{
    printf("%s", before);
    cli_print_plain(user, strlen(user));
    printf("%s", after);
}

static void
print_result(const char *user, const struct store_forgotten *result)
{
    print_name("forgot ", user, "");
    printf(": ended %" PRIu64 " pending pair%s, deleted %" PRIu64 " notification%s and %" PRIu64
           " other key%s, field%s or entr%s\n",
           result->pairs, cli_plural((long long)result->pairs), result->notifications,
           cli_plural((long long)result->notifications), result->removed,
           cli_plural((long long)result->removed), cli_plural((long long)result->removed),
           result->removed == 1 ? "y" : "ies");
    if (result->is_connected)
        printf("a relay did not end the user's sessions in time: they end when it replies\n");
    printf("the name remains in:\n");
    print_remainder(&result->remain[FORGET_STREAM], "notifications shared with other users", "",
                    "until store.retention after they end for these");
    print_remainder(&result->remain[FORGET_ERRORS],
                    "error log entries whose notification other users share", "",
                    "until they are redriven, dropped or trimmed");
    print_remainder(&result->remain[FORGET_RECEIPTS], "entries of receipts",
                    "until each sink has them, or shared ones ", "");
    print_remainder(&result->remain[FORGET_CONTROL], "entries that relays may still read", "", "");
    printf("  %" PRIu64 " row%s of clairon.member, which is the application's: DELETE FROM "
           "clairon.member WHERE user_id = ..\n",
           result->memberships, cli_plural((long long)result->memberships));
    printf("  clairon.receipt: run SELECT clairon.forget(..) when the receipts have arrived\n"
           "  the append-only file of the store until its next rewrite, snapshots, backups, the\n"
           "  WAL and tables of the application, and log files\n");
}

struct forget {
    const char *user;
    bool json;
};

static int
forget(struct command *store, void *ctx)
{
    const struct forget *forget = ctx;
    struct store_forgotten result = {0};
    struct buffer out;
    int code;

    cli_audit_user(FORGET, "", forget->user, "");
    if (command_forget(store, forget->user, &result) != RC_OK)
        return cli_store_error(FORGET, store);
    if (!forget->json) {
        print_result(forget->user, &result);
        return fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : 1;
    }
    buffer_init(&out, JSON_MAX);
    code = store_forgotten_write(&result, &out) == RC_OK ? cli_print(out.bytes) : 1;
    buffer_free(&out);
    return code;
}

int
cli_forget(int argc, char **argv)
{
    struct forget own = {.user = NULL};
    const char *path = NULL;
    bool help = false;
    const struct cli_option options[] = {
        {"--json", NULL, &own.json}, {"--help", NULL, &help},   {"-h", NULL, &help},
        {"-c", &path, NULL},         {"--config", &path, NULL},
    };
    int code = cli_options_parse(FORGET, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 &own.user, 1);

    if (code != 0)
        return code;
    if (help)
        return cli_print(forget_usage);
    if (own.user == NULL || *own.user == '\0' || strlen(own.user) > UINT8_MAX)
        return cli_usage_error(FORGET, "expected USER, of 1 to 255 bytes", "");
    return cli_with_store(FORGET, path, argc, argv, forget, &own);
}
