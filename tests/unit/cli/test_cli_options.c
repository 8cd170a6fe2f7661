/* test_cli_options.c: do the commands read their options alike, and obey no text of others? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/options.h"

static const char *user, *path;
static bool json;
static const char *operands[1];
static char output[256];

static const struct cli_option options[] = {
    {"--user", &user, NULL},
    {"-c", &path, NULL},
    {"--json", NULL, &json},
};

/* The code; what stands in argv besides goes to `left`, with a blank behind each. */
static int
take(int argc, char **argv, char left[64])
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

#define TAKE(left, ...)                                                                            \
    take((int)(sizeof((char *[]){"test", __VA_ARGS__}) / sizeof(char *)),                          \
         (char *[]){"test", __VA_ARGS__}, left)

static void
takes_values_flags_and_operands(void **state)
{
    char left[64];

    (void)state;
    assert_int_equal(TAKE(left, "--user", "u1", "list", "--json", "-c", "file"), 0);
    assert_string_equal(user, "u1");
    assert_string_equal(path, "file");
    assert_string_equal(operands[0], "list");
    assert_true(json);
    assert_string_equal(left, "");
}

static void
leaves_settings_alone(void **state)
{
    char left[64];

    (void)state;
    assert_int_equal(TAKE(left, "--store.url=x", "--user=a.b"), 0);
    assert_string_equal(user, "a.b");
    assert_string_equal(left, "--store.url=x ");
}

static void
takes_no_option_for_a_value(void **state)
{
    char left[64];

    (void)state;
    assert_int_equal(TAKE(left, "--user", "--json"), CLI_WRONG_USE);
    assert_int_equal(TAKE(left, "--user"), CLI_WRONG_USE);
    assert_int_equal(TAKE(left, "--user=--json"), 0);
    assert_string_equal(user, "--json");
}

static void
refuses_what_it_does_not_know(void **state)
{
    char left[64];

    (void)state;
    assert_int_equal(TAKE(left, "--users", "u1"), CLI_WRONG_USE);
    assert_int_equal(TAKE(left, "--json=on"), CLI_WRONG_USE);
    assert_int_equal(TAKE(left, "list", "more"), CLI_WRONG_USE);
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
prints_nothing_that_a_terminal_obeys(void **state)
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
        cmocka_unit_test(takes_values_flags_and_operands),
        cmocka_unit_test(leaves_settings_alone),
        cmocka_unit_test(takes_no_option_for_a_value),
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(prints_nothing_that_a_terminal_obeys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
