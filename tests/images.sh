#!/usr/bin/env bash
# images.sh: tests the container images, the compose file, the chart, and the packages in a container with systemd.
#
# tests/images/engine.sh runs podman and the clients of Docker in a Debian root. No registry is used: debian:13 is made
# from this machine's mirror, and a store from Debian has the names of the stores' images.
#
# Where no container can be started, tests/images/check.py executes the instructions of the Dockerfiles in Debian roots,
# and starts the services of docker/compose.yaml in them, with its mounts, users and capabilities. Debian's
# docker-compose validates the compose file. An engine's networks and name resolution are not tested then.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

scratch=$(realpath -m "$roots")/images

validate() {
    local tool=$roots/compose
    tests/tools/debian-root.sh make "$tool" docker-compose || return
    rm -rf "$tool/root/docker" && mkdir -p "$tool/root/docker"
    cp -r docker/compose.yaml docker/images "$tool/root/docker/"
    docker/images/make-secrets.sh "$tool/root/docker/secrets"
    config >"$scratch/compose.json" &&
        config "$(grep -o 'STORE_NODES=[0-9.:,]*' docker/compose.yaml)" COMPOSE_PROFILES=cluster >"$scratch/cluster.json" || return
    # Paths in the output are relative to that root.
    sed -i "s,\"/root/docker/,\"$(realpath "$tool")/root/docker/,g" "$scratch/compose.json" "$scratch/cluster.json"
}

# The settings of the services, with these variables.
config() {
    tests/tools/debian-root.sh run "$roots/compose" env -C /root/docker HOME=/root "$@" docker-compose -f compose.yaml config --format json
}

# Packages for the test of the chart.
install_node_modules() {
    mkdir -p "$engine/srv/chart"
    cp tests/images/package.json "$engine/srv/chart/"
    npm install --silent --ignore-scripts --legacy-peer-deps --no-package-lock --prefix "$engine/srv/chart"
}

# in_engine VERB COMMAND..: reports a test that ended early.
in_engine() {
    local verb=$1
    shift
    tests/images/engine.sh "$verb" "$engine" "$@" || print_line "not ok - $* in a container engine"
}

# The engine's root has a copy of the checkout. Images are built again.
with_engine() {
    tar -c --exclude=./.git --exclude=./build --exclude=./docker/secrets --exclude=node_modules . |
        tar -x --no-same-owner -C "$engine/srv/clairon"
    in_engine build python3 tests/images/compose.py build
    in_engine run python3 tests/images/compose.py run
    if install_node_modules; then
        in_engine run python3 tests/images/chart.py
    else
        print_line "ok - the chart # SKIP npm install of tests/images/package.json failed"
    fi
    in_engine build tests/images/first_hour.sh build
    in_engine run tests/images/first_hour.sh run
    rm -rf "$engine/var/lib/containers" "$engine/srv/clairon"
}

without_engine() {
    ok "docker-compose accepts the compose file" validate
    tests/tools/debian-root.sh make "$roots/clean" postgresql-17 valkey-server systemd &&
        python3 tests/images/check.py build "$scratch" "$roots/base" "$roots/clean" "$roots/clean" &&
        unshare --net python3 tests/images/check.py run "$scratch" "$scratch/compose.json" "$scratch/cluster.json" && return
    print_line "not ok - the images, on Debian 13"
}

run_tests() {
    rm -rf "$scratch" && mkdir -p "$scratch"
    if make_engine; then
        with_engine
    else
        print_line "# no container can be started here: the images are built and started without an engine"
        without_engine
    fi
}

run_tests
