"""Op executions, user's lines and producers of input, per step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slowtrain.model import Bar, Place


@dataclass(frozen=True)
class Line:
    """The self time of a user's line, measured by tracing lines. Ms and visits are per step or call."""

    place: Place
    ms: float
    visits: float
    share: float


@dataclass(frozen=True)
class Kernels:
    """Op executions inside the deep windows, per step.

    ``ms`` is op time summed over threads, ``busy_ms`` is their union. ``by_type`` and ``by_name`` give ``(ms,
    count)`` per step. ``wait_ms`` is the time in the iterator's op, ``eager_ms`` that of kernels which Python started
    one by one (``eager_ops`` of them). All times are ms per step; ``bars`` is one step drawn.
    """

    steps: int
    step_ms: float
    busy_ms: float
    ms: float
    count: float
    wait_ms: float
    by_type: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    by_name: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    eager_ops: float = 0.0
    eager_ms: float = 0.0
    function_ms: float = 0.0
    bars: tuple[Bar, ...] = ()
    eager_work_ms: float = 0.0  # part of eager_ms beyond the usual op, most of which compute almost nothing
    by_input: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # ops in the input pipeline's threads
    peers_ms: float = 0.0  # ops wait for other training processes, and none computes
    input_calls: float | None = None  # function calls per step in these threads; None: unknown


@dataclass(frozen=True)
class Producer:
    """A Python function that makes input: its place, its cost per step, its costliest lines."""

    kind: str
    qualname: str
    place: Place | None
    ms_per_step: float
    calls_per_step: float
    lines: tuple[Line, ...] = ()
