"""The frameworks' own profilers, for a few steps. There is only one at a time in a process, and the user's goes first.

Each of these starts one, and gives what ends it and writes its file where TensorBoard and the reader look for it;
None where the user's own is at work, or nothing that has one was imported.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slowtrain.capture import jax

USERS_PROFILER = "tensorflow.python.profiler.profiler_v2"
OPTIONS = {"host_tracer_level": 2, "device_tracer_level": 1, "python_tracer_level": 0}
# Not the programs themselves, which are megabytes of a large model.
JAX_OPTIONS = {**OPTIONS, "enable_hlo_proto": False}
JAX_PROFILER = "jax._src.profiler"

End = Callable[[], None]


def begin(folder: Path) -> End | None:
    """Starts the profiler of the framework that computes."""
    if jax.at_work() is not None:
        return _jax(folder)
    return _tensorflow(folder) if "tensorflow" in sys.modules else None


def _tensorflow(folder: Path) -> End | None:
    if getattr(sys.modules.get(USERS_PROFILER), "_profiler", None) is not None:
        return None
    from tensorflow.python.profiler.internal import _pywrap_profiler

    session = _pywrap_profiler.ProfilerSession()
    session.start(str(folder), OPTIONS)

    def end() -> None:
        session.export_to_tb()

    return end


def _jax(folder: Path) -> End | None:
    module: Any = sys.modules.get(JAX_PROFILER)
    if module is None or getattr(module._profile_state, "profile_session", None) is not None:
        return None
    # jaxlib's own class, which jax.profiler.start_trace makes an object of; older versions keep it in xla_client.
    native = getattr(module, "_profiler", None) or module.xla_client.profiler
    options = native.ProfileOptions()
    for name, level in JAX_OPTIONS.items():
        if hasattr(options, name):
            setattr(options, name, level)
    session = native.ProfilerSession(options)

    def end() -> None:
        write(folder, session.stop())

    return end


def write(folder: Path, space: bytes) -> None:
    """The file as a whole or none: a killed process leaves no half of one."""
    inside = folder / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
    inside.mkdir(parents=True, exist_ok=True)
    part = inside / "profile.part"
    part.write_bytes(space)
    os.replace(part, inside / f"{socket.gethostname()}.xplane.pb")
