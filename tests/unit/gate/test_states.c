/* test_states.c: a request and a WebSocket change only to states that their headers list. */
#include "gate/http/request.h"
#include "gate/net/gate_shared.h"
#include "gate/ws/websocket.h"
#include "tests/unit/state_changes.h"

static int
set_request(int from, int to)
{
    struct gate gate = {.stats = NULL};
    struct gate_request request = {.gate = &gate, .state = (enum gate_request_state)from};

    gate_request_set_state(&request, (enum gate_request_state)to);
    return (int)request.state;
}

static int
set_websocket(int from, int to)
{
    struct gate gate = {.stats = NULL};
    struct conn conn = {.gate = &gate};
    struct websocket ws = {.conn = &conn, .state = (enum websocket_state)from};

    websocket_set_state(&ws, (enum websocket_state)to);
    return (int)ws.state;
}

static void
request_becomes_a_stream_or_receives_a_response(void **state)
{
    (void)state;
    assert_true(is_legal(set_request, GATE_REQUEST_READING, GATE_REQUEST_OPEN));
    assert_true(is_legal(set_request, GATE_REQUEST_READING, GATE_REQUEST_WAITING));
    assert_true(is_legal(set_request, GATE_REQUEST_WAITING, GATE_REQUEST_WAITING));
    assert_true(is_legal(set_request, GATE_REQUEST_WAITING, GATE_REQUEST_OPEN));
    assert_true(is_legal(set_request, GATE_REQUEST_OPEN, GATE_REQUEST_ENDING));
    assert_true(is_legal(set_request, GATE_REQUEST_ENDING, GATE_REQUEST_LINGERING));
}

static void
request_receives_one_response(void **state)
{
    (void)state;
    for (int to = GATE_REQUEST_READING; to <= GATE_REQUEST_ENDING; to++) {
        assert_false(is_legal(set_request, GATE_REQUEST_ENDING, to));
        assert_false(is_legal(set_request, GATE_REQUEST_LINGERING, to));
    }
    assert_false(is_legal(set_request, GATE_REQUEST_OPEN, GATE_REQUEST_WAITING));
    assert_false(is_legal(set_request, GATE_REQUEST_OPEN, GATE_REQUEST_LINGERING));
}

static void
websocket_can_skip_states(void **state)
{
    (void)state;
    for (int from = WEBSOCKET_WAITING; from <= WEBSOCKET_CLOSED; from++)
        assert_true(is_legal(set_websocket, from, WEBSOCKET_CLOSED));
    assert_true(is_legal(set_websocket, WEBSOCKET_WAITING, WEBSOCKET_OPEN));
    assert_true(is_legal(set_websocket, WEBSOCKET_WAITING, WEBSOCKET_CLOSING));
    assert_true(is_legal(set_websocket, WEBSOCKET_OPEN, WEBSOCKET_CLOSING));
}

static void
websocket_never_returns_to_an_earlier_state(void **state)
{
    (void)state;
    for (int from = WEBSOCKET_WAITING; from <= WEBSOCKET_CLOSED; from++) {
        for (int to = WEBSOCKET_WAITING; to <= from && to < WEBSOCKET_CLOSED; to++)
            assert_false(is_legal(set_websocket, from, to));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_becomes_a_stream_or_receives_a_response),
        cmocka_unit_test(request_receives_one_response),
        cmocka_unit_test(websocket_can_skip_states),
        cmocka_unit_test(websocket_never_returns_to_an_earlier_state),
    };

    return cmocka_run_group_tests_name("states", tests, NULL, NULL);
}
