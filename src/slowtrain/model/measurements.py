"""Nouns of what was measured: cures that were tried, two runs compared, batch sizes, two devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slowtrain.model import Checkup, Effect, Saving, Verdict


@dataclass(frozen=True)
class Attempt:
    """One cure that was tried: ``kept`` or not, and ``why``.

    ``verdict`` is None if it could not be measured, because the candidate failed or no time was left. ``predicted`` is
    None for a patch of the user's. ``remark``: a note on the loss with a kept cure, if the loss is not identical to the
    bit. ``planned``: proven, and a plan in place of an edit; then it is not kept, and there is no reason against it.
    """

    name: str
    says: str
    effect: Effect | None
    predicted: Saving | None
    verdict: Verdict | None
    kept: bool
    why: str
    diff: str = ""
    remark: str = ""
    planned: bool = False


@dataclass(frozen=True)
class PlannedPacking:
    """Packing that ``fix`` proved on a sample of ``elements`` elements. Nothing is packed yet.

    ``plan`` is the file for ``slowtrain pack``, which will write ``bytes`` to ``output`` in about ``seconds``; both are
    None if the length of the data is unknown. ``pack``, ``verify`` and ``apply`` are the commands that follow, in this
    order.
    """

    plan: str
    output: str
    bytes: int | None
    seconds: float | None
    elements: int
    predicted: Saving | None
    measured: Verdict
    pack: str
    verify: str
    apply: str


@dataclass(frozen=True)
class ManualCure:
    """A prescription that was not applied, and the lines that it is about.

    ``needs``: the option that would apply it.
    """

    cause: str
    says: str
    effect: Effect
    where: tuple[str, ...] = ()
    needs: str | None = None


@dataclass(frozen=True)
class ChangedFile:
    """A file of the user's: its bytes when it was read, and with the cures that were kept."""

    path: Path
    before: bytes
    after: bytes


@dataclass(frozen=True)
class Proof:
    """All that was tried, in order, what it gives ``together``, and the patch.

    ``by_hand``: what a person has to do. ``limits``: side effects that a probe could not prevent. ``notes``: other
    observations. ``apply`` and ``undo`` are commands that apply the patch and revert it, from any folder; empty if
    there is no patch. ``packing``: None if it was not proven.
    """

    command: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    together: Verdict | None
    diff: str
    files: tuple[ChangedFile, ...]
    before: Checkup | None = None
    after: Checkup | None = None
    by_hand: tuple[ManualCure, ...] = ()
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    apply: str = ""
    undo: str = ""
    packing: PlannedPacking | None = None


@dataclass(frozen=True)
class Change:
    """A figure in two runs. ``noise``: 95 % half-width of each. ``real``: whether the difference exceeds the noise."""

    name: str
    before_ms: float
    after_ms: float
    before_noise_ms: float
    after_noise_ms: float
    real: bool

    @property
    def difference_ms(self) -> float:
        return self.after_ms - self.before_ms


@dataclass(frozen=True)
class Comparison:
    """Two runs: the mean steady step, its categories by the size of their change, and the phases of the whole runs.

    ``samples``: the samples of a mean step, if both runs' are known and differ. The step and its categories are then ms
    per thousand samples. ``run``: ms of the runs' phases; a phase of one run has no measurable noise. ``scripts``: what
    ran, if the names differ.
    """

    names: tuple[str, str]
    step: Change
    rows: tuple[Change, ...]
    samples: tuple[float, float] | None = None
    run: tuple[tuple[str, float, float], ...] = ()
    scripts: tuple[str, str] | None = None


@dataclass(frozen=True)
class Device:
    """Memory to fit into. ``source`` says where its size is from.

    ``known``: given by size (``given``), as a card of the table (``card``), or as this computer's (``here``).
    """

    name: str
    limit_bytes: int
    source: str
    known: str = "given"


@dataclass(frozen=True)
class Need:
    """The peak at one batch size, by what holds it; ``layers`` divides the activations."""

    batch: int
    peak_bytes: int
    parts: Mapping[str, int]
    layers: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class MemoryAnswer:
    """``largest_batch`` is None if no device was asked for, 0 if not even one sample fits.

    ``error_share``: the largest error of a peak predicted from smaller probes; None with two probes. ``tried``: each
    run under the device's limit, with its batch and whether it fitted. If only those runs gave the answer,
    ``largest_peak_bytes`` is None.
    """

    script: str
    allocator: str
    need: Need
    device: Device | None
    fits: bool | None
    largest_batch: int | None
    largest_peak_bytes: int | None
    measured: tuple[tuple[int, int], ...]  # (batch, peak bytes) of every probe
    error_share: float | None
    notes: tuple[str, ...] = ()
    tried: tuple[tuple[int, bool], ...] = ()


@dataclass(frozen=True)
class Point:
    """Steady steps at one batch size. The interval is that of the mean, over parts of the steps."""

    batch: int
    step_ms: float
    samples_per_s: float
    low: float
    high: float
    peak_bytes: int | None = None


@dataclass(frozen=True)
class BatchCurve:
    """Throughput over batch size, and its ``knee``: no doubling beyond it gained ``gain_share``.

    ``knee`` is None if it lies beyond the measured batches, or if no smaller batch or too few batches were measured
    (``still_gains`` distinguishes these). ``knee_low`` and ``knee_high``: the knee at the ends of the intervals.
    ``fixed_ms`` and ``ms_per_sample``: a line through the steps' times, with the range from leaving out any one point.
    ``measured_on``: kind and name of the device that took the steps. ``device``: the device for whose memory
    ``limit_batch`` is predicted.
    """

    script: str
    batch: int
    points: tuple[Point, ...]
    knee: int | None
    knee_low: int | None
    knee_high: int | None
    gain_share: float
    fixed_ms: float | None
    ms_per_sample: float | None
    fixed_low_ms: float | None = None
    fixed_high_ms: float | None = None
    limit_batch: int | None = None
    device: Device | None = None
    ended: str = ""  # why no further batch was tried
    measured_on: Mapping[str, str | None] = field(default_factory=dict)
    source_sha256: str | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def still_gains(self) -> bool:
        """Whether the last measured doubling gained ``gain_share``."""
        if len(self.points) < 2:
            return False
        before, last = self.points[-2:]
        return last.samples_per_s >= (1 + self.gain_share) * before.samples_per_s


@dataclass(frozen=True)
class Range:
    """A value with its 95 % interval; an end is infinite if the data set no bound."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Timing:
    """One process: ``start_s`` until its first step, the duration of that step, and the mean steady step."""

    setting: str
    batch: int
    start_s: float
    first_ms: float
    step_ms: float


@dataclass(frozen=True)
class Fit:
    """``a + b * batch`` in ms through the processes of one setting. ``off_share``: the largest deviation of a mean.

    ``drawn``: the line with its interval at batches up to the largest, for a chart.
    """

    fixed_ms: Range
    per_sample_ms: Range
    off_share: float
    processes: int
    drawn: tuple[tuple[float, Range], ...] = ()


@dataclass(frozen=True)
class Side:
    """One setting: its processes, the line through them, the parts of a step's time in ms, and the start in s.

    ``measured_on``: kind and name of the device that took its steps.
    """

    name: str
    timings: tuple[Timing, ...]
    fit: Fit | None
    start_s: Range
    first_ms: float
    parts: Mapping[str, float] = field(default_factory=dict)
    measured_on: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Overtaking:
    """At one batch: the faster side, its speed-up per step, and the steps after which it is ahead, start included."""

    batch: int
    faster: str
    speedup: Range
    steps: Range | None


@dataclass(frozen=True)
class Crossover:
    """Two sides. ``winner`` has the flatter line; it is faster from ``batch`` on. None if no line could be fitted."""

    script: str
    command: tuple[str, ...]
    source_sha256: str | None
    own_batch: int
    sides: tuple[Side, ...]
    winner: str | None
    batch: Range | None
    overtaking: tuple[Overtaking, ...]
    device: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
