"""build.py: executes the Dockerfile instructions that clairon uses, in Debian roots."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
from fnmatch import fnmatch
from pathlib import Path

ROOT_TOOL = "tests/tools/debian-root.sh"
KNOWN = {"FROM", "ARG", "RUN", "COPY", "WORKDIR", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}


def instructions(path):
    """The (word, rest) of each line. Continued lines are joined, comments are omitted."""
    text = re.sub(r"(?m)^\s*#.*\n", "", Path(path).read_text())
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if not line.strip():
            continue
        word, rest = line.split(None, 1)
        if word not in KNOWN:
            raise ValueError(f"{path}: unknown instruction {word}")
        yield word, rest.strip()


class Stage:
    """One FROM: a root, and the settings of its containers."""

    def __init__(self, folder, base, inherited):
        self.folder = Path(folder)
        if base is not None:
            subprocess.run([ROOT_TOOL, "copy", str(base), str(folder)], check=True)
        self.env = dict(inherited.env if inherited else {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
        self.workdir = inherited.workdir if inherited else "/"
        self.user = inherited.user if inherited else "root"
        self.entrypoint, self.command = [], []

    def run(self, command):
        """RUN, in its shell form."""
        env = [f"{k}={v}" for k, v in self.env.items()]
        done = subprocess.run(
            [ROOT_TOOL, "run", str(self.folder), "env", "-i", "-C", self.workdir,
             "DEBIAN_FRONTEND=noninteractive", *env, "/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError("RUN failed:\n" + "\n".join(done.stdout.splitlines()[-25:]))

    def inside(self, path):
        """The path on this machine for a path in the container."""
        return self.folder / os.path.join(self.workdir, path).lstrip("/")

    def copy(self, sources, target):
        """COPY: a source folder means its contents; a target with a final slash is a folder."""
        into = self.inside(target)
        for source in sources:
            if source.is_dir():
                shutil.copytree(source, into, symlinks=True, dirs_exist_ok=True)
            elif target.endswith("/") or into.is_dir():
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, into / source.name)
            else:
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, into)


def make_context(folder):
    """The checkout without the files of .dockerignore."""
    rules = [r for r in Path(".dockerignore").read_text().split() if r]

    def keep(info):
        path = Path(info.name.removeprefix("./"))
        out = False
        for rule in rules:
            pattern = rule.removeprefix("!")
            anywhere = pattern.removeprefix("**/")
            for part in (path, *path.parents):
                if fnmatch(part.name, anywhere) if anywhere != pattern else (
                        fnmatch(str(part), pattern) and len(part.parts) == len(Path(pattern).parts)):
                    out = not rule.startswith("!")
        # An excluded folder may contain included files.
        if out and info.isdir() and any(rule.startswith(f"!{path}/") for rule in rules):
            return info
        return None if out else info

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    packed = folder.with_suffix(".tar")
    with tarfile.open(packed, "w") as archive:
        archive.add(".", ".", filter=keep)
    with tarfile.open(packed) as archive:
        archive.extractall(folder)
    packed.unlink()
    subprocess.run(["chmod", "-R", "a+rX,u+w", str(folder)], check=True)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "root:root", str(folder)], check=True)
    return folder


def build(path, context, bases, folder):
    """All stages of a Dockerfile, by name. `bases`: roots instead of base images."""
    stages, args, stage = {}, {}, None

    def filled(text):
        names = {**args, **(stage.env if stage else {})}
        return re.sub(r"\$\{(\w+)\}", lambda m: names.get(m.group(1), m.group(0)), text)

    for word, rest in instructions(path):
        if word == "ARG":
            name, _, value = rest.partition("=")
            args.setdefault(name, value)
        elif word == "FROM":
            base, _, name = filled(rest).split()
            earlier = stages.get(base)
            stage = Stage(folder / name, earlier.folder if earlier else bases[base].folder,
                          earlier or bases[base])
            stages[name] = stage
        elif word == "RUN":
            stage.run(rest)
        elif word == "COPY":
            parts = shlex.split(rest)
            origin = context
            if parts[0].startswith("--from="):
                origin = stages[parts.pop(0)[7:]].folder
            stage.copy([origin / p.lstrip("/") for p in parts[:-1]], parts[-1])
        elif word == "WORKDIR":
            stage.workdir = rest
            stage.inside(".").mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            stage.env.update(p.split("=", 1) for p in shlex.split(rest))
        elif word == "USER":
            stage.user = rest
        elif word == "ENTRYPOINT":
            stage.entrypoint, stage.command = json.loads(rest), []
        elif word == "CMD":
            stage.command = json.loads(rest)
    return stages
