#!/bin/bash
# postgres-entry.sh: starts a primary or its standby, and creates the cluster if the volume is empty.
#
#   postgres-entry.sh primary     database "app" with clairon, the roles relay and demo, the demo's examples
#   postgres-entry.sh standby     standby of the host PRIMARY_HOST, with the relay's slot
#
# Passwords are read from /run/secrets/NAME_password. LISTEN is the address to listen on.
set -euo pipefail
umask 077

secret() { cat "/run/secrets/$1_password"; }
admin() { psql -qX -v ON_ERROR_STOP=1 -h /run/postgresql -U postgres "$@"; }

settings() {
    cat <<CONF
wal_level = logical
max_wal_senders = 10
max_replication_slots = 10
hot_standby_feedback = on
# Prevents a stopped standby from filling this disk. Beyond this limit the standby must be created again.
max_slot_wal_keep_size = '8GB'
unix_socket_directories = '/run/postgresql'
password_encryption = 'scram-sha-256'
CONF
    # sed reads all input, since postgres would fail on a closed pipe.
    if [ -n "$(postgres --describe-config | sed -n '/^output_plugin_libraries/p')" ]; then
        echo "output_plugin_libraries = 'clairon, pgoutput'"
    fi
}

fill() {
    admin -d postgres -c 'CREATE DATABASE app'
    # psql quotes the passwords, which are not in arguments.
    admin -d app <<SQL
\\set relay \`cat /run/secrets/relay_password\`
\\set demo \`cat /run/secrets/demo_password\`
\\set standby \`cat /run/secrets/standby_password\`
CREATE EXTENSION clairon;
CREATE ROLE standby LOGIN REPLICATION PASSWORD :'standby';
CREATE ROLE relay LOGIN REPLICATION PASSWORD :'relay' IN ROLE clairon_relay;
CREATE ROLE demo LOGIN PASSWORD :'demo' IN ROLE clairon_app;
GRANT CREATE, USAGE ON SCHEMA public TO demo;
SELECT pg_create_physical_replication_slot('standby');
SQL
    local world
    for world in eportfolio inbox message bank bank_actor; do
        admin -d app -o /dev/null -f "/usr/share/clairon/examples/$world.sql"
    done
    admin -d app -c 'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO demo' \
        -c 'GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO demo'
}

# Creates the cluster in a temporary directory and renames it at the end, so that an interrupted start can be repeated.
make_primary() {
    local new=$PGDATA/new
    rm -rf "$new"
    initdb -D "$new" -U postgres --locale=C.UTF-8 --encoding=UTF8 --auth-local=peer --auth-host=scram-sha-256 \
        --pwfile=/run/secrets/postgres_password >/dev/null
    settings >>"$new/postgresql.conf"
    printf 'host all all all scram-sha-256\nhost replication standby all scram-sha-256\n' >>"$new/pg_hba.conf"
    pg_ctl -D "$new" -o "-c listen_addresses=''" -w -s start
    fill
    pg_ctl -D "$new" -m fast -w -s stop
    mv "$new" "$PGDATA/cluster"
}

make_standby() {
    local new=$PGDATA/new
    rm -rf "$new"
    until pg_isready -q -h "$PRIMARY_HOST"; do sleep 1; done
    PGPASSWORD=$(secret standby) pg_basebackup -D "$new" -h "$PRIMARY_HOST" -U standby -S standby -X stream -R \
        --checkpoint=fast
    echo "primary_slot_name = 'standby'" >>"$new/postgresql.auto.conf"
    mv "$new" "$PGDATA/cluster"
}

case ${1:-} in
    primary | standby)
        [ -e "$PGDATA/cluster/PG_VERSION" ] || "make_$1"
        exec postgres -D "$PGDATA/cluster" -c listen_addresses="${LISTEN:-*}"
        ;;
    *) exec "$@" ;;
esac
