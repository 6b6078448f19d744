"""Nouns of the live view: one frame of a run in progress, and its alerts.

What was not measured is None or empty, never zero. Times are ms from the start of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from slowtrain.shared.vocabulary import EMPTY_NUMBERS, Part, Place


class RunState(str, Enum):
    """The state of the run."""

    STARTING = "starting"  # no step yet
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"  # the process is gone and recorded no end
    CUT = "recording ended"  # the script continues without recording, for example because of a full disk

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Alert:
    """Something that a person who watches should know, with the measured figures. ``over_ms``: when it ended.

    ``id`` is a cause's id if it comes from the diagnosis of the recording so far, else a plain word (``stall``).
    """

    id: str
    says: str
    at_ms: float
    urgent: bool = False
    numbers: Mapping[str, float] = field(default_factory=lambda: EMPTY_NUMBERS)
    where: tuple[Place, ...] = ()
    over_ms: float | None = None


@dataclass(frozen=True)
class FoundCause:
    """A cause in the recording so far: id, title, and the speed-up that its cure gives to its scope."""

    cause: str
    title: str
    speedup: float
    scope: str


@dataclass(frozen=True)
class DiagnosisReport:
    """What the causes found when the recording was ``at_ms`` long."""

    at_ms: float
    alerts: tuple[Alert, ...] = ()
    found: tuple[FoundCause, ...] = ()
    signs: tuple[tuple[str, str], ...] = ()  # a cause, and a rule that is a cheap sign of it


@dataclass(frozen=True)
class Curve:
    """A figure over time at equal intervals; None if nothing was measured."""

    values: tuple[float | None, ...] = ()
    start_ms: float = 0.0
    end_ms: float = 0.0

    @property
    def known_values(self) -> tuple[float, ...]:
        return tuple(v for v in self.values if v is not None)


@dataclass(frozen=True)
class StepTime:
    """``now_ms``: median of the last ``window_ms``. ``run_ms``: median of the run. ``slow_ms``: 95th percentile."""

    now_ms: float | None = None
    run_ms: float | None = None
    slow_ms: float | None = None
    samples_per_s: float | None = None
    over_run: Curve = Curve()
    lately: Curve = Curve()


@dataclass(frozen=True)
class Gpu:
    name: str
    util_share: float | None = None
    used_bytes: float | None = None
    total_bytes: float | None = None
    celsius: float | None = None
    watts: float | None = None


@dataclass(frozen=True)
class Machine:
    """The run's process and its machine, now."""

    rss_bytes: float | None = None
    available_bytes: float | None = None
    limit_bytes: float | None = None  # total memory of the machine or the container
    rss: Curve = Curve()
    cores: float | None = None  # processors used by this process, over the window
    usable_cores: float | None = None
    gpus: tuple[Gpu, ...] = ()
    disk_free_bytes: float | None = None
    disk_bytes: float | None = None
    recording_bytes: float | None = None


@dataclass(frozen=True)
class Progress:
    """``left_ms`` of the current loop is None if the run does not say how long it is.

    For a loop written in the script (``loop``), its text says ``planned`` steps, or ``epochs``. ``at_most``: it may end
    earlier.
    """

    steps: int | None = None
    epoch: int | None = None  # the current one, from 1
    epochs: int | None = None
    epoch_step: int | None = None
    steps_per_epoch: int | None = None
    left_ms: float | None = None
    logs: Mapping[str, float] = field(default_factory=dict)  # of the last epoch that ended
    planned: int | None = None
    loop: str = ""
    at_most: bool = False


@dataclass(frozen=True)
class Frame:
    """One look. ``parts``: where a step of the last ``window_ms`` goes. ``why``: the reason if it is empty."""

    folder: str
    command: str
    state: RunState
    run_ms: float
    source: str = ""
    exit_code: int | None = None
    ended: str = ""
    progress: Progress = Progress()
    step: StepTime = StepTime()
    window_ms: float = 0.0
    parts: tuple[Part, ...] = ()
    why: str = ""
    machine: Machine = Machine()
    doing: Place | None = None
    doing_what: str = ""
    alerts: tuple[Alert, ...] = ()
    found: tuple[FoundCause, ...] = ()
    examined_ms: float | None = None  # length of the recording when it was last examined
    started_at: float | None = None  # seconds since 1970
