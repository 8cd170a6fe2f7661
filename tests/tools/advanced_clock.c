/*
 * advanced_clock.c: a library for LD_PRELOAD that advances the clocks of a process. The file of
 * CLAIRON_TEST_CLOCK has the seconds, as a 64-bit number. A test changes it while the process runs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *seconds;

__attribute__((constructor)) static void
map_seconds(void)
{
    const char *file = getenv("CLAIRON_TEST_CLOCK");
    int fd = file != NULL ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof(*seconds), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED)
        abort();
    seconds = at;
}

int
clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, ret_time);

    /* Not the CPU times of processes and threads. */
    if (failed == 0 && clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID &&
        clock >= 0 && seconds != NULL)
        ret_time->tv_sec += *seconds;
    return failed;
}

int
gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *ret_time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t
time(time_t *ret_time)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (ret_time != NULL)
        *ret_time = now.tv_sec;
    return now.tv_sec;
}
