#!/usr/bin/python3
"""parallel.py: runs test files in parallel and prints the output of each when it ends.

    tests/e2e/parallel.py FILE..

Each file is a process with a separate demo and browser. CLAIRON_E2E_JOBS sets the number of parallel files (default:
one per core, and one more). Until a file ends, its output is in build/work/log/e2e.
"""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

FILE_SECONDS = 1500
# The longest tests start first.
LONGEST = ("test_tabs.py", "test_console.py", "test_tour.py")
LOGS = Path(os.environ["CLAIRON_WORK"]) / "log" / "e2e"


def run(file):
    """Runs one file; returns its name, duration and output."""
    began = time.monotonic()
    log = LOGS / f"{Path(file).stem}.log"
    with open(log, "wb") as out:
        child = subprocess.Popen(
            [sys.executable, file, "-v"], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    late = not ends_within(child, FILE_SECONDS)
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
        # The running files are in this process group and have received the signal too; they print their output so far.
        signal.signal(signal.SIGINT, lambda *_: [waiting.cancel() for waiting in runs])
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
