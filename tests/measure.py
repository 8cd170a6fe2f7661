#!/usr/bin/env python3
"""measure.py FILE COMMAND..: runs COMMAND and writes its wall and CPU seconds to FILE.

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
# The command receives the signal too and stops its servers.
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, lambda *_: None)
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
command = subprocess.Popen(sys.argv[2:])
status = None
while status is None:
    pid, ended = os.wait()
    if pid == command.pid:
        status = os.waitstatus_to_exitcode(ended)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    file.write(f"{time.monotonic() - began:.1f} {used.ru_utime + used.ru_stime:.1f}\n")
sys.exit(status if status >= 0 else 128 - status)
