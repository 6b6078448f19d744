"""The nouns of a checkup, in the order in which data flows through them.

    Recording -> Trace -> Evidence -> Diagnosis -> Prescription -> Verdict -> Checkup

All values are frozen, and only other nouns are imported here. A ``_ms`` is milliseconds, a ``_bytes`` bytes, a
``_share`` 0 to 1. The nouns of other answers are in ``measurements`` (fix, verify, compare, memory, batch, crossover)
and ``inspections`` (lint, doctor); those that the recorder needs too are in ``slowtrain.shared``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from slowtrain.shared.vocabulary import CATEGORY_PHRASES as CATEGORY_PHRASES
from slowtrain.shared.vocabulary import EMPTY_NUMBERS as EMPTY_NUMBERS
from slowtrain.shared.vocabulary import Category as Category
from slowtrain.shared.vocabulary import Effect as Effect
from slowtrain.shared.vocabulary import Part as Part
from slowtrain.shared.vocabulary import Phase as Phase
from slowtrain.shared.vocabulary import Place as Place
from slowtrain.shared.vocabulary import Signal as Signal
from slowtrain.shared.vocabulary import Text as Text
from slowtrain.shared.vocabulary import VerdictKind as VerdictKind


class Evidence(Struct, frozen=True):
    """Why a cause is present: one sentence, its numbers (whose names carry their unit), and the lines to look at."""

    says: str
    numbers: Mapping[str, float] = EMPTY_NUMBERS
    where: tuple[Place, ...] = ()


class Saving(Struct, frozen=True):
    """What curing a cause saves, of a steady ``step`` or of the whole ``run``.

    ``low`` and ``high`` bound the speed-up; 9 of 10 measured speed-ups should lie between them.
    """

    scope: str
    before_ms: float
    after_ms: float
    low: float
    high: float

    @property
    def ms(self) -> float:
        return self.before_ms - self.after_ms

    @property
    def speedup(self) -> float:
        return self.before_ms / self.after_ms if self.after_ms > 0 else 1.0


class Edit(Struct, frozen=True):
    """Replaces the text from ``start`` to ``end`` of ``file`` with ``text``; an insertion if both places are the same.

    Places are ``(line, column)`` as in :mod:`ast`: lines from 1, columns in UTF-8 bytes from 0.
    """

    file: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


# Kinds of cures. `fix` proves edits that it can make and treatments; `verify` proves an edit or a setting that a
# person makes; nothing proves advice, whose saving is a forecast.
CURE_KINDS = ("edit", "treatment", "setting", "advice")


class Prescription(Struct, frozen=True):
    """What to do, of one of the ``CURE_KINDS``.

    ``edits`` belong together and make the change; they are empty if a person has to make it. Those of a setting are its
    part of the script. ``diff`` is the change as
    text. ``treatment`` names a change of the running script with the same effect. ``later``: the gain begins after the
    first epoch.
    """

    kind: str
    effect: Effect
    says: str
    diff: str | None = None
    edits: tuple[Edit, ...] = ()
    later: bool = False
    treatment: str | None = None

    @property
    def can_be_tried(self) -> bool:
        """Whether ``fix`` can make it alone. A setting needs more than its edits, which a person starts."""
        return self.kind != "setting" and bool(self.edits or self.treatment)


class Spot(Struct, frozen=True):
    """A cause as it shows in a file's text, from ``start`` to ``end`` (places as in :class:`Edit`).

    ``minor``: its cure saves little of a training, whatever the file trains. ``worth_if``: what its worth depends on,
    if the text does not say that.
    """

    start: tuple[int, int]
    end: tuple[int, int]
    says: str
    prescription: Prescription | None = None
    minor: bool = False
    worth_if: str | None = None


class Verdict(Struct, frozen=True):
    """The measured effect of a cure, on a steady ``step`` or on the whole ``run`` (``scope``).

    ``first_step_s``: mean time from process start to the end of the first step, without and with the cure.
    """

    outcome: str
    speedup: float
    low: float
    high: float
    runs: int
    loss: str
    scope: str = "step"
    first_step_s: tuple[float, float] | None = None


class Diagnosis(Struct, frozen=True):
    """A cause that was found. ``run_share`` is the share of the whole run that its cure would save."""

    cause: str
    title: str
    evidence: Evidence
    saving: Saving
    run_share: float
    prescriptions: tuple[Prescription, ...] = ()
    verdict: Verdict | None = None


class Unchecked(Struct, frozen=True):
    """A cause that could not be judged, with the signals that were not measured."""

    cause: str
    missing: tuple[str, ...]


class SeenInSource(Struct, frozen=True):
    """What ``slowtrain lint`` finds in the script's text, and what the run says about it.

    ``state`` is ``confirmed``, ``harmless`` in this run, or ``not reached``; None if the run does not tell.
    ``ms_per_step`` and ``run_ms``: what the cure of a confirmed finding would save.
    """

    cause: str
    place: Place
    says: str
    state: str | None = None
    ms_per_step: float | None = None
    run_ms: float | None = None


class Attribution(Struct, frozen=True):
    """A total and its ``parts``, which add up to ``total_ms``."""

    total_ms: float
    parts: tuple[Part, ...]

    def ms(self, name: str) -> float:
        return sum(p.ms for p in self.parts if p.name == name)

    def share(self, name: str) -> float:
        return self.ms(name) / self.total_ms if self.total_ms else 0.0


class StepSummary(Struct, frozen=True):
    """Steady steps. ``warmup`` counts the steps left out at the start. None means not measured."""

    counted: int
    warmup: int
    median_ms: float | None
    p95_ms: float | None
    samples_per_second: float | None


class Subject(Struct, frozen=True):
    """What was examined. ``computer``: how a profile's computer was judged, or why it was not."""

    kind: str
    path: str
    command: tuple[str, ...] = ()
    exit_code: int | None = None
    framework: Mapping[str, str | None] = field(default_factory=dict)
    device: Mapping[str, str | int | None] = field(default_factory=dict)
    computer: str | None = None


class WindowCost(Struct, frozen=True):
    """The cost of a profiler window: duration of its steps relative to other steps (1.0 is no cost)."""

    steps: int
    inflation: float | None


class Overhead(Struct, frozen=True):
    """The recorder's own share of the run's wall time, as it measured itself."""

    share: float | None
    windows: tuple[WindowCost, ...] = ()


class IdleGap(Struct, frozen=True):
    """A stretch in which the device was idle. ``reason`` accounts for ``share`` of it; ``detail`` explains it."""

    start_ms: float  # from the start of the first step
    ms: float
    reason: str
    share: float
    detail: str


class OpTime(Struct, frozen=True):
    """A device's op, kernel or copy, per step: ms, executions, bytes, and its share of the table."""

    name: str
    ms: float
    count: float
    share: float
    bytes: float | None = None


class Reached(Struct, frozen=True):
    """Achieved rate of ops with known shapes: bytes of ``memory``, or operations in a number format, per second."""

    what: str
    ms: float  # per step, of these ops
    per_second: float
    peak: float | None  # of the device; None if unknown


class DeviceUse(Struct, frozen=True):
    """What the device did, in ms per step. ``idle`` adds up the reasons for which it was idle.

    For a recording, ``idle`` belongs to a step outside the profiler's window, ``gaps`` to steps inside it.
    """

    name: str
    kind: str
    busy_share: float
    kernels: float
    median_kernel_us: float
    launch_delay_us: float | None
    queued_share: float | None
    idle: Attribution
    gaps: tuple[IdleGap, ...] = ()
    ops: tuple[OpTime, ...] = ()
    copies: tuple[OpTime, ...] = ()  # by direction; the share is the part during which no kernel ran
    reached: tuple[Reached, ...] = ()


class Chart(Struct, frozen=True):
    """A series for a report; ``x`` and ``y`` have the same length."""

    title: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


class Band(Struct, frozen=True):
    """A stretch of a chart's ``x`` with a special meaning: a profiler window, a validation run."""

    name: str
    start: float
    end: float


class Bar(Struct, frozen=True):
    """A stretch of one typical step on a named lane, in ms from the step's start."""

    lane: str
    name: str
    start_ms: float
    end_ms: float


class InputNode(Struct, frozen=True):
    """A node of the input pipeline as it ran. ``ms_per_step`` is processor time, summed over threads."""

    id: str
    name: str
    label: str
    inputs: tuple[str, ...]
    ms_per_step: float | None = None
    parallelism: float | None = None
    elements_per_step: float | None = None
    bytes_per_step: float | None = None
    buffered_bytes: float | None = None
    place: Place | None = None
    bottleneck: bool = False


class Pictures(Struct, frozen=True):
    """What the HTML report draws."""

    step_times: Chart | None = None
    typical_step: tuple[Bar, ...] = ()
    input_graph: tuple[InputNode, ...] = ()
    series: tuple[Chart, ...] = ()
    step_bands: tuple[Band, ...] = ()  # stretches of step_times, in its x


class Checkup(Struct, frozen=True):
    """The complete answer, which every report renders.

    ``verdict`` is that of the run, ``step_verdict`` that of a steady step: where its time goes. ``lost`` replaces the
    verdict if the trained result is worthless at any speed; else it is empty.
    """

    version: str
    subject: Subject
    verdict: VerdictKind
    headline: str
    steps: StepSummary
    attribution: Attribution
    run: Attribution
    overhead: Overhead
    diagnoses: tuple[Diagnosis, ...] = ()
    healthy: tuple[str, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()
    notes: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    pictures: Pictures = field(default_factory=Pictures)
    device: DeviceUse | None = None
    seen: tuple[SeenInSource, ...] = ()
    lost: str = ""
    step_verdict: VerdictKind = VerdictKind.INSUFFICIENT
