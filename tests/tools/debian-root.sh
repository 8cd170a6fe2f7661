#!/usr/bin/env bash
# debian-root.sh: creates a Debian root of another release in a directory and runs commands there.
#
#   debian-root.sh make DIR [PACKAGE..]          creates a minimal Debian 13 with packages, if missing (DEBIAN_SUITE=bookworm: Debian 12)
#   debian-root.sh extend FROM DIR PACKAGE..     copies FROM to DIR and adds packages, unless DIR is up to date
#   debian-root.sh copy FROM DIR                 replaces DIR by a copy of FROM
#   debian-root.sh run DIR COMMAND..             runs COMMAND as root in it
#   debian-root.sh remove DIR                    removes DIR
#
# Needs root, mmdebstrap and the mirror of this machine's apt. A package written as NAME/unpacked is unpacked without
# its dependencies. /proc, /sys and /dev are mounted in a private mount namespace: the mounts end with the command, and
# removing DIR removes nothing else. If mounts are not permitted, the command runs without them.
set -euo pipefail
# shellcheck source=relay/tools/lib.sh
. "$(dirname "$0")/../../relay/tools/lib.sh"

suite=${DEBIAN_SUITE:-trixie}
from=
as=

# dpkg skips fsync and documents, except clairon's documents.
dpkg_options=(force-unsafe-io path-exclude=/usr/share/{doc,info,lintian,locale,man}/'*' path-include='*clairon*')

# The mirror of this machine's apt.
mirror() {
    local VERSION_CODENAME found
    . /etc/os-release
    # shellcheck disable=SC2016
    found=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        awk -v mine="$VERSION_CODENAME" '$1 == mine { print $2; exit }')
    case $found in
        mirror+file:*) found=$(grep -m1 -oE '^https?://[^[:blank:]]+' "${found#mirror+file:}") ;;
        http://* | https://*) ;;
        *) found= ;;
    esac
    echo "${found:-http://deb.debian.org/debian}"
}

proxies() { apt-config dump 2>/dev/null | grep -iE '^Acquire::(https?)(::.*)?::Proxy' || true; }

# Copies this machine's network configuration: resolver, certificates, proxies.
copy_network() {
    local file
    for file in /etc/resolv.conf /etc/hosts; do
        [ ! -e "$file" ] || cp -L --remove-destination "$file" "$root$file"
    done
    mkdir -p "$root/etc/ssl/certs"
    [ ! -e /etc/ssl/certs/ca-certificates.crt ] ||
        cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    proxies >"$root/etc/apt/apt.conf.d/80this-machine"
}

# Creates a minimal Debian. It is cached as a tar file, so that further roots are created in a second. Concurrent
# callers wait for it.
make_base() {
    local kept=${root%/*}/$suite-base.tar
    exec 8>"$kept.lock"
    flock 8
    if [ ! -s "$kept" ]; then
        print_line "# mmdebstrap of Debian $suite, cached in $kept"
        quietly mmdebstrap --variant=minbase --format=tar "${dpkg_options[@]/#/--dpkgopt=}" \
            --aptopt="Acquire::Languages \"none\"; $(proxies)" "$suite" "$kept.new" "$(mirror)" ||
            die "mmdebstrap of Debian $suite failed from $(mirror)"
        mv "$kept.new" "$kept"
    fi
    exec 8>&-
    rm -rf "$root"
    mkdir -p "$root"
    tar -C "$root" -xpf "$kept"
    # Prevents services from starting.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    mkdir -p "$root/etc/postgresql-common"
    echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
    copy_network
}

quietly() {
    local log status=0
    log=$(mktemp)
    "$@" </dev/null >"$log" 2>&1 || status=$?
    [ "$status" = 0 ] || tail -15 "$log" >&2
    rm -f "$log"
    return "$status"
}

apt_in_root() {
    quietly run_in_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 \
        -o Dpkg::Use-Pty=0 "$@"
}

add_packages() {
    local name whole=() unpacked=()
    print_line "# $# packages for ${root##*/}: $*" | cut -c1-100
    for name in "$@"; do
        case $name in
            */unpacked) unpacked+=("${name%/unpacked}") ;;
            *) whole+=("$name") ;;
        esac
    done
    [ -n "$from" ] || apt_in_root update || die "could not refresh the package lists of $suite"
    apt_in_root install -y --no-install-recommends "${whole[@]}" || die "could not install ${whole[*]}"
    if [ ${#unpacked[@]} -gt 0 ]; then
        # shellcheck disable=SC2016
        quietly run_in_root sh -ec 'cd /var/tmp; apt-get -q download "$@"
            for each in *.deb; do dpkg-deb -x "$each" /; done; rm *.deb' - "${unpacked[@]}" ||
            die "could not unpack ${unpacked[*]}"
    fi
    run_in_root apt-get clean
}

# Packages replace files in /usr by renaming, so both roots can have the same ones.
copy_root() {
    rm -rf "$root"
    mkdir -p "$root"
    tar -C "$from" --exclude=./usr -c . | tar -C "$root" -xp
    cp -al "$from/usr" "$root/usr"
}

make_root() {
    local wanted="$suite $*"
    [ -z "$from" ] || wanted+=" after $(stat -c %y "$from.made")"
    [ "$(cat "$root.made" 2>/dev/null)" != "$wanted" ] || return 0
    rm -f "$root.made"
    mkdir -p "$(dirname "$root")"
    if [ -n "$from" ]; then copy_root; else make_base; fi
    [ $# = 0 ] || add_packages "$@"
    echo "$wanted" >"$root.made"
}

# Uses private mounts if mounting a tmpfs in a namespace succeeds. The devices are this machine's, in a separate /dev,
# so that symbolic links created there do not appear in this machine's /dev.
run_in_root() {
    if unshare --mount --propagation private mount -t tmpfs none "$root/proc" 2>/dev/null; then
        # shellcheck disable=SC2016
        $as unshare --mount --propagation private sh -ec 'root=$1; shift
            for each in proc sys; do mount --rbind "/$each" "$root/$each"; done
            mount -t tmpfs -o mode=755 none "$root/dev"
            cd "$root/dev"
            mkdir pts shm
            ln -s pts/ptmx ptmx
            ln -s /proc/self/fd fd
            ln -s fd/0 stdin
            ln -s fd/1 stdout
            ln -s fd/2 stderr
            mount -t devpts -o newinstance,mode=620,gid=5,ptmxmode=666 none pts
            for each in null zero full random urandom tty shm; do
                [ -e "/dev/$each" ] || continue
                [ -d "/dev/$each" ] || : >"$each"
                mount --rbind "/dev/$each" "$each"
            done
            exec chroot "$root" "$@"' - "$root" "$@"
    else
        $as chroot "$root" "$@"
    fi
}

[ $# -ge 2 ] || die "usage: debian-root.sh make|extend|copy|run|remove DIR .."
[ "$(id -u)" = 0 ] || die "needs root"
verb=$1 root=$(realpath -m "$2")
shift 2
export LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
case $verb in
    make) make_root "$@" ;;
    extend | copy)
        from=$root root=$(realpath -m "$1")
        shift
        if [ "$verb" = copy ]; then copy_root; else make_root "$@"; fi
        ;;
    run)
        as="exec" # the command replaces this process, and so receives its signals
        run_in_root "$@"
        ;;
    remove) rm -rf "$root" "$root.made" ;;
    *) die "unknown verb \"$verb\"; valid: make, extend, copy, run, remove" ;;
esac
