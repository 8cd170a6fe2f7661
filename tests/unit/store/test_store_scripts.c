/* test_store_scripts.c: scripts use the key names and frame offsets of the C headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ctype.h>
#include <glob.h>

#include "store/scripts/constants.h"
#include "store/scripts/scripts.h"

#define SOURCES "relay/store/scripts/{*,parts/*}.lua"
#define LINE_MAX_LEN 512

/* Removes the comment of a line. */
static void
cut_comment(char *line)
{
    char quote = '\0';

    for (char *at = line; *at != '\0'; at++) {
        if (quote == '\0' && at[0] == '-' && at[1] == '-')
            *at = '\0';
        else if (quote == '\0' && (*at == '\'' || *at == '"'))
            quote = *at;
        else if (*at == quote)
            quote = '\0';
        else if (quote != '\0' && *at == '\\')
            at++;
        if (*at == '\0')
            return;
    }
}

/* A Lua literal with a kind of key or a shard number, like ":due" and ":{%d+}". */
static bool
names_key(const char *code)
{
    char quote = '\0';

    for (const char *at = code; *at != '\0'; at++) {
        if (quote == '\0' && (*at == '\'' || *at == '"'))
            quote = *at;
        else if (*at == quote)
            quote = '\0';
        else if (quote != '\0' && at[0] == ':' &&
                 (islower((unsigned char)at[1]) || (at[1] == '{' && strchr("%('\"", at[2]))))
            return true;
        else if (quote != '\0' && strncmp(at, "{(%d", 4) == 0)
            return true;
    }
    return false;
}

/* A numeric literal in the arguments of a call. */
static bool
has_number(const char *arguments)
{
    int depth = 1;

    for (const char *at = arguments; *at != '\0' && depth > 0; at++) {
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
        if (isdigit((unsigned char)*at) && !isalnum((unsigned char)at[-1]) && at[-1] != '_')
            return true;
    }
    return false;
}

/* Only route.lua reads bytes of a route, and offsets have names, except 0. */
static bool
names_offset(const char *code, bool is_route_lua)
{
    static const char *const by_hand[] = {"route:sub(", "route:byte(", "route, 'sub'"};
    static const char *const by_name[] = {"route_bytes(", "route_number(", "route_flag("};
    static const char whole[] = "route_bytes(found.route, 0, FRAME_";
    const char *at;

    for (size_t i = 0; !is_route_lua && i < sizeof(by_hand) / sizeof(by_hand[0]); i++)
        if (strstr(code, by_hand[i]) != NULL)
            return true;
    for (size_t i = 0; i < sizeof(by_name) / sizeof(by_name[0]); i++) {
        at = strstr(code, by_name[i]);
        if (at != NULL && strncmp(at, whole, sizeof(whole) - 1) != 0 &&
            has_number(at + strlen(by_name[i])))
            return true;
    }
    return false;
}

static void
test_rules_find_violations(void **state)
{
    char line[] = "local x = '--:due' -- ':due'";

    (void)state;
    assert_true(names_key("call('HGET', prefix .. ':pending', id)"));
    assert_true(names_key("ipairs({\":members:*\"})"));
    assert_true(names_key("prefix:gsub(':{%d+}$', '')"));
    assert_true(names_key("prefix:match('{(%d+)}$')"));
    assert_false(names_key("call('HGET', prefix .. KEY_PENDING, id .. ':' .. user)"));
    assert_false(names_key("'{\"at\":%s,\"users\":{}}' .. id:sub(1, 36)"));
    assert_true(names_offset("found.route:sub(9, 16)", false));
    assert_true(names_offset("route_number(route, 40, 48)", true));
    assert_true(names_offset("route_flag(route, 4)", false));
    assert_false(
        names_offset("route_number(route, FRAME_NOTIFICATION_AT_COMMIT_US, FRAME_X8)", false));
    assert_false(
        names_offset("route_bytes(found.route, 0, FRAME_NOTIFICATION_AT_ATTEMPTS)", false));
    cut_comment(line);
    assert_string_equal(line, "local x = '--:due' ");
}

static unsigned
violations_in(const char *path)
{
    char line[LINE_MAX_LEN];
    const char *name = strrchr(path, '/') + 1;
    FILE *file = fopen(path, "r");
    unsigned faults = 0, number = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        number++;
        cut_comment(line);
        if (!names_key(line) && !names_offset(line, strcmp(name, "route.lua") == 0))
            continue;
        print_error("%s:%u: %s\n", path, number, line);
        faults++;
    }
    assert_int_equal(fclose(file), 0);
    return faults;
}

static void
test_scripts_have_no_literal_key_or_offset(void **state)
{
    glob_t found;
    unsigned faults = 0;

    (void)state;
    assert_int_equal(glob(SOURCES, GLOB_BRACE, NULL, &found), 0);
    assert_true(found.gl_pathc > STORE_SCRIPT_COUNT);
    for (size_t i = 0; i < found.gl_pathc; i++)
        faults += violations_in(found.gl_pathv[i]);
    globfree(&found);
    assert_int_equal(faults, 0);
}

/* The build replaces names by the values of the C headers. */
static void
test_values_are_those_of_the_headers(void **state)
{
    char text[128];

    (void)state;
    assert_non_null(strstr(store_script_ticket, "'" KEY_TICKET "'"));
    snprintf(text, sizeof(text), "route_number(found.route, %d, %d)",
             FRAME_NOTIFICATION_AT_ATTEMPTS, FRAME_NOTIFICATION_AT_AUDIENCE_LEN);
    assert_non_null(strstr(store_script_due, text));
    snprintf(text, sizeof(text), "'COUNT', %d)", STORE_ERRORS_ROWS);
    assert_non_null(strstr(store_script_errors, text));
    assert_null(strstr(store_script_due, "KEY_"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_find_violations),
        cmocka_unit_test(test_scripts_have_no_literal_key_or_offset),
        cmocka_unit_test(test_values_are_those_of_the_headers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
