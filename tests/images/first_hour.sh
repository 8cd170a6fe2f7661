#!/usr/bin/env bash
# first_hour.sh: the Debian packages in a container with systemd, from their installation to the first delivered row.
#
#   first_hour.sh build     builds the packages in an image, and an image with systemd and the packages to install
#   first_hour.sh run       installs them without network, edits one file, and starts the relay
#
# tests/images/engine.sh runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

inside=(podman exec first-hour)
names="/packages/postgresql-17-clairon_*.deb /packages/clairon-relay_*.deb valkey-server curl"

build_images() {
    ok "make deb builds the packages in an image" docker build -q -t packages -f - . <<'END'
FROM debian:13
RUN apt-get update -q && apt-get install -y -q --no-install-recommends make
WORKDIR /src
COPY . .
RUN make -s deb
END
    ok "an image with systemd and the packages is built" docker build -q -t first-hour - <<END
FROM debian:13
RUN apt-get update -q && apt-get install -y -q --no-install-recommends systemd systemd-sysv dbus
COPY --from=packages /src/build/deb/*.deb /packages/
RUN apt-get install -y -q --no-install-recommends --download-only $names
CMD ["/sbin/init"]
END
}

as_postgres() { "${inside[@]}" runuser -u postgres -- "$@"; }
is_active() { "${inside[@]}" systemctl is-active "$@"; }
is_inactive() { ! is_active "$@"; }

configure_postgresql() {
    as_postgres psql -c "ALTER SYSTEM SET wal_level = 'logical'" -c "ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'" \
        -c 'ALTER SYSTEM SET output_plugin_libraries = clairon' &&
        "${inside[@]}" systemctl restart postgresql &&
        as_postgres psql -c 'CREATE DATABASE app' &&
        as_postgres psql -d app -c 'CREATE EXTENSION clairon' \
            -c "CREATE ROLE relay LOGIN REPLICATION PASSWORD 'relay-secret' IN ROLE clairon_relay"
}

configure_store() {
    # shellcheck disable=SC2016
    "${inside[@]}" sh -ec 'for each in "appendonly yes" "maxmemory 1gb" "maxmemory-policy noeviction"; do
        valkey-cli config set $each | grep -x OK
    done
    valkey-cli config rewrite | grep -x OK'
}

edit_configuration() {
    "${inside[@]}" sed -i 's/^conninfo = .*/& password=relay-secret/' /etc/clairon/relay.conf
}

add_row() {
    as_postgres psql -d app -c 'CREATE TABLE assignments (id int PRIMARY KEY, student_id text)' \
        -c 'ALTER TABLE assignments REPLICA IDENTITY FULL' \
        -c "SELECT clairon.watch('assignments', 'USER', 'student_id', ack_required => true)" \
        -c "INSERT INTO assignments VALUES (1, 'u1')"
}

# shellcheck disable=SC2016
receive_row() {
    "${inside[@]}" sh -c 'curl -s -H "Authorization: Bearer $(clairon token --sub u1 -c /etc/clairon/relay.conf)" \
        "http://127.0.0.1:8080/v1/poll?wait=10"' | tee /dev/stderr | grep '"student_id":"u1"'
}

is_ready() { "${inside[@]}" curl -sf http://127.0.0.1:8080/readyz; }
has_slot() { "${inside[@]}" curl -sf http://127.0.0.1:8080/readyz | grep '"feed":"streaming"'; }

doctor_finds_nothing() {
    "${inside[@]}" clairon doctor -c /etc/clairon/relay.conf | tee /dev/stderr | tail -1 | grep -x 'all checks passed'
}

relay_pid() { "${inside[@]}" systemctl show -P MainPID clairon-relay; }
relay_is_another() { [ "$(relay_pid)" != "$1" ] && is_ready; }

kill_relay() {
    local pid
    pid=$(relay_pid)
    "${inside[@]}" kill -9 "$pid" && wait_for relay_is_another "$pid"
}

first_hour() {
    podman run -d --name first-hour --systemd=always first-hour >/dev/null
    ok "systemd has started" wait_for "${inside[@]}" systemctl is-system-running
    ok "apt installs the packages" "${inside[@]}" sh -c "apt-get install -y -q --no-install-recommends $names"
    ok "PostgreSQL and the store run" is_active postgresql@17-main valkey-server
    ok "the relay does not run yet" is_inactive clairon-relay
    ok "PostgreSQL is configured" configure_postgresql
    ok "the store is configured" configure_store
    ok "one file is edited" edit_configuration
    ok "systemd starts the relay" "${inside[@]}" systemctl enable --now clairon-relay
    ok "the relay is ready" wait_for has_slot
    ok "a rule is set, and a row inserted" add_row
    ok "a client receives the row" wait_for receive_row
    ok "clairon doctor finds nothing" doctor_finds_nothing
    ok "systemd starts a killed relay again" kill_relay
    ok "systemd stops the relay" "${inside[@]}" systemctl stop clairon-relay
    ok "no unit has failed" is "$("${inside[@]}" systemctl --failed --plain --no-legend)" ""
    ok "the packages are removed" "${inside[@]}" apt-get purge -y -q clairon-relay postgresql-17-clairon
    podman rm -f -t 10 first-hour >/dev/null
}

is() { [ "$1" = "$2" ] || { print_line "got: $1"; return 1; }; }

case ${1:-} in
    build) build_images ;;
    run) first_hour ;;
    *) die "usage: first_hour.sh build|run" ;;
esac
