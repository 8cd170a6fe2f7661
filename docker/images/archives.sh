#!/usr/bin/env bash
# archives.sh: writes the images of the relay and of PostgreSQL as OCI archives, which podman and, with its containerd image store, docker load.
#
#   docker/images/archives.sh DIR      ->  DIR/clairon-relay-VERSION.oci.tar, DIR/clairon-postgres-17-VERSION.oci.tar
#
# VERSION is required. SOURCE_DATE_EPOCH is the date of all files: two builds from the same base image and the same packages
# of Debian are equal. BASE_IMAGE and REPOSITORY are as in the Dockerfile. Needs podman: without it, nothing is written.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=${1:?usage: archives.sh DIR}
base=${BASE_IMAGE:-debian:13}
date=${SOURCE_DATE_EPOCH:-$(date +%s)}

# archive NAME TARGET: one image. With the network of the host, no bridge and no firewall rules are needed.
archive() {
    local name=$1 target=$2
    local labels=(--label org.opencontainers.image.version="$VERSION" --label org.opencontainers.image.licenses=PostgreSQL)
    [ -z "${REPOSITORY:-}" ] || labels+=(--label org.opencontainers.image.source="$REPOSITORY")
    podman build --quiet --no-cache --format oci --timestamp "$date" --build-arg SOURCE_DATE_EPOCH="$date" --build-arg BASE_IMAGE="$base" \
        --network host "${labels[@]}" \
        --file docker/images/Dockerfile --target "$target" --tag "clairon/$name:$VERSION" . >/dev/null
    # podman's own archive has the time of its creation.
    podman save --quiet --format oci-archive --output "$work/$name.tar" "clairon/$name:$VERSION"
    mkdir "$work/$name"
    tar -x -C "$work/$name" -f "$work/$name.tar"
    tar --sort=name --mtime=@"$date" --owner=0 --group=0 --numeric-owner -c -C "$work/$name" . >"$dir/clairon-$name-$VERSION.oci.tar"
}

: "${VERSION:?is required}"
if ! podman info >/dev/null 2>&1 || ! { podman image exists "$base" || podman pull -q "$base" >/dev/null 2>&1; }; then
    echo "no container images: they need podman and the image $base"
    exit 0
fi
mkdir -p "$dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive relay relay
archive postgres-17 postgres
