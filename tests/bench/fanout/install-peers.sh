#!/usr/bin/env bash
# install-peers.sh: installs the servers for comparison in the fan-out bench, which skips missing servers.
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit

if [ ! -e /usr/lib/nginx/modules/ngx_nchan_module.so ] && [ "$(id -u)" = 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        libnginx-mod-nchan nginx >/dev/null 2>&1 ||
        echo "nchan could not be installed (apt-get install libnginx-mod-nchan nginx)"
    # Debian's package starts a server on port 80, which the bench does not use.
    ! command -v systemctl >/dev/null || systemctl disable --now nginx >/dev/null 2>&1 || true
fi
# nchan uses nginx's default folders, which nginx creates as root.
if [ ! -d /var/lib/nginx/body ] && [ "$(id -u)" = 0 ] && command -v nginx >/dev/null; then
    nginx -q -t >/dev/null 2>&1 || echo "nchan lacks /var/lib/nginx/body"
fi
if [ ! -d build/peers/node_modules/socket.io ] && command -v npm >/dev/null; then
    mkdir -p build/peers
    npm install --prefix build/peers --no-audit --no-fund --silent ws@8 socket.io@4 >/dev/null 2>&1 ||
        echo "ws and socket.io could not be installed (npm install)"
fi
exit 0
