"""Runs scripts as ``python`` does and as ``slowtrain run`` does, for comparison."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DRIVER = """
import sys
from pathlib import Path
from slowtrain.capture.process import launch
folder, windows, module, target, *arguments = sys.argv[1:]
command = launch.command_line(target, arguments, module == "1")
sys.exit(launch.run_recorded(command, Path(folder), windows=windows == "1").exit_code)
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str
    folder: Path


def write(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def recorder(
    folder: Path, target: str | Path, *arguments: str, module: bool = False, windows: bool = True
) -> list[str]:
    """The command line that records a script into ``folder``, which it makes."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["1" if flag else "0" for flag in (windows, module)]
    return [sys.executable, "-c", DRIVER, str(folder), *flags, str(target), *arguments]


def plain(target: str | Path, *arguments: str, module: bool = False, **options: Any) -> Done:
    command = [sys.executable, *(["-m"] if module else []), str(target), *arguments]
    return _run(command, Path(), **options)


def recorded(
    folder: Path, target: str | Path, *arguments: str, module: bool = False, windows: bool = True, **options: Any
) -> Done:
    return _run(recorder(folder, target, *arguments, module=module, windows=windows), folder, **options)


def _run(
    command: list[str], folder: Path, stdin: str = "", cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Done:
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
        cwd=cwd,
        env=environment(**(env or {})),
    )
    # The shell's view of a death by signal, which is also ours.
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Done(code, done.stdout, done.stderr, folder)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **more}
