#!/usr/bin/env python3
"""check.py: tests that the images build, and that the compose file's services deliver a row to a client.

    check.py build SCRATCH BASE POSTGRES STORE   executes the Dockerfiles in roots below SCRATCH
    check.py run SCRATCH COMPOSE.json CLUSTER.json starts the built images in a separate network, without and with the profile `cluster`
    check.py context SCRATCH                     checks that the Dockerfile copies all files that its build installs

BASE stands for debian:13, POSTGRES for the official postgres image, STORE for the store's.
"""

import fcntl
import json
import pickle
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import time
import traceback
from pathlib import Path

sys.dont_write_bytecode = True
from build import Stage, build, instructions, make_context  # noqa: E402
from containers import Service  # noqa: E402
from helpers import DEADLINE, get, ok, token, wait_until  # noqa: E402

ADDRESSES = {"primary": "127.0.11.1", "standby": "127.0.11.2", "store": "127.0.0.1", "relay": "127.0.0.1"}
NODES = [f"node-{i}" for i in range(1, 7)]

# ---- building


def bare(folder, env=None):
    """A root that serves as a base image."""
    stage = Stage(folder, None, None)
    stage.env.update(env or {})
    return stage


def build_all(scratch, base, postgres, store):
    """Builds both Dockerfiles and saves the settings of each stage for run."""
    scratch.mkdir(parents=True, exist_ok=True)
    context = make_context(scratch / "context")
    stages = build("docker/images/Dockerfile", context, {"debian:13": bare(base)}, scratch)
    ok(True, "the Dockerfile's images are built")
    plugin = build("docker/images/Dockerfile.plugin", context,
                   {"postgres:17": bare(postgres, {"PG_MAJOR": "17", "PATH": "/usr/lib/postgresql/17/bin:/usr/bin:/bin"})},
                   scratch / "plugin-")["plugin"]
    plugin.run("set -e; D=$(mktemp -d); chown postgres $D; cat >/tmp/try <<'E'\n"
               "initdb -D $1 >/dev/null && printf \"wal_level = logical\\noutput_plugin_libraries = 'clairon'\\n\""
               " >>$1/postgresql.conf && echo 'CREATE EXTENSION clairon' | postgres --single -D $1 postgres >$1/log 2>&1"
               " && ! grep -i error $1/log\nE\n"
               "setpriv --reuid postgres --regid postgres --init-groups sh /tmp/try $D; rm -rf $D")
    ok(True, "the plugin's layer adds the extension to PostgreSQL")
    stages["store"] = Stage(scratch / "store", store, None)
    for name in ("primary", "standby"):
        subprocess.run(["tests/tools/debian-root.sh", "copy", str(stages["postgres"].folder), str(scratch / name)], check=True)
        stages[name] = Stage(scratch / name, None, stages["postgres"])
        stages[name].entrypoint, stages[name].command = stages["postgres"].entrypoint, []
    for name in (*NODES, "nodes-join"):
        subprocess.run(["tests/tools/debian-root.sh", "copy", str(stages["store"].folder), str(scratch / name)], check=True)
        stages[name] = Stage(scratch / name, None, None)
    for name in ("primary", "standby", "store", "relay", "demo"):
        hosts = "".join(f"{address} {host}\n" for host, address in ADDRESSES.items())
        (stages[name].folder / "etc/hosts").write_text("127.0.0.1 localhost\n" + hosts)
    with open(scratch / "stages", "wb") as file:
        pickle.dump(stages, file)


def copy_all(scratch):
    """Copies the checkout without the files of .dockerignore; make reports missing files."""
    scratch.mkdir(parents=True, exist_ok=True)
    context = make_context(scratch / "context")
    shutil.rmtree(scratch / "source", ignore_errors=True)
    stage = Stage(scratch / "source", None, None)
    for word, rest in instructions("docker/images/Dockerfile"):
        if word == "FROM" and not rest.endswith(" build"):
            break
        if word == "COPY":
            *sources, target = shlex.split(rest)
            stage.copy([context / source for source in sources], target)
    done = subprocess.run(["make", "-n", "install"], cwd=stage.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if not ok(done.returncode == 0, "make has all files that it installs", "\n".join(line for line in done.stdout.splitlines() if "***" in line)):
        sys.exit(1)


# ---- running


def raise_loopback(compose):
    """Sets up a new network namespace, whose loopback interface is down. The cluster nodes have fixed addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))
        for number_of_it, name in enumerate(NODES):
            address = socket.inet_aton(compose["services"][name]["networks"]["cluster"]["ipv4_address"])
            fcntl.ioctl(probe, 0x8916, struct.pack("16sH2x4s8x", f"lo:{number_of_it}".encode(), socket.AF_INET, address))


def services(scratch, compose, stages):
    """The services of the compose file, in dependency order."""
    kinds = {k: {n: v["file"] for n, v in compose[k].items()} for k in ("secrets", "configs")}
    made = {}
    while len(made) < len(compose["services"]):
        for name, settings in compose["services"].items():
            if name not in made and all(n in made for n in settings.get("depends_on", {})):
                extra = {"LISTEN": ADDRESSES[name]} if name in ("primary", "standby") else {}
                made[name] = Service(name, settings, stages[name], kinds, scratch, extra)
    return made


def deliver_notification(running, compose, grade):
    """An UPDATE on the primary reaches a client of the relay."""
    key = Path(compose["secrets"]["token_key"]["file"]).read_bytes()
    stream = get(8080, "/v1/sse", Authorization="Bearer " + token(key, "u1"))
    ok(stream.status == 200, "a client is connected", stream.status)
    status, output = running["primary"].run(
        ["psql", "-qXAt", "-h", "/run/postgresql", "-U", "postgres", "app", "-c",
         f"UPDATE assignments SET status = 'graded', grade = {grade} WHERE student_id = 'u1'"])
    ok(status == 0, "a row is updated on the primary", output)
    line = b""
    end = time.monotonic() + DEADLINE  # comments keep the connection alive
    while not (b'"graded"' in line and str(grade).encode() in line) and time.monotonic() < end:
        line = stream.readline()
        if not line:
            break
    ok(b'"student_id":"u1"' in line, "the client receives the change", line)


def push_key():
    """The relay's public key, with which browsers subscribe to Web Push."""
    return json.load(get(8080, "/v1/webpush/key"))["key"]


def check_services(running):
    """Tests the relations between the services."""
    def query(name, text):
        return running[name].run(["psql", "-qXAt", "-h", "/run/postgresql", "-U", "postgres", "app", "-c", text])[1]

    logical = "SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical'"
    ok(query("standby", logical + " AND active") == "1", "the standby's slot is active", query("standby", logical))
    ok(query("primary", logical) == "0", "the primary has no logical slot", query("primary", logical))
    ok(get(8088, "/").status == 200, "the page is served")
    for name, one in running.items():
        status = Path(f"/proc/{one.process.pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        ok(not fields["Uid"].startswith("0\t") and int(fields["CapBnd"], 16) == 0, f"{name} does not run as root and has no capabilities", status)
        written = one.run(["sh", "-c", "echo x >/etc/x"])
        ok(written[0] != 0, f"{name} cannot write to its image", written)


def use_cluster(running, scratch, cluster, stages):
    """Starts the nodes, and restarts the relay with them as its store. The single store, which uses the same port, is stopped before."""
    with_nodes = services(scratch, cluster, stages)
    running["relay"].stop()
    running.pop("store").stop()
    for name in NODES:
        running[name] = with_nodes[name]
        running[name].start()
        wait_until(f"{name} is healthy", running[name].is_healthy)
    join = with_nodes["nodes-join"]
    running["nodes-join"] = join
    join.start()
    wait_until("the nodes form a cluster", lambda: join.process.poll() is not None)
    ok(join.process.poll() == 0, "the nodes form a cluster", join.tail())
    running["relay"] = with_nodes["relay"]
    running["relay"].start()
    wait_until("the relay is healthy with the cluster", running["relay"].is_healthy)
    status, output = running["node-1"].run(
        ["sh", "-c", "REDISCLI_AUTH=$(cat /run/secrets/store_password) valkey-cli -h 10.203.47.11 --cluster check 10.203.47.11:6379"])
    ok(status == 0 and " in 3 primaries" in output.replace("masters", "primaries"), "three primaries have all keys", output)


def run_all(scratch, compose, cluster):
    """Starts, tests and stops all services."""
    raise_loopback(cluster)
    with open(scratch / "stages", "rb") as file:
        stages = pickle.load(file)
    running = services(scratch, compose, stages)
    try:
        for name, one in running.items():
            one.start()
            wait_until(f"{name} is healthy", one.is_healthy)
            ok(True, f"{name} is healthy")
        deliver_notification(running, compose, 17)
        check_services(running)
        key = push_key()
        use_cluster(running, scratch, cluster, stages)
        ok(push_key() == key, "the relay started again with the same key for Web Push", key)
        deliver_notification(running, compose, 18)
        ok(running["relay"].stop() == 0, "the relay drains", running["relay"].tail())
        ok(running["standby"].stop() == 0, "the standby stops with status 0", running["standby"].tail())
        running["standby"].start()
        wait_until("the standby is healthy again", running["standby"].is_healthy)
        ok(True, "the standby starts again with its volume")
    except Exception:
        for one in running.values():
            if one.log.exists():
                print(f"# {one.name}:", *one.tail().splitlines(), sep="\n#   ")
        raise
    finally:
        for one in reversed(running.values()):
            one.stop()


def main():
    """Any exception is a failed test."""
    try:
        if sys.argv[1] == "build":
            build_all(*map(Path, sys.argv[2:6]))
        elif sys.argv[1] == "context":
            copy_all(Path(sys.argv[2]))
        else:
            run_all(Path(sys.argv[2]), *(json.loads(Path(path).read_text()) for path in sys.argv[3:5]))
    except Exception as error:  # noqa: BLE001
        ok(False, f"{sys.argv[1]}: {error!r}", traceback.format_exc())
        sys.exit(1)


main()
