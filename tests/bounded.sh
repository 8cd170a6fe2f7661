# shellcheck shell=bash
# bounded.sh: runs a command under a time limit, and ends it on Ctrl-C. Sourced by bash.

# bounded SECONDS COMMAND..: the command; past the limit a failed test, and the command is ended.
#
# The command has a session of its own. Without a controlling terminal it cannot be stopped for reading
# from it or writing to it, and it is one process group, which timeout(1) signals as a whole. Ctrl-C
# reaches the caller alone: it interrupts the command and then dies of the same signal, so that its
# callers, make among them, end too.
bounded() {
    local seconds=$1 status=0 job caught='' signal
    shift
    setsid timeout --kill-after=60 "$seconds" "$@" </dev/null &
    job=$!
    for signal in INT TERM HUP; do
        # shellcheck disable=SC2064 # the values of now
        trap "caught=$signal; kill -s INT $job 2>/dev/null" "$signal"
    done
    wait "$job" || status=$?
    while kill -0 "$job" 2>/dev/null; do # a signal ended the wait
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

# end_group GROUP: waits for its processes, which were signalled. SIGTERM is for those that a script started
# in the background, where SIGINT is ignored; SIGKILL for the rest.
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
