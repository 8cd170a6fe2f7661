/* sweep.c: one timer that walks all connections and asks whose time is up. */
#include "gate/gate_request.h"

#include <linux/sockios.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"

#define SWEEP_MAX_MS 1000
#define SWEEP_MIN_MS 20
#define EXPIRING_MIN_US (2 * 1000000)
#define BYE_GRACE_US (2 * 1000000) /* for a full socket to take the bye */

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void
gate_expiry_begin(struct gate_expiry *expiry, const struct config *config, int64_t expires_s)
{
    int64_t end_us = expires_s * 1000000;
    int64_t fifth_us = (end_us - clock_wall_us()) / 5;
    int64_t early_us = fifth_us > EXPIRING_MIN_US ? fifth_us : EXPIRING_MIN_US;

    *expiry = (struct gate_expiry){
        .expires_s = expires_s,
        .told_at_us = end_us - smaller(early_us, config->delivery.expiring_ms * 1000)};
}

int
gate_expiry_check(struct gate_expiry *expiry, const struct config *config, int64_t wall_us,
                  char ret_line[GATE_EXPIRING_MAX])
{
    int64_t left_us = expiry->expires_s * 1000000 - wall_us;

    if (left_us + config->auth.leeway_ms * 1000 <= 0)
        return -1;
    if (expiry->is_told || wall_us < expiry->told_at_us)
        return 0;
    expiry->is_told = true;
    return snprintf(ret_line, GATE_EXPIRING_MAX, "{\"t\":\"expiring\",\"in\":%lld}",
                    left_us > 0 ? (long long)(left_us / 1000000) : 0);
}

static void
check_expiry(struct gate_conn *conn, int64_t wall_us)
{
    char line[GATE_EXPIRING_MAX];
    int len = gate_expiry_check(&conn->expiry, conn->gate->config, wall_us, line);

    if (len < 0)
        gate_conn_close(conn, GATE_CLOSE_EXPIRED, "the token has expired");
    else if (len > 0)
        gate_conn_say(conn, line, (size_t)len);
}

static void
check_life(struct gate_conn *conn, int64_t now_us)
{
    static const char PING[] = "{\"t\":\"ping\"}";
    const struct config *config = conn->gate->config;

    if (conn->pinged_us != 0) {
        if (now_us - conn->pinged_us > config->gate.pong_timeout_ms * 1000)
            gate_conn_close(conn, GATE_CLOSE_NO_PONG, "no answer to a ping");
        return;
    }
    if (now_us < conn->ping_due_us)
        return;
    conn->pinged_us = now_us;
    conn->ping_due_us = now_us + config->gate.ping_ms * 1000;
    gate_conn_say(conn, PING, sizeof(PING) - 1);
}

static void
check_open(struct gate_conn *conn, int64_t now_us, int64_t wall_us)
{
    const struct config *config = conn->gate->config;
    const char *slow = session_slow(conn->session, now_us);

    if (conn->unwritable_us != 0 && now_us - conn->unwritable_us > config->gate.slow_age_ms * 1000)
        slow = "the socket does not drain";
    if (slow != NULL)
        gate_conn_close(conn, GATE_CLOSE_SLOW, slow);
    else
        check_expiry(conn, wall_us);
    if (conn->state == GATE_CONN_OPEN)
        check_life(conn, now_us);
}

/*
 * Does the client still take what the socket holds? What a slow one was sent before stands in
 * front of the bye, and ending the connection would throw both away.
 */
static bool
is_taking(struct gate_conn *conn, int64_t now_us, int64_t age_us)
{
    const struct gate *gate = conn->gate;
    int left = 0;

    if (gate->draining || age_us > gate->config->gate.slow_age_ms * 1000 ||
        ioctl(conn->readable.fd, SIOCOUTQ, &left) != 0)
        return false;
    if (conn->state == GATE_CONN_CLOSED && left == 0)
        return false; /* it has all of it */
    if (left != conn->unsent) {
        conn->unsent = left;
        conn->taken_us = now_us;
    }
    return now_us - conn->taken_us <= BYE_GRACE_US;
}

static void
check_conn(struct gate_conn *conn, int64_t now_us, int64_t wall_us)
{
    int64_t age_us = now_us - conn->state_since_us;

    switch (conn->state) {
    case GATE_CONN_WAITING:
        if (age_us > conn->gate->config->gate.connect_timeout_ms * 1000)
            gate_conn_close(conn, GATE_CLOSE_NO_CONNECT, "no \"connect\" came in time");
        break;
    case GATE_CONN_OPEN:
        check_open(conn, now_us, wall_us);
        break;
    case GATE_CONN_CLOSING: /* the bye does not go out */
        gate_conn_detach(conn);
        if (age_us > BYE_GRACE_US && !is_taking(conn, now_us, age_us))
            gate_conn_kill(conn);
        break;
    case GATE_CONN_CLOSED: /* the client does not hang up */
        if (age_us > BYE_GRACE_US && !is_taking(conn, now_us, age_us))
            gate_conn_kill(conn);
        break;
    }
}

/* Outside of any callback of lws, so that main may close the gate from on_drained. */
static void
check_drained(struct gate *gate, int64_t now_us)
{
    void (*on_drained)(void *ctx) = gate->on_drained;

    if (!gate->draining || on_drained == NULL)
        return;
    if ((gate->conn_count > 0 || gate->requests != NULL) && now_us < gate->drain_until_us)
        return;
    gate->on_drained = NULL;
    log_info("gate", "drained, %d connections left", gate->conn_count);
    on_drained(gate->drained_ctx);
}

/* Added, not set: one that takes a dead worker's place counts on from where that one was. */
static void
count_turns(struct gate *gate)
{
    unsigned turns = ev_iteration(gate->loop);

    stats_add(gate->stats, STAT_GATE_TURNS, turns - gate->turns_counted);
    gate->turns_counted = turns;
}

static void
on_sweep(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct gate *gate = timer->data;
    struct gate_conn *conn;
    int64_t now_us = clock_monotonic_us();
    int64_t wall_us = clock_wall_us();

    (void)loop;
    (void)events;
    DL_FOREACH (gate->conns, conn)
        check_conn(conn, now_us, wall_us);
    gate_requests_sweep(gate, now_us, wall_us);
    gate_heads_sweep(gate, now_us);
    gate_heads_tls_sweep(gate, now_us);
    gate_memory_sweep(gate);
    count_turns(gate);
    check_drained(gate, now_us); /* the gate may be gone after this */
}

/* A quarter of the shortest time kept: no one is more than that late. */
static int64_t
sweep_ms(const struct config *config)
{
    int64_t ms = SWEEP_MAX_MS * 4;

    ms = smaller(ms, config->gate.ping_ms);
    ms = smaller(ms, config->gate.pong_timeout_ms);
    ms = smaller(ms, config->gate.connect_timeout_ms);
    ms = smaller(ms, config->gate.slow_age_ms);
    ms /= 4;
    return ms < SWEEP_MIN_MS ? SWEEP_MIN_MS : ms;
}

static void
sweep_every(struct gate *gate, int64_t ms)
{
    gate->sweep.repeat = (double)ms / 1000.0;
    ev_timer_again(gate->loop, &gate->sweep);
}

void
gate_timers_start(struct gate *gate)
{
    ev_init(&gate->sweep, on_sweep);
    gate->sweep.data = gate;
    sweep_every(gate, sweep_ms(gate->config));
}

void
gate_timers_hurry(struct gate *gate)
{
    sweep_every(gate, SWEEP_MIN_MS);
}

void
gate_timers_stop(struct gate *gate)
{
    ev_timer_stop(gate->loop, &gate->sweep);
}
