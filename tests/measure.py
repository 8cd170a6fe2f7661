#!/usr/bin/env python3
"""measure.py FILE COMMAND..: runs COMMAND and writes its wall and CPU seconds to FILE.
measure.py --append FILE COMMAND..: adds a line with the seconds and the last argument, a test file, to FILE.

Orphaned servers count too, because this process becomes their parent instead of init.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36

began = time.monotonic()
appends = sys.argv[1] == "--append"
path, *arguments = sys.argv[2:] if appends else sys.argv[1:]
# The command receives the signal too and stops its servers.
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, lambda *_: None)
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
command = subprocess.Popen(arguments)
status = None
while status is None:
    pid, ended = os.wait()
    if pid == command.pid:
        status = os.waitstatus_to_exitcode(ended)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(path, "a" if appends else "w") as file:
    line = f"{time.monotonic() - began:.1f} {used.ru_utime + used.ru_stime:.1f}"
    file.write(f"{line} {arguments[-1]}\n" if appends else f"{line}\n")
sys.exit(status if status >= 0 else 128 - status)
