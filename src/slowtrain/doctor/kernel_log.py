"""The driver's fault reports (XIDs) in the kernel's log, if this process may read it."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from typing import Any

MAX_LOG_READ_S = 10.0
XID_PATTERN = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")


LOG_COMMANDS = (("dmesg",), ("journalctl", "--dmesg", "--quiet", "--no-pager"))  # more users may read the journal


def read_xids(said: str | None = None) -> dict[str, Any]:
    """``xids``: code, count and PCI address; None with ``unmeasured`` if the log cannot be read."""
    why = None
    for command in LOG_COMMANDS if said is None else ():
        said, refused = _run_log_command(command)
        why = why or refused
        if said is not None:
            break
    if said is None:
        return {"xids": None, "unmeasured": why}
    counted = Counter((match[1], int(match[2])) for match in XID_PATTERN.finditer(said))
    return {
        "xids": [{"address": a, "code": code, "count": n} for (a, code), n in sorted(counted.items())],
        "unmeasured": None,
    }


def _run_log_command(command: Sequence[str]) -> tuple[str | None, str | None]:
    """What the command prints of the kernel's log, or why it prints nothing."""
    name = command[0]
    try:
        done = subprocess.run(command, capture_output=True, timeout=MAX_LOG_READ_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None, f"{name} is not installed here"
    if done.returncode:
        return None, f"{name} needs root here: try sudo {name} | grep -i xid"
    said = done.stdout.decode(errors="replace")
    return (said, None) if said.strip() else (None, f"{name} shows nothing here")
