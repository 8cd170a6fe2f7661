/* state_changes.h: checks whether a state change aborts. */
#ifndef CLAIRON_TESTS_UNIT_STATE_CHANGES_H
#define CLAIRON_TESTS_UNIT_STATE_CHANGES_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Creates an object in state `from`, changes its state to `to` and returns the new state. */
typedef int change_state(int from, int to);

/* Changes the state in a child process. False if the child aborted. */
static inline bool
is_legal(change_state *change, int from, int to)
{
    int status = -1;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        _exit(change(from, to) != to);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGABRT);
        return false;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return true;
}

#endif
