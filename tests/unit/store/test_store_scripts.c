/* test_store_scripts.c: scripts use the key names, frame layout and envelope of the C headers. */
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
#define NAME_MAX_LEN 32
#define INCLUDE_JSON "-- include: json.lua"

static const char *const envelope[] = {
    ENVELOPE_ID_TEXT,         ENVELOPE_PRIORITY_TEXT,     ENVELOPE_TYPE_TEXT,
    ENVELOPE_EMITTER_TEXT,    ENVELOPE_SOURCE_TEXT,       ENVELOPE_TOPIC_TEXT,
    ENVELOPE_OPERATION_TEXT,  ENVELOPE_TRACEPARENT_TEXT,  ENVELOPE_TIMESTAMP_TEXT,
    ENVELOPE_EXPIRATION_TEXT, ENVELOPE_PAYLOAD_TEXT,      ENVELOPE_AUDIENCE_TEXT,
    ENVELOPE_TARGETS_TEXT,    ENVELOPE_ACK_REQUIRED_TEXT, ENVELOPE_RETRY_ENABLED_TEXT,
    ENVELOPE_ATTEMPTS_TEXT,   ENVELOPE_RETRY_LIMIT_TEXT,  ENVELOPE_BACKOFF_TEXT,
    ENVELOPE_END_TEXT,        ENVELOPE_DATA_TEXT,
};

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

/* Whether a Lua string contains a kind of key or a shard number, such as ":due" or ":{%d+}". */
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

/* Whether the arguments of a call contain a number. */
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

/* Whether the code contains the width of an id or position, as in id:sub(1, 36), plus 0 to 2. */
static bool
names_width(const char *code)
{
    for (const char *at = code; *at != '\0'; at++) {
        char *end = (char *)(uintptr_t)at + 1;
        long number;

        if (!isdigit((unsigned char)*at) ||
            (at > code && (isalnum((unsigned char)at[-1]) || strchr("_.'\"%", at[-1]) != NULL)))
            continue;
        number = strtol(at, &end, 10);
        if (number >= FRAME_UUID_TEXT && number <= FRAME_UUID_TEXT + 2)
            return true;
        if (strstr(code, "sub(") != NULL && number >= FRAME_POSITION_TEXT &&
            number <= FRAME_POSITION_TEXT + 2)
            return true;
        at = end - 1;
    }
    return false;
}

/* Whether the code contains a quoted member of the notification, such as "attempts", or its end. */
static bool
names_member(const char *code)
{
    for (size_t i = 0; i < sizeof(envelope) / sizeof(envelope[0]); i++) {
        const char *at = envelope[i], *end;
        char name[NAME_MAX_LEN];

        if (strchr(at, '"') == NULL && strstr(code, at) != NULL)
            return true;
        while ((at = strchr(at, '"')) != NULL && (end = strchr(at + 1, '"')) != NULL) {
            snprintf(name, sizeof(name), "%.*s:", (int)(end + 1 - at), at);
            if (strstr(code, name) != NULL)
                return true;
            at = end + 1;
        }
    }
    return false;
}

/*
 * Scripts must use the strings of envelope.h. If they include json.lua, only searches are checked,
 * because members of other JSON that they write may have the same names.
 */
static bool
names_envelope(const char *code, bool is_json_writer)
{
    static const char *const searches[] = {"match(", "find(", "gsub(", "gmatch("};

    if (!is_json_writer)
        return names_member(code);
    for (size_t i = 0; i < sizeof(searches) / sizeof(searches[0]); i++) {
        const char *at = strstr(code, searches[i]);

        if (at != NULL && names_member(at))
            return true;
    }
    return false;
}

/* Only route.lua may read bytes of a route, and offsets other than 0 must have names. */
static bool
names_offset(const char *code, bool is_route_lua)
{
    static const char *const by_hand[] = {"route:sub(", "route:byte(", "route, 'sub'"};
    static const char *const by_name[] = {"route_bytes(", "route_number(", "route_flag("};
    static const char *const whole[] = {"route_bytes(found.route, 0, FRAME_",
                                        "route_bytes(route, 0, FRAME_"};
    const char *at;

    for (size_t i = 0; !is_route_lua && i < sizeof(by_hand) / sizeof(by_hand[0]); i++)
        if (strstr(code, by_hand[i]) != NULL)
            return true;
    for (size_t i = 0; i < sizeof(by_name) / sizeof(by_name[0]); i++) {
        at = strstr(code, by_name[i]);
        if (at != NULL && strncmp(at, whole[0], strlen(whole[0])) != 0 &&
            strncmp(at, whole[1], strlen(whole[1])) != 0 && has_number(at + strlen(by_name[i])))
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

static void
test_rules_find_widths(void **state)
{
    (void)state;
    assert_true(names_width("rows[i]:sub(1, 36)"));
    assert_true(names_width("rows[i]:sub(38)"));
    assert_true(names_width("#id == 36"));
    assert_true(names_width("('x'):rep(36)"));
    assert_true(names_width("position:sub(1, 32)"));
    assert_false(names_width("rows[i]:sub(1, FRAME_UUID_TEXT)"));
    assert_false(names_width("newest_notification(key, '+', 32, is_wanted)"));
    assert_false(names_width("string.format('%36s', x36, 0.36, 3600)"));
}

static void
test_rules_find_envelope_text(void **state)
{
    (void)state;
    assert_true(names_envelope("data:match('^(.*\"attempts\":)%d+(,\"limit\":')", false));
    assert_true(names_envelope("local head = '\"attempts\":'", false));
    assert_true(names_envelope("data:match('^{\"metadata\":{.-\"topic\":')", true));
    assert_true(names_envelope("data .. '}}}'", false));
    assert_false(names_envelope("',\"attempts\":', number_of(fields.attempts)", true));
    assert_false(names_envelope("entry[1]:match('^%d+')", true));
    assert_false(names_envelope("data:match('^(.*' .. ENVELOPE_ATTEMPTS_TEXT .. ')%d+')", false));
}

static unsigned
violations_in(const char *path)
{
    char line[LINE_MAX_LEN];
    const char *name = strrchr(path, '/') + 1;
    bool is_route_lua = strncmp(name, "route", strlen("route")) == 0, is_json_writer = false;
    FILE *file = fopen(path, "r");
    unsigned faults = 0, number = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        number++;
        is_json_writer = is_json_writer || strncmp(line, INCLUDE_JSON, strlen(INCLUDE_JSON)) == 0;
        cut_comment(line);
        if (!names_key(line) && !names_offset(line, is_route_lua) && !names_width(line) &&
            !names_envelope(line, is_json_writer))
            continue;
        print_error("%s:%u: %s\n", path, number, line);
        faults++;
    }
    assert_int_equal(fclose(file), 0);
    return faults;
}

static void
test_scripts_use_the_names_of_the_headers(void **state)
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

/* The build replaces names with the values of the C headers. */
static void
test_values_match_the_headers(void **state)
{
    char text[128];

    (void)state;
    assert_non_null(strstr(store_script_ticket, "'" KEY_TICKET "'"));
    snprintf(text, sizeof(text), "route_number(found.route, %d, %d)",
             FRAME_NOTIFICATION_AT_ATTEMPTS, FRAME_NOTIFICATION_AT_AUDIENCE_LEN);
    assert_non_null(strstr(store_script_due, text));
    snprintf(text, sizeof(text), "for i = 1, %d do", STORE_ERRORS_ROWS);
    assert_non_null(strstr(store_script_errors, text));
    assert_non_null(strstr(store_script_due, "'" ENVELOPE_ATTEMPTS_TEXT "'"));
    assert_non_null(strstr(store_script_overview, "'" ENVELOPE_ID_TEXT "'"));
    assert_null(strstr(store_script_due, "KEY_"));
    assert_null(strstr(store_script_due, "ENVELOPE_"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_find_violations),
        cmocka_unit_test(test_rules_find_widths),
        cmocka_unit_test(test_rules_find_envelope_text),
        cmocka_unit_test(test_scripts_use_the_names_of_the_headers),
        cmocka_unit_test(test_values_match_the_headers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
