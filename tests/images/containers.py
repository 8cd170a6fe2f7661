"""containers.py: starts the services of a compose file in roots as Docker does: read-only, without capabilities, as the image's user."""

import os
import signal
import subprocess
from pathlib import Path

# $1: the root. The mounts are read from standard input, as lines of KIND SOURCE TARGET; the other arguments are the
# command.
ENTER = r"""
root=$1; shift
mount --bind "$root" "$root"
while read -r kind source target; do
    case $kind in
        tmpfs) mkdir -p "$root$target"; mount -t tmpfs -o "$source" none "$root$target" ;;
        file) mkdir -p "$(dirname "$root$target")"; [ -e "$root$target" ] || : >"$root$target"
            mount --bind "$source" "$root$target"; mount -o remount,bind,ro "$root$target" ;;
        folder) mkdir -p "$root$target"; mount --bind "$source" "$root$target" ;;
        rest) mount --rbind "$source" "$root$target" ;;
    esac
done
mount -o remount,bind,ro "$root"
exec </dev/null chroot "$root" "$@"
"""


class Service:
    """One container of a service."""

    def __init__(self, name, settings, stage, files, scratch, extra):
        self.name, self.settings, self.stage = name, settings, stage
        self.files, self.scratch = files, Path(scratch)
        self.env = {**stage.env, **(settings.get("environment") or {}), **extra}
        self.log = self.scratch / f"{name}.log"
        self.process = None

    def mounts(self):
        """The mounts of the compose file."""
        for each in ("/proc", "/sys", "/dev"):
            yield f"rest {each} {each}"
        for entry in self.settings.get("tmpfs", []):
            target, _, options = entry.partition(":")
            yield f"tmpfs {options or 'mode=1777'} {target}"
        for secret in self.settings.get("secrets", []):
            yield f"file {self.files['secrets'][secret['source']]} /run/secrets/{secret['source']}"
        for config in self.settings.get("configs", []):
            yield f"file {self.files['configs'][config['source']]} {config['target']}"
        for volume in self.settings.get("volumes", []):
            yield f"folder {self.volume(volume['source'], volume['target'])} {volume['target']}"

    def volume(self, name, target):
        """A new volume has the owner and mode of the image's folder; for other images, the owner and mode that its user needs."""
        folder = self.scratch / "volumes" / name
        if not folder.exists():
            folder.mkdir(parents=True)
            like = self.stage.folder / target.lstrip("/")
            if not self.settings.get("user"):
                found = like.stat()
                os.chown(folder, found.st_uid, found.st_gid)
                folder.chmod(found.st_mode & 0o7777)
            else:
                user = self.user().split(":")
                os.chown(folder, int(user[0]), int(user[-1]))
        return folder

    def user(self):
        """The setting of the compose file, otherwise of the image."""
        return str(self.settings.get("user") or self.stage.user)

    def as_user(self):
        """The command prefix that runs a command in the container."""
        user, _, group = self.user().partition(":")
        rights = ["--reuid", user, "--regid", group or user, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
        rights.append("--clear-groups" if group else "--init-groups")
        env = [f"{k}={v}" for k, v in self.env.items()]
        return ["setpriv", *rights, "env", "-i", "HOME=/nonexistent", *env]

    def start(self):
        """The entry point with its arguments."""
        entry = self.settings.get("entrypoint") or self.stage.entrypoint
        command = self.settings.get("command") or self.stage.command
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec", ENTER, "-",
                 str(self.stage.folder), *self.as_user(), *entry, *command],
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.process.stdin.write("\n".join(self.mounts()) + "\n")
        self.process.stdin.close()

    def is_healthy(self):
        """Runs its health check."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended: {self.tail()}")
        test = self.settings["healthcheck"]["test"]
        assert test[0] == "CMD", test
        return self.run(test[1:])[0] == 0

    def run(self, command):
        """Status and output of an additional command, as with `docker exec`."""
        done = subprocess.run(
            ["nsenter", "--target", str(self.process.pid), "--mount", "--root", "--wd", *self.as_user(), *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        return done.returncode, done.stdout.strip()

    def stop(self):
        """Stops it with its stop signal; returns the exit status."""
        if self.process is None or self.process.poll() is not None:
            return None
        name = self.settings.get("stop_signal", "SIGTERM")
        self.process.send_signal(getattr(signal, name))
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def tail(self):
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
