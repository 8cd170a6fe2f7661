/* gate.c: the libwebsockets context: opening, its callbacks, draining, closing. */
#include "gate/gate.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/gate_request.h"
#include "hub/funnel.h"

#define REASON_MAX 256
/* lws keeps some bytes more for each header than a head has. */
#define HEADER_BYTES_MAX (GATE_HEAD_BYTES_MAX + 2048)
#define RX_BYTES 1             /* per connection; read.c reads past it */
#define TX_BYTES (1024 * 1024) /* what one send may take */

/* lws speaks of each client that misbehaves as of an error: for us it is a detail. */
static void
on_lws_log(int level, const char *line)
{
    size_t len = strlen(line);

    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == ' '))
        len--;
    log_debug("gate", "lws, level %d: %.*s", level, (int)len, line);
}

static int
on_lws_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct lws_context *context = wsi != NULL ? lws_get_context(wsi) : NULL;
    struct gate *gate = context != NULL ? lws_context_user(context) : NULL;
    struct gate_slot *slot = user;

    switch (reason) {
    case LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS:
        gate->tls = user;
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        gate_head_tls_done(wsi);
        return 0;
    case LWS_CALLBACK_HTTP:
        gate_head_tls_done(wsi);
        return gate_http_request(gate, wsi, &slot->request);
    case LWS_CALLBACK_HTTP_BODY:
        if (slot->request != NULL)
            gate_rest_take(slot->request, in, len);
        return 0;
    case LWS_CALLBACK_CLOSED_HTTP:
        if (slot != NULL && slot->request != NULL)
            gate_request_closed(slot->request);
        if (slot != NULL)
            slot->request = NULL;
        return 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        gate_head_tls_done(wsi);
        return gate_http_upgrade(gate, wsi);
    case LWS_CALLBACK_ESTABLISHED:
        return gate_ws_established(gate, wsi, &slot->conn);
    case LWS_CALLBACK_RECEIVE: /* what came before the upgrade was answered */
        return -1;
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return gate_ws_writable(slot->conn);
    case LWS_CALLBACK_CLOSED:
        if (slot != NULL && slot->conn != NULL)
            gate_ws_closed(slot->conn);
        return 0;
    default:
        return 0;
    }
}

/* The first is also what a client gets that names no subprotocol. */
const struct lws_protocols GATE_PROTOCOLS[] = {
    {.name = GATE_PROTOCOL,
     .callback = on_lws_event,
     .per_session_data_size = sizeof(struct gate_slot),
     .rx_buffer_size = RX_BYTES,
     .tx_packet_size = TX_BYTES},
    {0},
};

static struct token_rules
rules_of(const struct config *config)
{
    return (struct token_rules){
        .kind = config->auth.public_key_file != NULL ? TOKEN_KEY_PEM : TOKEN_KEY_HS256,
        .key = config->auth.key,
        .key_len = config->auth.key_len,
        .previous = config->auth.previous,
        .previous_len = config->auth.previous_len,
        .issuer = config->auth.issuer,
        .audience = config->auth.audience,
        .leeway_s = config->auth.leeway_ms / 1000,
    };
}

static enum rc
open_context(struct gate *gate)
{
    void *loops[1] = {gate->loop};
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN,
        .foreign_loops = loops,
        .user = gate,
        .max_http_header_data = HEADER_BYTES_MAX,
        .max_http_header_pool = GATE_HEADER_POOL,
        .pt_serv_buf_size = GATE_HEAD_BYTES_MAX + LWS_PRE, /* it takes a head as a whole */
        .options = LWS_SERVER_OPTION_LIBEV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
    };

    if (gate->config->gate.tls_cert != NULL)
        info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_log);
    gate->context = lws_create_context(&info);
    gate_memory_init();
    return gate->context != NULL ? RC_OK : RC_IO;
}

struct gate *
gate_open(struct ev_loop *loop, const struct config *config, struct hub *hub, struct stats *stats,
          const struct gate_health *health, struct gate_sockets sockets)
{
    struct gate *gate = memory_new(sizeof(*gate));
    char reason[REASON_MAX] = "libwebsockets did not start; is its libev plugin installed?";

    *gate = (struct gate){.loop = loop,
                          .config = config,
                          .hub = hub,
                          .stats = stats,
                          .opened_us = clock_monotonic_us(),
                          .health = *health,
                          .funnel = funnel_new(),
                          .requests_made = rates_new(),
                          .rules = rules_of(config)};
    if (hub != NULL)
        stats_set(stats, STAT_GATE_CONNECTIONS_MAX, (uint64_t)config->gate.max_connections);
    gate_timers_start(gate);
    gate_read_init(gate);
    gate_heads_init(gate);
    if (open_context(gate) == RC_OK &&
        gate_accept_start(gate, sockets, reason, sizeof(reason)) == RC_OK) {
        gate_note_certificate(gate);
        return gate;
    }
    log_error("gate", "could not serve %s: %s",
              hub != NULL ? config->gate.listen : config->gate.admin_listen, reason);
    gate_close(gate);
    return NULL;
}

/* Evenly over the window: they do not all come back at once. Polls stay, unless it is the end. */
static void
end_all(struct gate *gate, int code, const char *reason, int64_t window_ms)
{
    int64_t count = gate->conn_count + gate->stream_count;
    struct gate_conn *conn;
    struct gate_request *request;
    int64_t nth = 0;

    DL_FOREACH (gate->conns, conn)
        gate_conn_close_for(conn, code, reason, nth++ * window_ms / count);
    DL_FOREACH (gate->requests, request) {
        if (request->state == GATE_REQUEST_OPEN && (gate->draining || request->route->takes_ticket))
            request->route->end(request, code, reason, nth++ * window_ms / count);
    }
}

void
gate_drain(struct gate *gate, void (*on_drained)(void *ctx), void *ctx)
{
    int64_t window_ms = gate->config->gate.drain_ms;

    gate_accept_stop(gate);
    gate->draining = true;
    gate->drain_until_us = clock_monotonic_us() + window_ms * 1000;
    gate->on_drained = on_drained;
    gate->drained_ctx = ctx;
    log_info("gate", "draining %d connections", gate->conn_count);
    end_all(gate, GATE_CLOSE_RESTART, "this relay restarts", window_ms);
    gate_timers_hurry(gate);
}

void
gate_push_set(struct gate *gate, bool on)
{
    if (gate->is_push_off == !on)
        return;
    gate->is_push_off = !on;
    stats_set(gate->stats, STAT_GATE_PUSH_OFF, on ? 0 : 1);
    log_warn("gate", "push is %s", on ? "on again" : "off: WebSocket and SSE are refused");
    if (!on)
        end_all(gate, GATE_CLOSE_OVERLOADED, "push is turned off: use /v1/poll",
                gate->config->gate.drain_ms);
}

bool
gate_push_is_on(const struct gate *gate)
{
    return !gate->is_push_off;
}

void
gate_take_key(struct gate *gate)
{
    gate->rules = rules_of(gate->config);
}

void
gate_close(struct gate *gate)
{
    if (gate == NULL)
        return;
    gate_accept_stop(gate);
    gate_timers_stop(gate);
    gate_read_end(gate);
    gate_heads_close(gate);
    if (gate->context != NULL)
        lws_context_destroy(gate->context); /* calls CLOSED for what is open */
    while (gate->conns != NULL)
        gate_ws_closed(gate->conns);
    while (gate->requests != NULL)
        gate_request_closed(gate->requests);
    gate_publish_stop(gate);
    gate_sync_stop(gate);
    funnel_free(gate->funnel);
    rates_free(gate->requests_made);
    free(gate->admin_fds);
    free(gate);
}
