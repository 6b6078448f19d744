"""Runs scripts as ``python`` does and as ``slowtrain run`` does, for comparison."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace

from .. import warm  # noqa: TID252  tests are no package

DRIVER = """
import sys
from pathlib import Path
from slowtrain.capture.process import launch
folder, windows, module, target, *arguments = sys.argv[1:]
command = launch.command_line(target, arguments, module == "1")
sys.exit(launch.run_recorded(command, Path(folder), windows=windows == "1").exit_code)
"""

# Each script runs as the main module, in its own folder, and writes "out", "err" and "code" there.
SERIES_DRIVER = """
import json, os, sys, traceback, types
from contextlib import nullcontext, redirect_stderr, redirect_stdout
mains = [sys.modules["__main__"]]
for folder, recorded, options in json.loads(sys.argv[1]):
    os.chdir(folder)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    mains.append(main)  # TensorFlow keeps functions that need its variables
    main.__file__, code = os.path.abspath("script.py"), 0
    with redirect_stdout(open("out", "w")) as out, redirect_stderr(open("err", "w")) as err, out, err:
        try:
            with __import__("slowtrain").record("runs", **options) if recorded else nullcontext():
                exec(compile(open(main.__file__).read(), main.__file__, "exec"), main.__dict__)
        except BaseException as error:
            traceback.print_exc()
            code = 130 if isinstance(error, KeyboardInterrupt) else 1
    open("code", "w").write(str(code))
"""


class Script(NamedTuple):
    text: str
    windows: bool = False
    on_nonfinite: str | None = None
    recorded: bool = True


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


def run_series(folder: Path, scripts: Mapping[str, Script], **env: str) -> dict[str, Done]:
    """Runs scripts one after another in one process, each in a block of ``slowtrain.record`` if it is recorded.

    TensorFlow is imported once, for all series; another framework once in each.
    """
    folders = {name: write(folder, script.text, f"{name}/script.py").parent for name, script in scripts.items()}
    given = [
        (str(folders[name]), script.recorded, {"windows": script.windows, "on_nonfinite": script.on_nonfinite})
        for name, script in scripts.items()
    ]
    command = [sys.executable, "-c", SERIES_DRIVER, json.dumps(given)]
    if sys.platform == "linux" and all("tensorflow" in script.text for script in scripts.values()):
        ended, said = warm.run(command, environment(**env), timeout_s=600.0)
    else:
        done = _run(command, folder, timeout_s=600.0, env=env)
        ended, said = done.code, done.err
    assert ended == 0, said
    found = {}
    for name, place in folders.items():
        code, out, err = (place.joinpath(file).read_text(encoding="utf-8") for file in ("code", "out", "err"))
        recordings = list(place.glob("runs/*"))
        assert len(recordings) == scripts[name].recorded, name
        found[name] = Done(int(code), out, err, *recordings or [place])
    return found


def loaded(done: Done) -> Trace:
    """The trace of a script that ended well, without a fault of ours."""
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    assert trace.facts.get("faults", []) == []
    return trace


def line(script: str, text: str) -> int:
    """The number of the first line with ``text``."""
    return next(i for i, one in enumerate(script.splitlines(), 1) if text in one)


def _run(
    command: list[str],
    folder: Path,
    stdin: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 170.0,
) -> Done:
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        cwd=cwd,
        env=environment(**(env or {})),
    )
    # The shell's view of a death by signal, which is also ours.
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Done(code, done.stdout, done.stderr, folder)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", **more}
