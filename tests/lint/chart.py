#!/usr/bin/env python3
"""chart.py: checks the Helm chart without helm, which Debian does not have.

    chart.py                checks; with helm in PATH also that `helm lint` passes and that helm renders the same objects
    chart.py --scripts      prints the scripts of the store's nodes, as a JSON object

It renders the few template forms that the chart uses and rejects all others, parses the result as YAML, and checks that
the objects agree: labels, volumes, ConfigMaps, hardening, a PodDisruptionBudget and a NetworkPolicy for each set of
pods. It does not validate against the Kubernetes schema. The store's user of the relays must have the same commands in
the chart, in the image and in `clairon doctor`.
"""
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

CHART = Path("docker/helm")
FORM = re.compile(r"\{\{-?\s*\.(Values|Release)\.([\w.]+)\s*(?:\|\s*(quote|toJson|sha256sum|indent \d+))?\s*-?\}\}")
CONDITION = re.compile(r"\n *\{\{- if \.Values\.([\w.]+) \}\}(.*?)\n *\{\{- end \}\}", re.S)
FILTERS = {
    "quote": lambda found: json.dumps(str(found)),
    "toJson": json.dumps,
    "sha256sum": lambda found: hashlib.sha256(found.encode()).hexdigest(),
}
STORE_USERS = (CHART / "templates/store.yaml", Path("docker/images/store-entry.sh"))
WITH_SUBCOMMANDS = {"CONFIG", "MEMORY", "SCRIPT", "XGROUP", "XINFO"}
# `clairon doctor` tries these outside its table, if at all.
FURTHER_COMMANDS = {"select", "multi", "exec", "discard", "cluster|slots", "cluster|nodes", "cluster|info", "cluster|countkeysinslot"}
RELEASE = {"Name": "test", "Revision": "1"}
bad = []


def value(values, path):
    for name in path.split("."):
        values = values[name]
    return values


def render(text, values):
    def replace(match):
        found = value(RELEASE if match[1] == "Release" else values, match[2])
        if match[3] and match[3].startswith("indent"):
            return "\n".join(" " * int(match[3][7:]) + line for line in str(found).rstrip("\n").split("\n"))
        return FILTERS.get(match[3], str)(found)

    text = CONDITION.sub(lambda match: match[2] if value(values, match[1]) else "", text)
    text = FORM.sub(replace, text)
    bad.extend(f"unknown template form: {rest}" for rest in re.findall(r"\{\{.*?\}\}", text))
    return text


def check_pods(name, pod, maps):
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for volume in volumes.values():
        if volume.get("configMap", {}).get("name", name) not in maps | {name}:
            bad.append(f"{name}: no ConfigMap {volume['configMap']['name']}")
    if not pod["securityContext"]["runAsNonRoot"]:
        bad.append(f"{name}: may run as root")
    for container in pod["containers"]:
        for mount in container["volumeMounts"]:
            if mount["name"] not in volumes and mount["name"] != "data":
                bad.append(f"{name}: no volume {mount['name']}")
        if not container["securityContext"]["readOnlyRootFilesystem"]:
            bad.append(f"{name}: writable root file system")
        if any("password" in json.dumps(variable).lower() for variable in container.get("env", [])):
            bad.append(f"{name}: secret in an environment variable")


def check_user_commands():
    table = re.search(r"required_commands\[\] = \{(.*?)\n\};", Path("relay/doctor/store_server.c").read_text(), re.S)[1]
    words = [command.split() for command in re.findall(r'"(.*?)"', table)]
    needed = {"|".join(some[:2] if some[0] in WITH_SUBCOMMANDS else some[:1]).lower() for some in words} | FURTHER_COMMANDS
    for path in STORE_USERS:
        found = set(re.findall(r'[\s"]\+([a-z|]+)', path.read_text()))
        bad.extend(f"{path}: user relay lacks +{command}" for command in needed - found)
        bad.extend(f"{path}: user relay does not need +{command}" for command in found - needed)


def check_policies(objects):
    pods = {one["metadata"]["name"]: one["spec"]["template"] for one in objects if "template" in one.get("spec", {})}
    labels = [pod["metadata"]["labels"] for pod in pods.values()]
    policies = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "NetworkPolicy"}
    for name, policy in policies.items():
        if name not in pods or policy["podSelector"]["matchLabels"] != pods[name]["metadata"]["labels"]:
            bad.append(f"NetworkPolicy {name}: selects no pods of that name")
            continue
        ports = {port["name"] for container in pods[name]["spec"]["containers"] for port in container["ports"]}
        if {port["port"] for rule in policy["ingress"] for port in rule["ports"]} != ports:
            bad.append(f"NetworkPolicy {name}: other ports than its pods")
        peers = [peer["podSelector"] for rule in policy["ingress"] for peer in rule.get("from", []) if "podSelector" in peer]
        if any(peer and peer["matchLabels"] not in labels for peer in peers):
            bad.append(f"NetworkPolicy {name}: a peer is no pod of the chart")
    bad.extend(f"{one['kind']} {one['metadata']['name']}: no NetworkPolicy" for one in objects
               if one["kind"] in ("Deployment", "StatefulSet") and one["metadata"]["name"] not in policies)
    if any("from" not in rule for rule in policies.get("test-store", {}).get("ingress", [])):
        bad.append("NetworkPolicy test-store: anybody may connect to the store")


def check(objects):
    check_policies(objects)
    maps = {one["metadata"]["name"] for one in objects if one["kind"] == "ConfigMap"}
    budgets = [one["spec"]["selector"]["matchLabels"] for one in objects if one["kind"] == "PodDisruptionBudget"]
    services = [one["spec"]["selector"] for one in objects if one["kind"] == "Service"]
    for one in objects:
        name = f"{one['kind']} {one['metadata']['name']}"
        if one["kind"] in ("Deployment", "StatefulSet", "Job"):
            check_pods(name, one["spec"]["template"]["spec"], maps)
        if one["kind"] in ("Deployment", "StatefulSet"):
            labels = one["spec"]["template"]["metadata"]["labels"]
            if not labels == one["spec"]["selector"]["matchLabels"] or labels not in budgets or labels not in services:
                bad.append(f"{name}: selector, service and budget differ from its labels")
            if not all("readinessProbe" in each for each in one["spec"]["template"]["spec"]["containers"]):
                bad.append(f"{name}: no readiness probe")


def render_all(values):
    texts = [render(path.read_text(), values) for path in sorted(CHART.glob("templates/*.yaml"))]
    return [] if bad else [one for text in texts for one in yaml.safe_load_all(text) if one]


def texts(objects):
    return sorted(json.dumps(one, sort_keys=True) for one in objects)


def compare_with_helm(objects):
    for command in (["lint", "--strict", CHART], ["template", "test", CHART]):
        ran = subprocess.run(["helm", *command], capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            bad.append(f"helm {command[0]}: {ran.stdout}{ran.stderr}")
            return
    theirs = [one for one in yaml.safe_load_all(ran.stdout) if one]
    if texts(theirs) != texts(objects):
        bad.append("helm renders different objects")


def main():
    if not {"apiVersion", "name", "version"} <= set(yaml.safe_load((CHART / "Chart.yaml").read_text())):
        bad.append("Chart.yaml is incomplete")
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    objects = render_all(values)
    if "--scripts" in sys.argv:
        print(json.dumps(next(one["data"] for one in objects if one["metadata"]["name"] == "test-store" and one["kind"] == "ConfigMap")))
        return bool(bad)
    check(objects)
    check_user_commands()
    if shutil.which("helm"):
        compare_with_helm(objects)
    values["store"]["storageClass"] = "fast"
    check(render_all(values))
    for line in sorted(set(bad)):
        print(f"docker/helm: {line}")
    return bool(bad)


sys.exit(main())
