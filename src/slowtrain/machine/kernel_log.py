"""The driver's own fault reports (XIDs) in the kernel's log, where this process may read it."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from typing import Any

SECONDS = 10.0
XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")


def kernel_log(said: str | None = None) -> dict[str, Any]:
    """``xids``: code -> how often, by PCI address; None with ``unmeasured`` where the log cannot be read."""
    if said is None:
        try:
            done = subprocess.run(["dmesg"], capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return {"xids": None, "unmeasured": "there is no dmesg here"}
        if done.returncode:
            return {"xids": None, "unmeasured": "dmesg is for root here: try sudo dmesg | grep -i xid"}
        said = done.stdout.decode(errors="replace")
        if not said.strip():
            return {"xids": None, "unmeasured": "dmesg shows nothing here"}
    counted = Counter((match[1], int(match[2])) for match in XID.finditer(said))
    return {
        "xids": [{"address": a, "code": code, "count": n} for (a, code), n in sorted(counted.items())],
        "unmeasured": None,
    }
