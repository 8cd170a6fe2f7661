/* test_cli_options.c: common options are parsed, and untrusted strings are printed safely. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"

static const char *user, *path;
static bool json;
static const char *operands[1];
static char output[256];

static const struct cli_option options[] = {
    {"--user", &user, NULL},
    {"-c", &path, NULL},
    {"--json", NULL, &json},
};

/* Returns the exit status; `left` receives the remaining arguments, each followed by a space. */
static int
parse(int argc, char **argv, char left[64])
{
    int code;

    user = path = operands[0] = NULL;
    json = false;
    left[0] = '\0';
    code = cli_options_parse("test", argc, argv, options, 3, operands, 1);
    for (int i = 1; i < argc; i++)
        if (argv[i] != NULL)
            snprintf(left + strlen(left), 64 - strlen(left), "%s ", argv[i]);
    return code;
}

#define PARSE(left, ...)                                                                           \
    parse((int)(sizeof((char *[]){"test", __VA_ARGS__}) / sizeof(char *)),                         \
          (char *[]){"test", __VA_ARGS__}, left)

static void
values_flags_and_operands_are_parsed(void **state)
{
    char left[64];

    (void)state;
    assert_int_equal(PARSE(left, "--user", "u1", "list", "--json", "-c", "file"), 0);
    assert_string_equal(user, "u1");
    assert_string_equal(path, "file");
    assert_string_equal(operands[0], "list");
    assert_true(json);
    assert_string_equal(left, "");
}

static void
settings_stay_in_argv(void **state)
{
    char left[64];

    (void)state;
    assert_int_equal(PARSE(left, "--store.url=x", "--user=a.b"), 0);
    assert_string_equal(user, "a.b");
    assert_string_equal(left, "--store.url=x ");
}

static void
option_is_not_used_as_a_value(void **state)
{
    char left[64];

    (void)state;
    assert_int_equal(PARSE(left, "--user", "--json"), CLI_USAGE_ERROR);
    assert_int_equal(PARSE(left, "--user"), CLI_USAGE_ERROR);
    assert_int_equal(PARSE(left, "--user=--json"), 0);
    assert_string_equal(user, "--json");
}

static void
unknown_options_are_rejected(void **state)
{
    char left[64];

    (void)state;
    assert_int_equal(PARSE(left, "--users", "u1"), CLI_USAGE_ERROR);
    assert_int_equal(PARSE(left, "--json=on"), CLI_USAGE_ERROR);
    assert_int_equal(PARSE(left, "list", "more"), CLI_USAGE_ERROR);
}

static void
print(const char *text, size_t len)
{
    FILE *file = tmpfile();
    int out = dup(STDOUT_FILENO);

    assert_non_null(file);
    (void)fflush(stdout);
    (void)dup2(fileno(file), STDOUT_FILENO);
    cli_print_plain(text, len);
    (void)fflush(stdout);
    (void)dup2(out, STDOUT_FILENO);
    (void)close(out);
    rewind(file);
    output[fread(output, 1, sizeof(output) - 1, file)] = '\0';
    (void)fclose(file);
}

static void
control_characters_are_replaced(void **state)
{
    static const char text[] = "\x1b[2J caf\xc3\xa9\n\x7f\xc2\x9b\xff";

    (void)state;
    print(text, sizeof(text) - 1);
    assert_string_equal(output, "?[2J caf\xc3\xa9 ???");
    print("abc", 2);
    assert_string_equal(output, "ab");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_flags_and_operands_are_parsed),
        cmocka_unit_test(settings_stay_in_argv),
        cmocka_unit_test(option_is_not_used_as_a_value),
        cmocka_unit_test(unknown_options_are_rejected),
        cmocka_unit_test(control_characters_are_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
