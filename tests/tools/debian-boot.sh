#!/usr/bin/env bash
# debian-boot.sh: boots systemd in a Debian root made by debian-root.sh, without a container engine, and runs commands there.
#
#   debian-boot.sh start DIR            boots DIR and waits until its services are started
#   debian-boot.sh run DIR COMMAND..    runs COMMAND as root in the booted DIR
#   debian-boot.sh stop DIR             ends it with all its processes
#
# The root needs the package systemd-sysv. It has separate processes, mounts, control groups and network: only loopback, so
# the ports of this machine are free, and apt cannot download. Needs root and a kernel with the unified hierarchy.
set -euo pipefail
# shellcheck source=relay/tools/lib.sh
. "$(dirname "$0")/../../relay/tools/lib.sh"

# Runs in new namespaces: mounts what systemd expects of a container manager, then becomes the first process.
first_process() {
    local name
    ip link set lo up
    mount --rbind "$root" "$root"
    cd "$root"
    mount -t proc proc proc
    mount -t sysfs sysfs sys
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount -t tmpfs -o mode=755 none run
    mount -t tmpfs -o mode=755 none dev
    for name in null zero full random urandom tty; do
        : >"dev/$name"
        mount --bind "/dev/$name" "dev/$name"
    done
    mkdir dev/pts dev/shm
    mount -t devpts -o newinstance,mode=620,gid=5,ptmxmode=666 none dev/pts
    mount -t tmpfs none dev/shm
    ln -s pts/ptmx dev/ptmx
    ln -s /proc/self/fd dev/fd
    # After chroot, units with PrivateUsers= could not create their user namespace.
    pivot_root . .
    umount -l .
    exec env -i container=clairon-test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /sbin/init
}

start() {
    local deadline=$((SECONDS + 120)) outer=''
    unshare --mount --pid --fork --uts --ipc --net --cgroup --propagation private "$0" first "$root" </dev/null >"$root.boot" 2>&1 8>&- 9>&- &
    outer=$!
    until [ -s "$root.pid" ] && run systemctl is-active -q multi-user.target 2>/dev/null; do
        if [ $SECONDS -ge $deadline ] || [ ! -d "/proc/$outer" ]; then
            cat "$root.boot" >&2
            die "systemd did not start in $root"
        fi
        cat "/proc/$outer/task/$outer/children" >"$root.pid"
        sleep 0.2
    done
}

run() {
    nsenter -t "$(($(<"$root.pid")))" --mount --pid --uts --ipc --net --cgroup --root env -i -C / LC_ALL=C.UTF-8 HOME=/root TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# The kernel kills all processes of the namespace with the first one.
stop() {
    [ ! -s "$root.pid" ] || kill -KILL "$(($(<"$root.pid")))" || true
    rm -f "$root.pid" "$root.boot"
}

[ $# -ge 2 ] || die "usage: debian-boot.sh start|run|stop DIR .."
verb=$1 root=$(realpath -m "$2")
shift 2
case $verb in
    start | run | stop) "$verb" "$@" ;;
    first) first_process ;;
    *) die "unknown verb \"$verb\"; valid: start, run, stop" ;;
esac
