"""Starts the frameworks' own profilers for a few steps.

There is only one profiler at a time in a process, and the user's has priority. Each function here starts one. It
returns a function that ends it and writes its file where TensorBoard and the reader look for it. It returns None if
the user's profiler is active, or if no framework with a profiler was imported.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slowtrain.capture.jax import keras_backend

TENSORFLOW_PROFILER = "tensorflow.python.profiler.profiler_v2"
PROFILER_OPTIONS = {"host_tracer_level": 2, "device_tracer_level": 1, "python_tracer_level": 0}
JAX_PROFILER_OPTIONS = {
    **PROFILER_OPTIONS,
    "enable_hlo_proto": True,
}  # XLA's programs: layers, shapes and lines of the device's kernels
MAX_PROFILE_BYTES = 24 << 20  # with the programs, which contain the arrays that a compiled function closed over
PROGRAMS_PLANE = b"\x12\x0e/host:metadata"  # the name of the plane that contains them, as encoded in the file
JAX_PROFILER = "jax._src.profiler"

EndProfile = Callable[[], None]


def begin_profile(folder: Path) -> EndProfile | None:
    """Starts the profiler of the framework that computes."""
    if keras_backend.active_jax() is not None:
        return begin_jax_profile(folder, JAX_PROFILER_OPTIONS)
    return _begin_tensorflow_profile(folder) if "tensorflow" in sys.modules else None


def _begin_tensorflow_profile(folder: Path) -> EndProfile | None:
    if getattr(sys.modules.get(TENSORFLOW_PROFILER), "_profiler", None) is not None:
        return None
    from tensorflow.python.profiler.internal import _pywrap_profiler

    session = _pywrap_profiler.ProfilerSession()
    session.start(str(folder), PROFILER_OPTIONS)

    def end() -> None:
        session.export_to_tb()

    return end


def begin_jax_profile(folder: Path, options: Mapping[str, int]) -> EndProfile | None:
    module: Any = sys.modules.get(JAX_PROFILER)
    if module is None or getattr(module._profile_state, "profile_session", None) is not None:
        return None
    # jaxlib's own class, which jax.profiler.start_trace uses; older versions have it in xla_client.
    native = getattr(module, "_profiler", None) or module.xla_client.profiler
    profile_options = native.ProfileOptions()
    for name, level in options.items():
        if hasattr(profile_options, name):
            setattr(profile_options, name, level)
    session = native.ProfilerSession(profile_options)

    def end() -> None:
        space = session.stop()
        write_profile(folder, space if len(space) <= MAX_PROFILE_BYTES else without_programs(space))

    return end


def without_programs(space: bytes) -> bytes:
    """Removes the plane of XLA's programs from an XSpace. Planes are fields of the outermost message."""
    parts, at = [], 0
    while at < len(space):
        begin, tag = at, space[at]
        length = shift = 0
        while True:  # the field's length, seven bits in each byte
            at += 1
            length |= (space[at] & 0x7F) << shift
            shift += 7
            if space[at] < 0x80:
                break
        body = at + 1
        at = body + length
        if tag & 7 != 2:
            return space  # an unknown format
        if PROGRAMS_PLANE not in space[body : min(body + 64, at)]:
            parts.append(space[begin:at])
    return b"".join(parts)


def write_profile(folder: Path, space: bytes) -> None:
    """Writes the file atomically, so that a killed process leaves no partial file."""
    inside = folder / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
    inside.mkdir(parents=True, exist_ok=True)
    part = inside / "profile.part"
    part.write_bytes(space)
    os.replace(part, inside / f"{socket.gethostname()}.xplane.pb")
