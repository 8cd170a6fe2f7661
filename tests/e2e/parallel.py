#!/usr/bin/python3
"""parallel.py: runs test files in parallel and prints the output of each when it ends.

    tests/e2e/parallel.py FILE..

Each file, or group of files, is a process with a separate demo and browser. CLAIRON_E2E_JOBS sets the number of
parallel processes (default: one per core, and one more). Until a process ends, its output is in build/work/log/e2e.
"""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path

GROUP_SECONDS = 1500
# Files that share a demo and a browser, because these cost more than most tests; the longest groups start first. A
# demo restarts its relay five times.
GROUPS = (
    ("test_tabs.py", "test_network.py"),
    ("test_console.py", "test_console_errors.py"),
    ("test_tour.py",),
    ("test_app.py", "test_bank.py", "test_eportfolio.py", "test_storm.py", "test_bank_actor.py"),
    ("test_messages.py", "test_examples.py", "test_fallback.py"),
)
LOGS = Path(os.environ["CLAIRON_WORK"]) / "log" / "e2e"
RUNNING = []  # processes of the running groups


def run(files):
    """Runs the files of a group; returns the status and the output with their names and duration."""
    began = time.monotonic()
    log = LOGS / f"{Path(files[0]).stem}.log"
    names = ",".join(files)
    wait_for_cpu()
    with open(log, "wb") as out:
        child = start(files, out)
    late = not ends_within(child, GROUP_SECONDS)
    RUNNING.remove(child)
    if late:
        child.send_signal(signal.SIGINT)  # like Ctrl-C, so that the tests stop their servers
        if not ends_within(child, 60):
            child.kill()
            child.wait()
    output = log.read_text(errors="replace").rstrip("\n")
    if late:
        output += f"\nnot ok - stopped after {GROUP_SECONDS} s: {names}"
    elif child.returncode != 0 and "\nRan " not in output:
        output += f"\nnot ok - {names} ended with status {child.returncode} before its first result"
    return child.returncode, f"# {time.monotonic() - began:.1f} s {names}\n{output}"


def runnable():
    """The mean number of runnable processes without this process (proc_loadavg(5))."""
    counts = []
    for _ in range(5):
        counts.append(int(Path("/proc/loadavg").read_text().split()[3].split("/")[0]) - 1)
        time.sleep(0.06)
    return sum(counts) / len(counts)


def wait_for_cpu():
    """Waits at most 30 s while the CPUs are busy, as tests/perl/Clairon/Test/FreeCpu.pm does."""
    deadline = time.monotonic() + 30
    while runnable() > len(os.sched_getaffinity(0)) and time.monotonic() < deadline:
        time.sleep(random.random())


def start(files, out):
    """Starts a group in its own session, because the kernel divides CPU time between sessions: in a common one, browsers
    are slow beside the many servers of other tests. It stops, like on Ctrl-C, when this process ends."""
    names = [Path(file).name for file in files]
    command = ["setpriv", "--pdeathsig", "INT", sys.executable, "-m", "unittest", "-v", *names]
    folder = Path(files[0]).parent
    child = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
    )
    RUNNING.append(child)
    return child


def interrupt(waiting):
    """Starts no more groups and interrupts the running groups, which print their output so far."""
    for each in waiting:
        each.cancel()
    for child in list(RUNNING):
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(child.pid, signal.SIGINT)


def ends_within(child, seconds):
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def main(files):
    LOGS.mkdir(parents=True, exist_ok=True)
    groups = {group: [] for group in GROUPS}
    for file in files:
        name = Path(file).name
        groups.setdefault(next((group for group in GROUPS if name in group), name), []).append(file)
    jobs = int(os.environ.get("CLAIRON_E2E_JOBS") or 1 + len(os.sched_getaffinity(0)))
    failed = False
    with ThreadPoolExecutor(jobs) as pool:
        runs = [pool.submit(run, group) for group in groups.values() if group]
        signal.signal(signal.SIGINT, lambda *_: interrupt(runs))
        for ended in as_completed(runs):
            if ended.cancelled():
                failed = True
                continue
            status, output = ended.result()
            print(output, flush=True)
            failed |= status != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
