#!/usr/bin/env bash
# images.sh: are the container images sound? Builds and starts them without a container engine.
#
# No engine runs where these tests do: tests/images carries out the Dockerfiles' instructions in
# Debian roots, and starts docker/compose.yaml's services in them, with its mounts, users and rights.
# Debian's docker-compose judges the compose file. What is not shown: that images can be pulled, and
# that an engine's own networks and names work as Docker says.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/roots.sh
. tests/roots.sh

scratch=$PWD/$roots/images

validate() {
    local tool=$roots/compose
    tests/tools/debian-root.sh make "$tool" docker-compose || return
    rm -rf "$tool/root/docker" && mkdir -p "$tool/root/docker"
    cp -r docker/compose.yaml docker/images "$tool/root/docker/"
    docker/images/make-secrets.sh "$tool/root/docker/secrets"
    tests/tools/debian-root.sh run "$tool" env -C /root/docker HOME=/root docker-compose -f compose.yaml config --format json \
        >"$scratch/compose.json" || return
    # The files it names are below the root that it was asked in.
    sed -i "s,\"/root/docker/,\"$PWD/$tool/root/docker/,g" "$scratch/compose.json"
}

run_tests() {
    rm -rf "$scratch" && mkdir -p "$scratch"
    ok "docker-compose takes the compose file" validate
    tests/tools/debian-root.sh make "$roots/base" && tests/tools/debian-root.sh make "$roots/clean" postgresql-17 valkey-server systemd &&
        python3 tests/images/check.py build "$scratch" "$roots/base" "$roots/clean" "$roots/clean" &&
        unshare --net python3 tests/images/check.py run "$scratch" "$scratch/compose.json" && return
    say "not ok - the images, on Debian 13"
}

run_tests
