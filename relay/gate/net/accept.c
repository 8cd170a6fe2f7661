/* accept.c: accepts connections from the listening sockets. */
#include "gate/net/accept.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gate/net/conn.h"
#include "gate/net/gate_shared.h"

#define ACCEPTS_PER_TURN 16 /* another worker or the next iteration accepts more */
#define FULL_LOG_INTERVAL_US (60 * INT64_C(1000000))
#define PAUSE_S 0.1 /* time to wait for a free descriptor */

struct acceptor {
    struct gate *gate;
    struct ev_io acceptable;       /* gate.listen; fd -1: not open */
    bool accepts_clients;          /* gate_accept_clients was called */
    struct ev_io admin_acceptable; /* gate.admin_listen; fd -1: not open */
    struct ev_timer pause;
    int eviction_threshold; /* from this descriptor number on, idle connections are evicted */
    int64_t full_logged_us; /* monotonic; last time that EMFILE was logged */
};

static void
begin(struct acceptor *acceptor, int fd, bool is_admin)
{
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* fails on a Unix socket */
    if (fd >= acceptor->eviction_threshold)
        (void)conns_evict_oldest(acceptor->gate);
    conn_begin(acceptor->gate, fd, is_admin);
}

/*
 * The system assigns the lowest free number. So if a number reaches the threshold, only the
 * reserved descriptors are free.
 */
static int
eviction_threshold(void)
{
    struct rlimit limit;
    int max = INT_MAX;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < INT_MAX)
        max = (int)limit.rlim_cur;
    return max > 2 * GATE_DESCRIPTORS_SPARE ? max - GATE_DESCRIPTORS_SPARE : max / 2;
}

/* Logs at most once a minute, although accept is retried ten times a second. */
static void
log_full(struct acceptor *acceptor, int error)
{
    int64_t now_us = clock_monotonic_us();

    if (acceptor->full_logged_us != 0 && now_us - acceptor->full_logged_us < FULL_LOG_INTERVAL_US)
        return;
    acceptor->full_logged_us = now_us;
    log_warn("gate", "out of file descriptors: closing idle connections, accept paused",
             LOG_TEXT("error", strerror(error)),
             LOG_TEXT("hint", "raise LimitNOFILE (ulimit -n) or lower gate.max_connections"));
}

static void
resume_accept(struct acceptor *acceptor)
{
    if (acceptor->accepts_clients && acceptor->acceptable.fd >= 0)
        ev_io_start(acceptor->gate->loop, &acceptor->acceptable);
    if (acceptor->admin_acceptable.fd >= 0)
        ev_io_start(acceptor->gate->loop, &acceptor->admin_acceptable);
}

static void
pause_accept(struct acceptor *acceptor)
{
    ev_io_stop(acceptor->gate->loop, &acceptor->acceptable);
    ev_io_stop(acceptor->gate->loop, &acceptor->admin_acceptable);
}

static void
on_acceptable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct acceptor *acceptor = watcher->data;

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(watcher->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            begin(acceptor, fd, watcher == &acceptor->admin_acceptable);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* A later accept may fail although no connection is waiting. */
            if (i > 0)
                return;
            log_full(acceptor, errno);
            if (conns_evict_oldest(acceptor->gate))
                continue;
            pause_accept(acceptor);
            ev_timer_again(loop, &acceptor->pause);
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

static void
on_pause_over(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)events;
    ev_timer_stop(loop, timer);
    resume_accept(timer->data);
}

void
gate_accept_start(struct gate *gate, struct gate_sockets sockets)
{
    struct acceptor *acceptor = memory_new(sizeof(*acceptor));

    gate->acceptor = acceptor;
    acceptor->gate = gate;
    acceptor->eviction_threshold = eviction_threshold();
    ev_timer_init(&acceptor->pause, on_pause_over, 0., PAUSE_S);
    ev_init(&acceptor->acceptable, on_acceptable);
    ev_init(&acceptor->admin_acceptable, on_acceptable);
    ev_io_set(&acceptor->acceptable, sockets.clients, EV_READ);
    ev_io_set(&acceptor->admin_acceptable, sockets.admin, EV_READ);
    acceptor->pause.data = acceptor->acceptable.data = acceptor->admin_acceptable.data = acceptor;
    resume_accept(acceptor);
}

enum rc
gate_accept_clients(struct gate *gate)
{
    struct acceptor *acceptor = gate->acceptor;

    if (acceptor->accepts_clients)
        return RC_OK;
    if (gate_listen_start(gate->config->gate.listen, acceptor->acceptable.fd) != RC_OK)
        return RC_IO;
    acceptor->accepts_clients = true;
    resume_accept(acceptor);
    return RC_OK;
}

void
gate_accept_stop(struct gate *gate)
{
    if (gate->acceptor == NULL)
        return;
    ev_timer_stop(gate->loop, &gate->acceptor->pause);
    pause_accept(gate->acceptor);
}

void
gate_accept_free(struct gate *gate)
{
    if (gate->acceptor == NULL)
        return;
    gate_accept_stop(gate);
    free(gate->acceptor);
    gate->acceptor = NULL;
}
