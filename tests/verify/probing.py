"""Runs scripts as probes, and tells whether a folder is as it was."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Script


def write(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def probed(
    script: Path | str,
    *arguments: str,
    to: Path,
    texts: dict[str, str] | None = None,
    rule: Rule | None = None,
    limit_s: float = 120.0,
    module: bool = False,
    stdin: bytes | None = None,
    **options: Any,
) -> Probe:
    """A probe of ``script`` in a fresh folder below ``to``."""
    to.mkdir(parents=True, exist_ok=True)
    folder = to / f"probe-{len(list(to.iterdir()))}"
    return probe_process.run_probe(
        Script(str(script), arguments, module, stdin),
        Candidate("candidate" if texts else "baseline", texts or {}),
        rule or Rule(),
        folder,
        limit_s=limit_s,
        **options,
    )


def state(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Everything about what is in ``folder``: content, mode, time, size, links."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        about = path.lstat()
        content = ""
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = (content, oct(about.st_mode), about.st_mtime_ns, about.st_ino)
    return found


def plain(script: Path) -> str:
    """Runs it as ``python`` does; what went wrong, nothing if all went well."""
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    return done.stderr[-2000:] if done.returncode else ""
