/* workers.c: several worker processes behind one listening socket, and their supervisor. */
#include "daemon/daemon.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "gate/gate.h"

#define RESTART_PAUSE_S 1 /* prevents a busy loop if a worker dies immediately */
#define STALL_US 3000000  /* the supervisor checks each second */

struct worker {
    pid_t pid;        /* 0: not running */
    int64_t start_us; /* time of the next start; monotonic */
    bool is_restart;  /* not the first process of this worker */
    struct stats *stats;
};

/* Memory that the supervisor and its workers share. */
struct shared_memory {
    struct relay_shared relay; /* workers are signaled after a change of is_realtime_off */
    struct stats stats[CONFIG_WORKERS_MAX];
};

struct workers {
    struct config *config;
    pid_t supervisor;
    struct gate_sockets sockets;
    int count;
    struct worker each[CONFIG_WORKERS_MAX];
    sigset_t watched;
    struct shared_memory *shared;
    bool is_stopping;
    int64_t unlisten_us; /* time at which a stopping supervisor closes its sockets; monotonic */
    int exit_code;
    int64_t watchdog_us; /* 0: the service manager has no watchdog */
    int64_t checked_us;  /* time of the last check for stuck workers */
};

/* Only the first worker reads the slot. */
static bool
runs_feed(const struct workers *workers, const struct worker *worker)
{
    return worker == &workers->each[0] && (workers->config->relay.roles & CONFIG_ROLE_FEED) != 0;
}

static int
run_worker(const struct workers *workers, const struct worker *worker)
{
    struct config config = *workers->config;

    /* Makes the worker drain if its supervisor dies. */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != workers->supervisor)
        return RELAY_EXIT_FAILED;
    service_detach();
    stats_reset_gauges(worker->stats);
    worker->stats->is_dead = false;
    if (worker != &workers->each[0])
        config.relay.roles &= ~(unsigned)(CONFIG_ROLE_FEED | CONFIG_ROLE_SINK);
    return relay_run(&config, worker->stats, workers->sockets, workers->supervisor,
                     &workers->shared->relay);
}

static void
start(struct workers *workers, struct worker *worker)
{
    pid_t pid;

    worker->stats->heartbeat_us = clock_monotonic_us();
    pid = fork();
    if (pid == 0)
        _exit(run_worker(workers, worker));
    if (pid < 0)
        log_error("workers", "could not start a worker", LOG_TEXT("error", strerror(errno)));
    worker->pid = pid > 0 ? pid : 0;
    worker->start_us = clock_monotonic_us() + RESTART_PAUSE_S * 1000000;
}

static void
start_due(struct workers *workers)
{
    int64_t now_us = clock_monotonic_us();

    for (int i = 0; i < workers->count; i++)
        if (workers->each[i].pid == 0 && workers->each[i].start_us <= now_us)
            start(workers, &workers->each[i]);
}

static void
signal_all(const struct workers *workers, int signal)
{
    for (int i = 0; i < workers->count; i++)
        if (workers->each[i].pid != 0)
            kill(workers->each[i].pid, signal);
}

static void
unlisten(struct workers *workers)
{
    gate_unlisten(workers->config, workers->sockets);
    workers->sockets = GATE_NO_SOCKETS;
}

/* After gate.notice, the supervisor closes its sockets, before the workers close theirs. */
static void
unlisten_if_due(struct workers *workers)
{
    if (workers->is_stopping && clock_monotonic_us() >= workers->unlisten_us)
        unlisten(workers);
}

static void
stop(struct workers *workers, int exit_code)
{
    int signal = workers->is_stopping ? SIGINT : SIGTERM;

    if (!workers->is_stopping) {
        workers->is_stopping = true;
        workers->unlisten_us = clock_monotonic_us() + workers->config->gate.notice_ms * 1000;
        service_notify_stopping(workers->config);
        unlisten_if_due(workers);
    }
    signal_all(workers, signal);
    workers->exit_code = exit_code;
}

static void
on_ended(struct workers *workers, struct worker *worker, int status)
{
    bool has_failed = WIFEXITED(status) && WEXITSTATUS(status) == RELAY_EXIT_FAILED;
    bool is_rejected = WIFEXITED(status) && WEXITSTATUS(status) == RELAY_EXIT_REJECTED;
    bool was_restart = worker->is_restart;
    int pid = (int)worker->pid;

    worker->pid = 0;
    worker->is_restart = true;
    worker->stats->is_dead = true;
    if (runs_feed(workers, worker))
        workers->shared->relay.feed.availability = FEED_DOWN;
    if (workers->is_stopping)
        return;
    if (is_rejected) {
        stop(workers, RELAY_EXIT_REJECTED);
    } else if (has_failed && !was_restart) {
        log_error("workers", "worker failed to start, stopping all", LOG_INT("pid", pid));
        stop(workers, RELAY_EXIT_FAILED);
    } else if (has_failed) {
        /* A start fails while a certificate is being replaced. The other workers serve clients. */
        log_error("workers", "worker failed to start, starting another", LOG_INT("pid", pid));
    } else if (WIFSIGNALED(status)) {
        log_error("workers", "worker was killed, starting another", LOG_INT("pid", pid),
                  LOG_INT("signal", WTERMSIG(status)));
    } else {
        log_warn("workers", "worker exited, starting another", LOG_INT("pid", pid));
    }
}

static void
reap(struct workers *workers)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < workers->count; i++)
            if (workers->each[i].pid == pid)
                on_ended(workers, &workers->each[i], status);
}

static bool
any_is_running(const struct workers *workers)
{
    for (int i = 0; i < workers->count; i++)
        if (workers->each[i].pid != 0)
            return true;
    return false;
}

/* The supervisor has no store: a worker stores the act. */
static void
keep_switch(struct workers *workers, bool on)
{
    struct relay_switches *switches = &workers->shared->relay.switches;
    const unsigned added = switches->added;

    if (added - __atomic_load_n(&switches->popped, __ATOMIC_SEQ_CST) >= RELAY_SWITCHES_MAX) {
        log_warn("workers", "audit queue full: the act is only in the log");
        return;
    }
    switches->each[added % RELAY_SWITCHES_MAX].at_us = clock_wall_us();
    switches->each[added % RELAY_SWITCHES_MAX].on = on;
    __atomic_store_n(&switches->added, added + 1, __ATOMIC_SEQ_CST);
}

/*
 * Pending signals are delivered in order of their numbers, so SIGUSR1 discards a pending SIGUSR2:
 * off is the safe choice.
 */
static void
signal_realtime_switch(struct workers *workers, int signal)
{
    const struct timespec now = {0};
    sigset_t on;

    sigemptyset(&on);
    sigaddset(&on, SIGUSR2);
    if (signal == SIGUSR1)
        (void)sigtimedwait(&on, NULL, &now);
    if (signal != RELAY_SIGNAL_SWITCHED) {
        workers->shared->relay.is_realtime_off = signal == SIGUSR1;
        log_audit("signal", "realtime", signal == SIGUSR1 ? "off" : "on");
        keep_switch(workers, signal == SIGUSR2);
    }
    signal_all(workers, SIGUSR1);
}

static void
forward(struct workers *workers, int signal)
{
    if (signal == SIGUSR1 || signal == SIGUSR2 || signal == RELAY_SIGNAL_SWITCHED) {
        signal_realtime_switch(workers, signal);
        return;
    }
    if (signal == SIGHUP) {
        char error[CONFIG_ERROR_MAX];

        service_notify_reloading();
        /* for workers that start later; running workers reload the key themselves, and log it */
        (void)config_reload_key(workers->config, error);
    }
    signal_all(workers, signal);
    if (signal == SIGHUP)
        service_notify("READY=1");
}

/*
 * If the service manager has a watchdog, kills workers whose loop is stuck; they are then
 * restarted. After a suspension of the supervisor, all heartbeats are reset first.
 */
static void
feed_watchdog(struct workers *workers)
{
    int64_t now_us = clock_monotonic_us();
    /* A suspended machine or container also suspends the workers. */
    bool was_suspended = now_us - workers->checked_us > STALL_US;

    workers->checked_us = now_us;
    if (workers->watchdog_us == 0)
        return;
    for (int i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->each[i];

        if (was_suspended)
            worker->stats->heartbeat_us = now_us;
        if (worker->pid == 0 || now_us - worker->stats->heartbeat_us <= 2 * workers->watchdog_us)
            continue;
        log_error("workers", "worker does not respond, killing it", LOG_INT("pid", worker->pid));
        kill(worker->pid, SIGKILL);
    }
    service_notify("WATCHDOG=1");
}

/* Waits for a signal, for at most a second. Returns it, or -1. */
static int
next_signal(const struct workers *workers)
{
    int64_t left_us = workers->unlisten_us - clock_monotonic_us();
    struct timespec timeout = {.tv_sec = 1};

    if (left_us > 0 && left_us < 1000000)
        timeout = (struct timespec){.tv_nsec = left_us * 1000};
    return sigtimedwait(&workers->watched, NULL, &timeout);
}

static void
supervise(struct workers *workers)
{
    while (!workers->is_stopping || any_is_running(workers)) {
        int signal;

        if (!workers->is_stopping)
            start_due(workers);
        signal = next_signal(workers);
        if (signal == SIGTERM || signal == SIGINT)
            stop(workers, workers->exit_code);
        else if (signal > 0 && signal != SIGCHLD)
            forward(workers, signal);
        reap(workers);
        unlisten_if_due(workers);
        feed_watchdog(workers);
    }
    unlisten(workers);
}

static struct relay_shared
new_relay_shared(const struct config *config)
{
    bool has_feed = (config->relay.roles & CONFIG_ROLE_FEED) != 0;

    return (struct relay_shared){.feed.availability = has_feed ? FEED_DOWN : FEED_OFF};
}

static struct shared_memory *
share(const struct config *config)
{
    const int count = config->gate.workers;
    struct shared_memory *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        return NULL;
    shared->relay = new_relay_shared(config);
    for (int i = 0; i < count; i++) {
        shared->stats[i].all = shared->stats;
        shared->stats[i].all_count = count;
        shared->stats[i].is_dead = true; /* until it is started */
    }
    return shared;
}

static int
run_several(struct config *config, struct gate_sockets sockets)
{
    struct workers workers = {.config = config,
                              .supervisor = getpid(),
                              .sockets = sockets,
                              .count = config->gate.workers,
                              .shared = share(config),
                              .watchdog_us = service_watchdog_us()};
    const int watched[] = {
        SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, RELAY_SIGNAL_SWITCHED};

    if (workers.shared == NULL) {
        log_error("workers", "could not allocate shared memory",
                  LOG_TEXT("error", strerror(errno)));
        gate_unlisten(config, sockets);
        return RELAY_EXIT_FAILED;
    }
    for (int i = 0; i < workers.count; i++)
        workers.each[i].stats = &workers.shared->stats[i];
    sigemptyset(&workers.watched);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        sigaddset(&workers.watched, watched[i]);
    sigprocmask(SIG_BLOCK, &workers.watched, NULL);
    log_info("workers", "starting workers", LOG_INT("count", workers.count),
             LOG_INT("pid", getpid()));
    start_due(&workers);
    service_notify("READY=1");
    supervise(&workers);
    munmap(workers.shared, sizeof(*workers.shared));
    return workers.exit_code;
}

int
workers_run(struct config *config)
{
    bool has_gate = (config->relay.roles & CONFIG_ROLE_GATE) != 0;
    struct relay_shared shared = new_relay_shared(config);
    struct stats stats = {0};
    struct gate_sockets sockets = GATE_NO_SOCKETS;
    sigset_t blocked;

    /* These would kill the process before their handlers are installed. */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGHUP);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    /* A parent that ignores SIGCHLD passes this on, and waitpid would then find no child. */
    signal(SIGCHLD, SIG_DFL);
    if (gate_listen(config, &sockets) != RC_OK)
        return RELAY_EXIT_FAILED;
    if (has_gate && config->gate.workers > 1)
        return run_several(config, sockets);
    return relay_run(config, &stats, sockets, 0, &shared);
}
