#!/usr/bin/env python3
"""compose.py: tests the images and the compose file in a container engine. tests/images/engine.sh runs it.

    compose.py build     builds all images, with the network of this machine
    compose.py run       starts the services as README does, kills each, and does the same with the profile `cluster`

It executes the commands of README, the compose file and Dockerfile.plugin as they are written there.
"""

import os
import re
import signal
import subprocess
import sys
import traceback
from pathlib import Path

sys.dont_write_bytecode = True
from helpers import Client, must, ok, run, wait_until, written  # noqa: E402

COMPOSE = "docker compose -f docker/compose.yaml"
SERVICES = ("primary", "standby", "store", "relay", "demo")
NODES = [f"node-{i}" for i in range(1, 7)]

# No registry is reachable in the tests. These images replace those of other projects; debian:13 is imported before.
STORE_IMAGE = """FROM debian:13
RUN apt-get update -q && apt-get install -y -q --no-install-recommends valkey-server
RUN groupadd -g 999 store && useradd -u 999 -g 999 store && install -d -o 999 -g 999 /data
VOLUME /data
WORKDIR /data
"""
POSTGRES_IMAGE = """FROM debian:13
RUN mkdir -p /etc/postgresql-common && echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
RUN apt-get update -q && apt-get install -y -q --no-install-recommends postgresql-17
ENV PG_MAJOR=17 PATH=/usr/lib/postgresql/17/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""
TRY_PLUGIN = """
initdb -D /tmp/data >/tmp/log
printf "wal_level = logical\\noutput_plugin_libraries = 'clairon'\\n" >>/tmp/data/postgresql.conf
echo 'CREATE EXTENSION clairon' | postgres --single -D /tmp/data postgres >>/tmp/log 2>&1
! grep -i error /tmp/log
"""


def inspect(service, template):
    """Prints fields of a service's container."""
    return run(f"docker inspect -f '{template}' clairon-{service}-1")[1]


def is_healthy(service):
    """The result of the last health check."""
    return inspect(service, "{{.State.Status}} {{.State.Health.Status}}") == "running healthy"


# ---- building


def build():
    """Builds the images of the compose file, and the plugin's layer."""
    must("an image with a store is built", "docker build -t valkey/valkey:8 -", input=STORE_IMAGE)
    must("it has the name of the default store", "docker tag valkey/valkey:8 $(grep -o 'eqalpha/keydb:[a-z0-9_.]*' docker/compose.yaml)")
    must("the images of the compose file are built", f"docker/images/make-secrets.sh && {COMPOSE} build")
    must("the image for the chart is built", written("docker/CLUSTER.md", r"^docker build .*").replace("REGISTRY", "docker.io"))
    must("an image with PostgreSQL is built", "docker build -t postgres:17 -", input=POSTGRES_IMAGE)
    command = written("docker/images/Dockerfile.plugin", r"^#   (docker build .*)")
    must("the plugin's layer is built", command.replace("docker build", "docker build -t plugin"))
    must("it adds the extension to PostgreSQL", "docker run --rm --user postgres plugin sh -ec \"$TRY\"",
         env={**os.environ, "TRY": TRY_PLUGIN})


# ---- running


def insert(title):
    """Commits a row for the user on the primary; repeats while the primary does not run."""
    text = f"INSERT INTO assignments (student_id, title) VALUES ('u1', '{title}')"
    wait_until(f"the primary commits {title}",
               lambda: run(f'{COMPOSE} exec -T primary psql -qX -h /run/postgresql -U postgres app -c "{text}"')[0] == 0)


def kill(service, client, wanted):
    """Kills the container's first process, as the kernel does when memory runs out. `wanted`: titles of all rows."""
    def add(when):
        for i in range(3):
            wanted.append(f"{when} {service} was killed: {i} of {len(wanted)}")
            insert(wanted[-1])

    add("before")
    started = inspect(service, "{{.State.StartedAt}}")
    os.kill(int(inspect(service, "{{.State.Pid}}")), signal.SIGKILL)
    add("after")
    wait_until(f"{service} is restarted", lambda: inspect(service, "{{.State.StartedAt}}") != started)
    wait_until(f"{service} is healthy again", lambda: is_healthy(service))
    wait_until("the relay is healthy", lambda: is_healthy("relay"))
    wait_until("the client is connected", client.is_open)
    add("long after")
    try:
        wait_until("the client has all rows", lambda: len(client.of("title")) >= len(wanted), 60)
    except RuntimeError:
        pass
    received = client.of("title")
    ok(received == wanted and not client.of("gap"), f"{service} is killed: the client receives each row once, in order",
       f"missing: {[t for t in wanted if t not in received]}\nothers: {received[-12:]}\nevents: {client.events[-12:]}")


def check_container(service):
    """Its processes have no rights beyond those they need."""
    status = run(f"docker exec clairon-{service}-1 cat /proc/self/status")[1]
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    ok(not fields["Uid"].startswith("0\t") and int(fields["CapBnd"], 16) == 0 and fields["NoNewPrivs"] == "1",
       f"{service} does not run as root, has no capabilities and cannot get new ones", status)
    ok(run(f"docker exec clairon-{service}-1 sh -c 'echo x >/etc/x'")[0] != 0, f"{service} cannot write to its image")


def check_doctor(what):
    """Compose mounts a secret with its mode in the checkout, which all users in the container must be able to read."""
    output = must(f"clairon doctor finds no error {what}", written("docker/INSTALL.md", r"^docker compose .* clairon doctor.*").replace("exec", "exec -T"))
    found = [line for line in output.splitlines() if line.startswith("WARN") and "auth.hs256_secret_file" not in line]
    ok(not found, "and no risk but the mode of the key", output)


def push_key():
    """The relay's public key for Web Push."""
    return run(f"{COMPOSE} exec -T demo python3 -c 'import urllib.request as r; print(r.urlopen(\"http://relay:8080/v1/webpush/key\").read())'")


def run_services():
    """README's commands, and each service killed."""
    must("README's commands start the services", written("README.md", r"^docker/images/make-secrets.sh.*"))
    for service in SERVICES:
        wait_until(f"{service} is healthy", lambda: is_healthy(service))  # pylint: disable=cell-var-from-loop
        ok(True, f"{service} is healthy")
        check_container(service)
    check_doctor("in the compose file's containers")
    must("the demo's page is served at the address in README", "curl -sf http://localhost:8088 | grep -i '<title>'")
    key = push_key()
    ok(key[0] == 0, "the relay has a key for Web Push", key)
    client = Client("u1", "http://localhost:8080")
    wanted = []
    try:
        wait_until("a client is connected", client.is_open)
        for service in ("relay", "store", "standby", "primary"):
            kill(service, client, wanted)
        ok(push_key() == key, "the relay has the same key for Web Push after its restart", push_key())
    finally:
        client.process.kill()


def ends_on_sigterm(node):
    """A replica that copies its primary, or then writes its first append-only file, would continue."""
    output = run(f"docker exec clairon-{node}-1 sh -c 'REDISCLI_AUTH=$(cat /run/secrets/store_password) valkey-cli -h $CLUSTER_ADDRESS info'")[1]
    return "aof_rewrite_in_progress:0" in output and "aof_rewrite_scheduled:0" in output and "master_link_status:down" not in output


def run_cluster():
    """The commands in the compose file for the profile `cluster`, and a node killed."""
    must("the compose file's commands start a cluster", written(
        "docker/compose.yaml", r"^#   (export STORE_NODES=.*|docker compose .*--profile cluster.*)"))
    os.environ["STORE_NODES"] = re.search(r"STORE_NODES=(\S+)", Path("docker/compose.yaml").read_text())[1]
    os.environ["STORE_IMAGE"] = "valkey/valkey:8"
    wait_until("the nodes form a cluster", lambda: inspect("nodes-join", "{{.State.Status}} {{.State.ExitCode}}") == "exited 0")
    wait_until("the relay is healthy", lambda: is_healthy("relay"))
    output = must("the cluster is complete", "docker exec clairon-node-1-1 sh -c 'REDISCLI_AUTH=$(cat /run/secrets/store_password) "
                  "valkey-cli -h 10.203.47.11 --cluster check 10.203.47.11:6379'")
    ok(" in 3 primaries" in output.replace("masters", "primaries"), "three primaries have all keys", output)
    check_doctor("with the cluster")
    client = Client("u1", "http://localhost:8080")
    try:
        wait_until("a client is connected", client.is_open)
        wanted = []
        for node in ("node-1", "node-2", "node-3"):
            kill(node, client, wanted)
    finally:
        client.process.kill()
    for node in NODES:
        wait_until(f"{node} would end on SIGTERM", lambda: ends_on_sigterm(node))  # pylint: disable=cell-var-from-loop


def stop_all():
    """All containers stop as they should."""
    must("the services stop", f"{COMPOSE} --profile cluster stop")
    for service in (*SERVICES, *NODES):
        code = inspect(service, "{{.State.ExitCode}}")
        expected = "143" if service == "demo" else "0"  # no program of its own handles SIGTERM
        ok(code == expected, f"{service} stops with status {expected}", f"{code}\n{run(f'docker logs --tail 60 clairon-{service}-1')[1]}")
    must("the services are removed with their volumes", f"{COMPOSE} --profile cluster down -v")


def main():
    """Any exception is a failed test."""
    try:
        if sys.argv[1] == "build":
            build()
        else:
            run_services()
            run_cluster()
            stop_all()
    except Exception as error:  # noqa: BLE001
        ok(False, f"{sys.argv[1]}: {error!r}", traceback.format_exc())
        if sys.argv[1] == "run":
            print("".join(f"# {line}\n" for line in run(f"docker ps -a; {COMPOSE} --profile cluster logs --tail 15")[1].splitlines()), end="")
        sys.exit(1)


main()
