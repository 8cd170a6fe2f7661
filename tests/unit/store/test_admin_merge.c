/* test_admin_merge.c: replies of several shards are merged into one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/admin/admin_private.h"
#include "store/scripts/constants.h"

/* Views of the strings, as in replies; NULL: no reply. */
static const struct bytes *
views(const char *const *texts, size_t count)
{
    static struct bytes found[STORE_SHARDS_MAX];

    for (size_t i = 0; i < count; i++)
        found[i] = (struct bytes){(const unsigned char *)texts[i],
                                  texts[i] != NULL ? strlen(texts[i]) : 0};
    return found;
}

static void
test_overviews_are_summed(void **state)
{
    /* Two servers: shards 0 and 2 are on the first. Each shard has an error log. */
    const char *const texts[] = {
        "{\"at\":9,\"server\":\"a\",\"entries\":1,\"pending\":1,\"errors\":5,\"memory\":10,"
        "\"memory_max\":0,"
        "\"relays\":[{\"name\":\"r\"}],\"sinks\":[{\"name\":\"sql\"}],"
        "\"oldest\":[{\"id\":\"b\",\"since\":2}]}",
        "{\"at\":8,\"server\":\"b\",\"entries\":2,\"pending\":2,\"errors\":7,\"memory\":20,"
        "\"memory_max\":1,"
        "\"relays\":[],\"oldest\":[{\"id\":\"a\",\"since\":1},{\"id\":\"c\",\"since\":3}]}",
        "{\"at\":9,\"server\":\"a\",\"entries\":4,\"pending\":4,\"errors\":5,\"memory\":10,"
        "\"memory_max\":0,"
        "\"relays\":[],\"oldest\":[]}"};
    char *merged = admin_merge(STORE_SCRIPT_overview, views(texts, 3), 3);

    (void)state;
    assert_string_equal(
        merged,
        "{\"at\":9,\"server\":\"a\",\"entries\":7,\"pending\":7,\"errors\":17,\"memory\":30,"
        "\"memory_max\":1,\"relays\":[{\"name\":\"r\"}],\"sinks\":[{\"name\":\"sql\"}],"
        "\"oldest\":[{\"id\":\"a\",\"since\":1},{\"id\":\"b\",\"since\":2},"
        "{\"id\":\"c\",\"since\":3}]}");
    free(merged);
}

static void
test_errors_are_one_page_newest_first(void **state)
{
    char texts[2][4096] = {"[", "["};
    const char *const pages[] = {texts[0], texts[1]};
    char *merged;
    size_t rows = 0;

    (void)state;
    for (int i = 40; i > 0; i--) {
        size_t len = strlen(texts[i % 2]);

        snprintf(texts[i % 2] + len, sizeof(texts[0]) - len, "%s{\"entry\":\"%d-%d\"}%s",
                 len == 1 ? "" : ",", i * 9, i % 2, i <= 2 ? "]" : "");
    }
    merged = admin_merge(STORE_SCRIPT_errors, views(pages, 2), 2);
    assert_non_null(merged);
    assert_memory_equal(merged, "[{\"entry\":\"360-0\"},{\"entry\":\"351-1\"},", 37);
    for (const char *at = strstr(merged, "entry"); at != NULL; at = strstr(at + 1, "entry"))
        rows++;
    assert_int_equal(rows, 20);
    assert_non_null(strstr(merged, "{\"entry\":\"189-1\"}]"));
    free(merged);
}

static void
test_invalid_reply_is_rejected(void **state)
{
    const char *const pages[] = {"[]", "{}"}, *const missing[] = {NULL, NULL},
                      *const broken[] = {"["};

    (void)state;
    assert_null(admin_merge(STORE_SCRIPT_errors, views(pages, 2), 2));
    assert_null(admin_merge(STORE_SCRIPT_errors, views(missing, 2), 2));
    assert_null(admin_merge(STORE_SCRIPT_errors, views(broken, 1), 1));
    assert_null(admin_merge(STORE_SCRIPT_overview, views(pages, 2), 2));
}

static void
test_latest_is_one_page_newest_first(void **state)
{
    char texts[2][4096] = {"[", "["};
    const char *const pages[] = {texts[0], texts[1]};
    char *merged;

    (void)state;
    for (int i = 40; i > 0; i--)
        for (int k = 0; k < 2; k++)
            snprintf(texts[k] + strlen(texts[k]), sizeof(texts[k]) - strlen(texts[k]),
                     "%s{\"entry\":\"%d-%d\"}", i < 40 ? "," : "", i, k);
    for (int k = 0; k < 2; k++)
        snprintf(texts[k] + strlen(texts[k]), sizeof(texts[k]) - strlen(texts[k]), "]");
    merged = admin_merge(STORE_SCRIPT_latest, views(pages, 2), 2);
    assert_memory_equal(merged, "[{\"entry\":\"40-1\"},{\"entry\":\"40-0\"},{\"entry\":\"39-1\"}",
                        50);
    assert_non_null(strstr(merged, "\"16-0\"}]"));
    free(merged);
}

static void
test_user_is_merged_from_all_shards(void **state)
{
    const char *const texts[] = {
        "{\"at\":9,\"pending\":1,\"relays\":[\"r\"],\"oldest\":[{\"id\":\"b\",\"since\":2}]}",
        "{\"at\":8,\"pending\":2,\"relays\":[],\"oldest\":[{\"id\":\"a\",\"since\":1}]}"};
    const char *const bad[] = {texts[0], "[]"};
    char *merged = admin_merge(STORE_SCRIPT_user, views(texts, 2), 2);

    (void)state;
    assert_string_equal(merged,
                        "{\"at\":9,\"pending\":3,\"relays\":[\"r\"],\"oldest\":[{\"id\":\"a\","
                        "\"since\":1},{\"id\":\"b\",\"since\":2}]}");
    free(merged);
    assert_null(admin_merge(STORE_SCRIPT_user, views(bad, 2), 2));
}

static void
test_shard_without_a_reply_is_omitted(void **state)
{
    const char *const pages[] = {"[{\"entry\":\"2-0\"}]", NULL, "[{\"entry\":\"3-2\"}]"};
    const char *const overviews[] = {
        NULL, "{\"at\":8,\"server\":\"b\",\"entries\":2,\"pending\":2,\"errors\":7,\"memory\":20,"
              "\"memory_max\":1,\"relays\":[],\"oldest\":[]}"};
    const char *const users[] = {
        NULL, "{\"at\":8,\"pending\":2,\"relays\":[],\"oldest\":[{\"id\":\"a\",\"since\":1}]}"};
    char *errors = admin_merge(STORE_SCRIPT_errors, views(pages, 3), 3);
    char *overview = admin_merge(STORE_SCRIPT_overview, views(overviews, 2), 2);
    char *user = admin_merge(STORE_SCRIPT_user, views(users, 2), 2);

    (void)state;
    assert_string_equal(errors, "[{\"entry\":\"3-2\"},{\"entry\":\"2-0\"}]");
    /* without shard 0 the relays and sinks are unknown */
    assert_string_equal(overview,
                        "{\"at\":8,\"entries\":2,\"pending\":2,\"errors\":7,\"memory\":20,"
                        "\"memory_max\":1,\"relays\":null,\"sinks\":null,\"oldest\":[]}");
    assert_string_equal(user, "{\"at\":8,\"pending\":2,\"relays\":null,"
                              "\"oldest\":[{\"id\":\"a\",\"since\":1}]}");
    free(errors);
    free(overview);
    free(user);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latest_is_one_page_newest_first),
        cmocka_unit_test(test_user_is_merged_from_all_shards),
        cmocka_unit_test(test_overviews_are_summed),
        cmocka_unit_test(test_errors_are_one_page_newest_first),
        cmocka_unit_test(test_invalid_reply_is_rejected),
        cmocka_unit_test(test_shard_without_a_reply_is_omitted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
