/* errors_print.c: prints entries of the error log for `clairon errors`. */
#include "cli/errors_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/options.h"
#include "cli/terminal.h"

#define USERS_PRINTED_MAX 3

json_t *
cli_errors_users(const struct error_entry *entry)
{
    json_t *users = entry->users.at != NULL
                        ? json_loadb((const char *)entry->users.at, entry->users.len, 0, NULL)
                        : NULL;

    if (json_is_array(users))
        return users;
    json_decref(users);
    return json_array();
}

void
cli_errors_print_header(void)
{
    char now[CLOCK_TEXT_MAX], text[CLOCK_TEXT_MAX];

    clock_text_ms(0, text);
    printf("%s%-*s  %-36s  %-11s  %8s  %s%s\n", cli_colour(CLI_COLOUR_FAINT),
           (int)strlen(cli_time(text, now)), "TIME", "ID", "REASON", "ATTEMPTS", "USERS",
           cli_colour(CLI_COLOUR_NONE));
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

void
cli_errors_print_row(const struct error_entry *entry, const json_t *users)
{
    char full[CLOCK_TEXT_MAX], text[CLOCK_TEXT_MAX];

    clock_text_ms((int64_t)entry->entry.ms, full);
    printf("%s  %-36.*s  %s%-11.*s%s  %8.*s  ", cli_time(full, text), (int)entry->id.len,
           (const char *)entry->id.at, cli_colour(CLI_COLOUR_BAD), (int)entry->reason.len,
           (const char *)entry->reason.at, cli_colour(CLI_COLOUR_NONE), (int)entry->attempts.len,
           (const char *)entry->attempts.at);
    print_users(users);
    putchar('\n');
}

void
cli_errors_print_json(const struct error_entry *entry)
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
