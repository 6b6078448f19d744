"""What an accelerator and the framework's threads did, in ms per step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from slowtrain.model import Bar, IdleGap, Place


class PageableCopies(Struct, frozen=True):
    """Copies from or to pageable host memory, which the driver first copies into pinned memory."""

    bytes: float
    ms: float
    exposed_ms: float


class DirectionCopies(Struct, frozen=True):
    """Copies of one direction per step: count, bytes, time, and the part of the time that no kernel hides."""

    count: float
    bytes: float
    ms: float
    exposed_ms: float
    pageable: PageableCopies | None = None  # set if the profile gives the kind of memory of every copy


class WindowSteps(Struct, frozen=True):
    """Steps of a recording's profiler window: mean length, and idle time by reason in ms per step.

    The profiler makes the host's part of these steps longer than in other steps.
    """

    steps: int
    step_ms: float
    idle: Mapping[str, float] = field(default_factory=dict)


class Device(Struct, frozen=True):
    """What an accelerator did in the steps of a profile, in ms per step.

    ``kernel_ms`` is summed over streams, ``busy_ms`` is their union. ``by_kernel`` and ``by_op`` give ``(ms,
    count)``. ``idle`` is idle ms by reason, ``gaps`` are the longest idle gaps. ``precision`` is kernel ms by number
    format, as far as kernel names show it. ``matrix_ms`` is the same for matrix products and convolutions,
    ``tensor_core_ms`` the part of it on tensor cores. ``places`` are the user's lines of some ops.
    """

    name: str
    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 0
    step_ms: float = 0.0
    busy_ms: float = 0.0
    kernel_ms: float = 0.0
    kernels: float = 0.0
    median_kernel_us: float = 0.0
    by_kernel: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    by_op: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    copies: Mapping[str, DirectionCopies] = field(default_factory=dict)
    idle: Mapping[str, float] = field(default_factory=dict)
    gaps: tuple[IdleGap, ...] = ()
    precision: Mapping[str, float] = field(default_factory=dict)
    matrix_ms: Mapping[str, float] = field(default_factory=dict)
    tensor_core_ms: float = 0.0
    launch_delay_us: float | None = None  # median delay from the host's call to the kernel's start
    queued_share: float | None = None  # kernels whose call returned before the previous kernel ended
    places: Mapping[str, tuple[Place, ...]] = field(default_factory=dict)
    # Set for a recording. Then ``step_ms`` and ``idle`` describe the steps outside the profiler window.
    profiled: WindowSteps | None = None
    buffered_kernels: float = 0.0  # in command buffers, which are launched one by one only under the profiler

    @property
    def idle_ms(self) -> float:
        return sum(self.idle.values())

    @property
    def launches(self) -> float:
        """Calls per step that start kernels without the profiler, which turns XLA's command buffers off."""
        return self.kernels - self.buffered_kernels + min(self.buffered_kernels, 1.0)

    def profiled_idle(self, reason: str) -> tuple[float, float]:
        """Return the idle ms of a profiled step for this reason, and the length of that step."""
        if self.profiled is not None:
            return self.profiled.idle.get(reason, 0.0), self.profiled.step_ms
        return self.idle.get(reason, 0.0), self.step_ms


class Line(Struct, frozen=True):
    """The self time of a user's line, measured by tracing lines. Ms and visits are per step or call."""

    place: Place
    ms: float
    visits: float
    share: float


class Kernels(Struct, frozen=True):
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


class Producer(Struct, frozen=True):
    """A Python function that makes input: its place, its cost per step, its costliest lines."""

    kind: str
    qualname: str
    place: Place | None
    ms_per_step: float
    calls_per_step: float
    lines: tuple[Line, ...] = ()
