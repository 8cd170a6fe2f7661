/* kick.c: `clairon kick`: cuts off the tokens of a user (wire/cutoff.h). */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "store/command.h"
#include "wire/cutoff.h"
#include "wire/token.h"

#define KICK "kick"

static const char kick_usage[] =
    "Usage: clairon kick USER [options]\n"
    "Ends the connections of a user on all relays, rejects the tokens that were issued up to now,\n"
    "and removes the Web Push subscriptions of the user. Tokens that are issued later are "
    "accepted:\n"
    "the user may sign in again.\n"
    "\n"
    "  --until TIME    reject them until this time (RFC 3339); default: for 400 days\n"
    "  --jti JTI       only the token with this claim jti\n"
    "  -c FILE         configuration file of the relay; only [store] is used\n"
    "  --store.url=V   one setting\n";

struct kick {
    struct cutoff cutoff;
    const char *user;
    const char *jti; /* NULL: all tokens of the user */
};

/* A cli_store_run. */
static int
cut_off(struct command *command, void *ctx)
{
    const struct kick *kick = ctx;

    cli_audit_user(KICK, "", kick->user, "");
    if (command_cut_off(command, &kick->cutoff, kick->jti == NULL ? kick->user : NULL) == RC_OK)
        return 0;
    fprintf(stderr, "clairon " KICK ": %s\n", command_error(command));
    return 1;
}

static bool
is_user(const char *user)
{
    size_t len = user != NULL ? strlen(user) : 0, valid_len = 0;

    return len > 0 && len <= TOKEN_USER_MAX && utf8_is_prefix(user, len, &valid_len) &&
           valid_len == len;
}

int
cli_kick(int argc, char **argv)
{
    const char *path = NULL, *until = NULL;
    struct kick kick = {.user = NULL};
    bool help = false;
    const struct cli_option options[] = {
        {"--until", &until, NULL}, {"--jti", &kick.jti, NULL}, {"--help", NULL, &help},
        {"-h", NULL, &help},       {"-c", &path, NULL},        {"--config", &path, NULL},
    };
    const int64_t now_s = clock_wall_us() / 1000000;
    int64_t until_s = 0;
    int code = cli_options_parse(KICK, argc, argv, options, sizeof(options) / sizeof(options[0]),
                                 &kick.user, 1);

    if (code != 0)
        return code;
    if (help)
        return cli_print(kick_usage);
    if (!is_user(kick.user))
        return cli_usage_error(KICK, "expected a user of 1 to 255 bytes", "");
    if (until != NULL && !cutoff_read_time(until, &until_s))
        return cli_usage_error(KICK, "--until is no time, such as 2027-01-31T12:00:00Z: ", until);
    if (until != NULL && until_s <= now_s)
        return cli_usage_error(KICK, "--until is in the past: ", until);
    if (kick.jti != NULL && *kick.jti == '\0')
        return cli_usage_error(KICK, "--jti is empty", "");
    kick.cutoff = cutoff_for(kick.user, kick.jti, until_s, now_s);
    return cli_with_store(KICK, path, argc, argv, cut_off, &kick);
}
