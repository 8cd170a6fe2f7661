#!/usr/bin/env bash
# engine.sh: a container engine for the tests of the images: podman and the clients of Docker, in a Debian 13 root.
#
#   engine.sh make DIR BASE           creates the root in DIR, with a copy of the root BASE as the image debian:13; exits with
#                                     status 3 if no container can be started in it
#   engine.sh run DIR COMMAND..       runs COMMAND in it, in /srv/clairon, with podman's interface for Docker
#   engine.sh build DIR COMMAND..     the same, but with the network of this machine, for package installations
#
# COMMAND has private namespaces of processes, mounts and, with `run`, network. When it ends, all containers end, and
# nothing of them is left outside DIR.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=relay/tools/lib.sh
. relay/tools/lib.sh

# catatonit is the init of `init: true`. node runs the client, and checks the chart.
packages=(podman runc netavark aardvark-dns catatonit nftables iproute2 docker-cli docker-compose ca-certificates python3-yaml nodejs node-typescript curl)

# Runs as the first process of its namespaces. A chroot would not do: `podman exec` would enter the root of the
# namespace instead of the container's. With an empty hierarchy of cgroups v2, no controller is required, and systemd
# starts in a container.
# shellcheck disable=SC2016
enter='root=$1; shift
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount --rbind /sys sys
mount -t cgroup2 none sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 none dev/shm
mount -t tmpfs -o mode=755 none run
pivot_root . mnt
umount -l mnt
exec env -i -C /srv/clairon HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    DOCKER_HOST=unix:///run/docker.sock DOCKER_BUILDKIT=0 /usr/local/bin/with-engine "$@"'

# Where the machine does not permit to raise limits, containers keep the limits of this process.
write_runtime() {
    cat >"$root/usr/local/bin/runc" <<'RUNC'
#!/bin/sh
for each; do
    case ${option:-} in
        --bundle) sed -i 's/"rlimits":\[[^]]*\]/"rlimits":[]/' "$each/config.json" ;;
        --process) sed -i 's/"rlimits":\[[^]]*\]/"rlimits":[]/' "$each" ;;
    esac
    option=$each
done
exec /usr/bin/runc "$@"
RUNC
    chmod 755 "$root/usr/local/bin/runc"
}

# Without systemd, podman does not run the health checks of containers.
write_helper() {
    cat >"$root/usr/local/bin/with-engine" <<'HELPER'
#!/bin/sh
ip link set lo up
podman system service --time 0 "$DOCKER_HOST" 2>/run/service.log &
while [ ! -S /run/docker.sock ]; do
    kill -0 $! || { cat /run/service.log; exit 1; }
    sleep 0.1
done
while sleep 1; do
    for each in $(podman ps -q); do podman healthcheck run "$each"; done
done >/dev/null 2>&1 &
"$@"
HELPER
    chmod 755 "$root/usr/local/bin/with-engine"
}

# configure NETWORK: the network namespace of new containers
configure() {
    mkdir -p "$root/etc/containers" "$root/srv/clairon"
    cat >"$root/etc/containers/containers.conf" <<CONF
[containers]
default_ulimits = []
pids_limit = 0
netns = "$1"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[engine.runtimes]
runc = ["/usr/local/bin/runc", "/usr/bin/runc"]
CONF
}

case ${1:-} in
    make)
        root=$(realpath -m "$2")
        tests/tools/debian-root.sh make "$root" "${packages[@]}"
        rm -rf "$root/var/lib/containers"
        rm -f "$root/usr/local/bin/runc"
        [ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge 1048576 ] || write_runtime
        write_helper
        # An image starts services, unlike a root.
        tar -C "$3" --exclude=./usr/sbin/policy-rc.d --exclude=./etc/postgresql-common -c . |
            "$0" build "$root" podman import -q --change 'CMD ["bash"]' - docker.io/library/debian:13 >/dev/null || exit 3
        "$0" run "$root" podman run --rm debian:13 true || exit 3
        ;;
    run | build)
        root=$(realpath -m "$2")
        verb=$1 private=(--net)
        shift 2
        if [ "$verb" = build ]; then
            private=()
            configure host
        else
            configure private
        fi
        exec unshare --mount --propagation private --pid --fork --kill-child "${private[@]}" sh -ec "$enter" - "$root" "$@"
        ;;
    *) die "usage: engine.sh make|run|build DIR .." ;;
esac
