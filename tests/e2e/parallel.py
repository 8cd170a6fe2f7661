#!/usr/bin/python3
"""parallel.py: runs test files in parallel and prints the output of each when it ends.

    tests/e2e/parallel.py FILE..

Each file is a process with a separate demo and browser. CLAIRON_E2E_JOBS sets the number of parallel files (default:
one per core, and one more). Until a file ends, its output is in build/work/log/e2e.
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

FILE_SECONDS = 1500
# The longest tests start first.
LONGEST = ("test_tabs.py", "test_console.py", "test_tour.py")
LOGS = Path(os.environ["CLAIRON_WORK"]) / "log" / "e2e"
RUNNING = []  # processes of the running files


def run(file):
    """Runs one file; returns its name, duration and output."""
    began = time.monotonic()
    log = LOGS / f"{Path(file).stem}.log"
    wait_for_cpu()
    with open(log, "wb") as out:
        child = start(file, out)
    late = not ends_within(child, FILE_SECONDS)
    RUNNING.remove(child)
    if late:
        child.send_signal(signal.SIGINT)  # like Ctrl-C, so that the file stops its servers
        if not ends_within(child, 60):
            child.kill()
            child.wait()
    output = log.read_text(errors="replace").rstrip("\n")
    if late:
        output += f"\nnot ok - stopped after {FILE_SECONDS} s: {file}"
    elif child.returncode != 0 and "\nRan " not in output:
        output += f"\nnot ok - {file} ended with status {child.returncode} before its first result"
    return child.returncode, f"# {time.monotonic() - began:.1f} s {file}\n{output}"


def runnable():
    """The mean number of runnable processes without this one (proc_loadavg(5))."""
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


def start(file, out):
    """Starts a file in its own session, because the kernel divides CPU time between sessions: in a common one, browsers
    are slow beside the many servers of other tests. It stops, like on Ctrl-C, when this process ends."""
    command = ["setpriv", "--pdeathsig", "INT", sys.executable, file, "-v"]
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
    )
    RUNNING.append(child)
    return child


def interrupt(waiting):
    """Starts no more files and interrupts the running ones; they print their output so far."""
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
    files = sorted(files, key=lambda file: not file.endswith(LONGEST))
    jobs = int(os.environ.get("CLAIRON_E2E_JOBS") or 1 + len(os.sched_getaffinity(0)))
    failed = False
    with ThreadPoolExecutor(jobs) as pool:
        runs = [pool.submit(run, file) for file in files]
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
