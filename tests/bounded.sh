# shellcheck shell=bash
# bounded.sh: runs a command with a time limit and stops it on Ctrl-C. Source it from bash.

# bounded SECONDS COMMAND..: runs COMMAND. At the limit it prints a failed test and stops COMMAND.
#
# The limit is for commands that hang. It is many times the usual duration, because the machine may be busy, but below
# 90 minutes, after which CI ends a job without any output.
#
# The command runs in a new session. Without a controlling terminal it cannot be stopped for reading
# from it or writing to it, and it is one process group, which timeout(1) signals as a whole. Ctrl-C
# reaches only the caller: it interrupts the command and then exits by the same signal, so that its
# callers, such as make, stop too.
bounded() {
    local seconds=$1 status=0 job caught='' signal
    shift
    setsid timeout --kill-after=60 "$seconds" "$@" </dev/null &
    job=$!
    for signal in INT TERM HUP; do
        # shellcheck disable=SC2064 # expand now
        trap "caught=$signal; kill -s INT $job 2>/dev/null" "$signal"
    done
    wait "$job" || status=$?
    while kill -0 "$job" 2>/dev/null; do # a signal interrupted wait
        wait "$job" || status=$?
    done
    if [ -n "$caught" ]; then
        end_group "$job"
        trap - INT TERM HUP
        kill -s "$caught" "$BASHPID"
    fi
    trap - INT TERM HUP
    if [ "$status" = 124 ] || [ "$status" = 137 ]; then
        echo "not ok - stopped after $seconds s: $*"
        end_group "$job"
    fi
    return "$status"
}

# end_group GROUP: waits for its signalled processes. Sends SIGTERM to background processes of
# scripts, which ignore SIGINT, and then SIGKILL.
end_group() {
    local waited=0
    while kill -0 -- "-$1" 2>/dev/null; do
        case $waited in
            100) kill -s TERM -- "-$1" 2>/dev/null ;;
            300) kill -s KILL -- "-$1" 2>/dev/null ;;
        esac
        waited=$((waited + 1))
        sleep 0.1
    done
}
