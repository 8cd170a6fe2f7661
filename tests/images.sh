#!/usr/bin/env bash
# images.sh: tests the container images; builds and starts them without a container engine.
#
# No engine is available in the tests: tests/images executes the instructions of the Dockerfiles in Debian roots, and
# starts the services of docker/compose.yaml in them, with its mounts, users and capabilities. Debian's docker-compose
# validates the compose file. Pulling images, and an engine's networks and name resolution, are not tested.
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

run_tests() {
    rm -rf "$scratch" && mkdir -p "$scratch"
    ok "docker-compose accepts the compose file" validate
    tests/tools/debian-root.sh make "$roots/base" && tests/tools/debian-root.sh make "$roots/clean" postgresql-17 valkey-server systemd &&
        python3 tests/images/check.py build "$scratch" "$roots/base" "$roots/clean" "$roots/clean" &&
        unshare --net python3 tests/images/check.py run "$scratch" "$scratch/compose.json" "$scratch/cluster.json" && return
    print_line "not ok - the images, on Debian 13"
}

run_tests
