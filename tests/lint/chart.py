#!/usr/bin/env python3
"""chart.py: checks the Helm chart without helm, which Debian does not have.

It renders the few template forms that the chart uses and rejects all others, parses the result as YAML, and checks that
the objects agree: labels, volumes, ConfigMaps, hardening, a PodDisruptionBudget for each set of pods. It does not
validate against the Kubernetes schema.
"""
import json
import re
import sys
from pathlib import Path

import yaml

CHART = Path("docker/helm")
FORM = re.compile(r"\{\{-?\s*\.(Values|Release)\.([\w.]+)\s*(?:\|\s*(quote|toJson|indent \d+))?\s*-?\}\}")
CONDITION = re.compile(r"\n *\{\{- if \.Values\.([\w.]+) \}\}(.*?)\n *\{\{- end \}\}", re.S)
FILTERS = {"quote": json.dumps, "toJson": json.dumps}
bad = []


def value(values, path):
    for name in path.split("."):
        values = values[name]
    return values


def render(text, values):
    def replace(match):
        found = "test" if match[1] == "Release" else value(values, match[2])
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
            bad.append(f"{name}: a secret in a variable")


def check(objects):
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


def main():
    if not {"apiVersion", "name", "version"} <= set(yaml.safe_load((CHART / "Chart.yaml").read_text())):
        bad.append("Chart.yaml is incomplete")
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for storage_class in ("", "fast"):
        values["store"]["storageClass"] = storage_class
        texts = [render(path.read_text(), values) for path in sorted(CHART.glob("templates/*.yaml"))]
        if not bad:
            check([one for text in texts for one in yaml.safe_load_all(text) if one])
    for line in sorted(set(bad)):
        print(f"docker/helm: {line}")
    return bool(bad)


sys.exit(main())
