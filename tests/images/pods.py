"""pods.py: runs the pods of a rendered chart with podman, as a kubelet does.

`podman kube play` knows no StatefulSet, Service, projected volume, fieldRef of an address, or fsGroup, all of which the
chart needs. Here every pod has one container, an address of its own, and a machine's name.
"""

import base64
import json
import os
import shutil
from itertools import count
from pathlib import Path

from helpers import run

NETWORK = "kube"
FOLDER = Path("/srv/pods")
MACHINES = ("machine-1", "machine-2", "machine-3")
UNITS = {"Mi": 2 ** 20, "Gi": 2 ** 30}
addresses = count(11)


def create_network():
    """A network whose addresses are never used again, as in Kubernetes."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    return run(f"podman network create --subnet 10.203.48.0/24 {NETWORK}")


def data_of(source, objects):
    """The files of a ConfigMap or a Secret, by name."""
    if "configMap" in source:
        return objects["ConfigMap", source["configMap"]["name"]]["data"]
    secret = source["secret"]
    kept = objects["Secret", secret.get("secretName") or secret["name"]]["data"]
    names = {item["key"]: item["path"] for item in secret.get("items", [])} or {key: key for key in kept}
    return {path: base64.b64decode(kept[key]).decode() for key, path in names.items()}


class Pod:
    """One pod of a Deployment, a StatefulSet or a Job."""

    def __init__(self, owner, number, objects):
        self.owner, self.objects = owner, objects
        self.name = f"{owner['metadata']['name']}-{number}"
        self.machine = MACHINES[number % len(MACHINES)]
        self.spec = owner["spec"]["template"]["spec"]
        self.container, = self.spec["containers"]
        self.address = None

    def environment(self):
        """Variables, with the fields of the pod."""
        limit = self.container.get("resources", {}).get("limits", {}).get("memory", "1Gi")
        fields = {"metadata.namespace": "default", "status.podIP": self.address, "spec.nodeName": self.machine,
                  "limits.memory": int(limit[:-2]) * UNITS[limit[-2:]]}
        for each in self.container.get("env", []):
            source = each.get("valueFrom", {})
            field = source.get("fieldRef", {}).get("fieldPath") or source.get("resourceFieldRef", {}).get("resource")
            yield f"{each['name']}={fields[field] if field else each['value']}"

    def mount(self, mount):
        """The arguments for one volume."""
        group = self.spec["securityContext"]["fsGroup"]
        claims = [c["metadata"]["name"] for c in self.owner["spec"].get("volumeClaimTemplates", [])]
        if mount["name"] in claims:
            folder = FOLDER / "claims" / f"{mount['name']}-{self.name}"
            if not folder.exists():
                folder.mkdir(parents=True)
                os.chown(folder, 0, group)
                folder.chmod(0o2775)
            return ["--volume", f"{folder}:{mount['mountPath']}"]
        volume, = [v for v in self.spec["volumes"] if v["name"] == mount["name"]]
        if "emptyDir" in volume:
            return ["--tmpfs", f"{mount['mountPath']}:mode=1777"]
        folder = FOLDER / self.name / mount["name"]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        settings = volume.get("projected") or volume.get("secret") or volume["configMap"]
        for source in settings.get("sources", [volume]):
            for name, text in data_of(source, self.objects).items():
                (folder / name).write_text(text)
                os.chown(folder / name, 0, group)
                (folder / name).chmod(settings.get("defaultMode", 0o644))
        return ["--volume", f"{folder}:{mount['mountPath']}:ro"]

    def start(self):
        """Creates it with a new address, under its names in the cluster."""
        self.address = f"10.203.48.{next(addresses)}"
        pod, own = self.spec["securityContext"], self.container["securityContext"]
        service = self.owner["spec"].get("serviceName")
        arguments = ["--name", self.name, "--hostname", self.name, "--network", NETWORK, "--ip", self.address,
                     "--user", str(pod["runAsUser"]), "--group-add", str(pod["fsGroup"])]
        if service:
            arguments += ["--network-alias", service, "--network-alias", f"{self.name}.{service}.default.svc"]
        if own["readOnlyRootFilesystem"]:
            arguments += ["--read-only", "--read-only-tmpfs=false"]
        if not own["allowPrivilegeEscalation"]:
            arguments += ["--security-opt", "no-new-privileges"]
        for each in own["capabilities"]["drop"]:
            arguments += ["--cap-drop", each.lower()]
        for each in self.environment():
            arguments += ["--env", each]
        for each in self.container["volumeMounts"]:
            arguments += self.mount(each)
        if "command" in self.container:
            arguments += ["--entrypoint", json.dumps(self.container["command"])]
        if self.owner["kind"] == "Job":
            arguments += ["--restart", f"on-failure:{self.owner['spec']['backoffLimit']}"]
        command = " ".join("'" + a.replace("'", "'\\''") + "'" for a in (*arguments, self.container["image"]))
        status, output = run(f"podman rm -f -t 0 -i {self.name}; podman run -d {command}")
        if status != 0:
            raise RuntimeError(f"podman run {command}: {output}")

    def stop(self):
        """As the kubelet does: SIGTERM, then a wait. Returns the exit status."""
        run(f"podman stop -t {self.spec.get('terminationGracePeriodSeconds', 30)} {self.name}")
        return run(f"podman inspect -f '{{{{.State.ExitCode}}}}' {self.name}")[1]

    def probe(self, kind):
        """True if the probe succeeds."""
        settings = self.container[kind]
        if "exec" in settings:
            return run(f"podman exec {self.name} {' '.join(settings['exec']['command'])}")[0] == 0
        port, = [p["containerPort"] for p in self.container["ports"] if p["name"] == settings["httpGet"]["port"]]
        return run(f"curl -sf http://{self.address}:{port}{settings['httpGet']['path']}")[0] == 0

    def log(self):
        """The end of its log."""
        return f"{self.name}:\n" + run(f"podman logs --tail 12 {self.name}")[1]
