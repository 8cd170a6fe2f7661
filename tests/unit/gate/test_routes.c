/* test_routes.c: each route of the table is consistent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gate/routes.h"

#define BEGINS(text, with) (strncmp((text), (with), strlen(with)) == 0)

/* routes.c calls one of the two. */
static void
test_each_route_has_one_of_respond_and_handle(void **state)
{
    (void)state;
    for (const struct gate_route *route = GATE_ROUTES; route->path != NULL; route++)
        assert_true((route->respond != NULL) != (route->handle != NULL));
}

static const char *
method_of(const struct gate_route *route)
{
    if (route->is_delete)
        return "DELETE";
    return route->body_max > 0 ? "POST" : "GET";
}

/* The generator reads the table's text; this test reads the table. */
static void
test_each_route_is_in_the_document(void **state)
{
    char start[256];

    (void)state;
    for (const struct gate_route *route = GATE_ROUTES; route->path != NULL; route++) {
        snprintf(start, sizeof(start), "\"%s%s%s\":{", route->path,
                 route->suffix != NULL        ? "{id}"
                 : route->user_suffix != NULL ? "{user}"
                                              : "",
                 route->suffix != NULL        ? route->suffix
                 : route->user_suffix != NULL ? route->user_suffix
                                              : "");
        assert_non_null(strstr(gate_api_openapi, start));
    }
}

static void
test_only_post_and_delete_routes_have_a_body(void **state)
{
    (void)state;
    for (const struct gate_route *route = GATE_ROUTES; route->path != NULL; route++) {
        assert_non_null(strstr(route->methods, method_of(route)));
        assert_in_range(route->body_max, route->is_delete ? 1 : 0, 1024 * 1024);
        if (route->respond != NULL)
            assert_string_equal(route->methods, "GET, HEAD");
    }
}

static void
test_methods_of_a_path_are_unique(void **state)
{
    (void)state;
    for (const struct gate_route *route = GATE_ROUTES; route->path != NULL; route++) {
        for (const struct gate_route *other = route + 1; other->path != NULL; other++)
            assert_true(strcmp(route->path, other->path) != 0 ||
                        strcmp(method_of(route), method_of(other)) != 0 ||
                        (route->suffix != NULL && other->suffix != NULL &&
                         strcmp(route->suffix, other->suffix) != 0) ||
                        (route->user_suffix != NULL && other->user_suffix != NULL &&
                         strcmp(route->user_suffix, other->user_suffix) != 0));
    }
}

static void
test_streams_have_all_callbacks(void **state)
{
    (void)state;
    for (const struct gate_route *route = GATE_ROUTES; route->path != NULL; route++) {
        if (!route->is_stream)
            continue;
        assert_non_null(route->on_line);
        assert_non_null(route->on_sweep);
        assert_non_null(route->on_end);
    }
}

static void
test_console_requires_the_admin_claim(void **state)
{
    (void)state;
    for (const struct gate_route *route = GATE_ROUTES; route->path != NULL; route++) {
        bool is_console = BEGINS(route->path, "/console") || BEGINS(route->path, "/v1/console");

        assert_int_equal(route->is_console, is_console);
        if (!is_console)
            continue;
        assert_int_equal(route->side, GATE_LISTENER_ADMIN);
        if (route->handle != NULL)
            assert_true(route->claim == GATE_CLAIM_ADMIN ||
                        route->claim == GATE_CLAIM_ADMIN_AND_PUBLISH);
    }
}

static void
test_routes_that_read_headers_have_state(void **state)
{
    (void)state;
    for (const struct gate_route *route = GATE_ROUTES; route->path != NULL; route++) {
        if (route->read_headers != NULL)
            assert_true(route->state_bytes > 0 && route->free_state != NULL);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_route_has_one_of_respond_and_handle),
        cmocka_unit_test(test_each_route_is_in_the_document),
        cmocka_unit_test(test_only_post_and_delete_routes_have_a_body),
        cmocka_unit_test(test_methods_of_a_path_are_unique),
        cmocka_unit_test(test_streams_have_all_callbacks),
        cmocka_unit_test(test_console_requires_the_admin_claim),
        cmocka_unit_test(test_routes_that_read_headers_have_state),
    };

    return cmocka_run_group_tests_name("routes", tests, NULL, NULL);
}
