/* service.c: sends sd_notify(3) datagrams to the service manager. */
#include "daemon/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define SOCKET_VARIABLE "NOTIFY_SOCKET"
#define LINES_MAX 128
#define MARGIN_MS 10000 /* time to shut down all parts except client connections */

/* `name`: a path, or @name in Linux's abstract namespace. Returns the length; 0: invalid. */
static socklen_t
read_notify_address(const char *name, struct sockaddr_un *address)
{
    size_t len = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof(address->sun_path))
        return 0;
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, name, len);
    if (name[0] == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

void
service_notify(const char *lines)
{
    const char *name = getenv(SOCKET_VARIABLE);
    struct sockaddr_un address;
    socklen_t len;
    int fd;

    if (name == NULL || name[0] == '\0')
        return;
    len = read_notify_address(name, &address);
    if (len == 0) {
        log_warn("service", SOCKET_VARIABLE " must be an absolute path or @name",
                 LOG_TEXT("value", name));
        return;
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 ||
        sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (struct sockaddr *)&address, len) < 0)
        log_warn("service", "could not notify the service manager",
                 LOG_TEXT("error", strerror(errno)));
    if (fd >= 0)
        close(fd);
}

void
service_notify_reloading(void)
{
    char lines[LINES_MAX];

    snprintf(lines, sizeof(lines), "RELOADING=1\nMONOTONIC_USEC=%" PRId64, clock_monotonic_us());
    service_notify(lines);
}

void
service_notify_stopping(const struct config *config)
{
    char lines[LINES_MAX];

    snprintf(lines, sizeof(lines), "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRId64,
             (config->gate.notice_ms + config->gate.drain_ms + MARGIN_MS) * 1000);
    service_notify(lines);
}

int64_t
service_watchdog_us(void)
{
    const char *interval = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    char *end;
    long long us;

    if (getenv(SOCKET_VARIABLE) == NULL || interval == NULL)
        return 0;
    if (pid != NULL && strtoll(pid, NULL, 10) != getpid())
        return 0;
    errno = 0;
    us = strtoll(interval, &end, 10);
    return errno == 0 && *end == '\0' && us > 0 ? us / 2 : 0;
}

void
service_detach(void)
{
    unsetenv(SOCKET_VARIABLE);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}
