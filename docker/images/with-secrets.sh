#!/bin/bash
# with-secrets.sh: gives a command the passwords of /run/secrets as libpq and the relay take them, and becomes it.
set -euo pipefail
umask 077

# libpq believes no password file that others may read, as a secret's may.
for role in relay demo; do
    [ ! -r "/run/secrets/${role}_password" ] ||
        printf '*:*:*:%s:%s\n' "$role" "$(sed 's/[\\:]/\\&/g' "/run/secrets/${role}_password")"
done >/tmp/pgpass
export PGPASSFILE=/tmp/pgpass
if [ -r /run/secrets/store_password ]; then
    CLAIRON_STORE_URL=redis://:$(cat /run/secrets/store_password)@${STORE_HOST:-store}:6379
    export CLAIRON_STORE_URL
fi
exec "$@"
