"""The nouns of a checkup, in the order in which data flows through them.

    Recording -> Trace -> Evidence -> Diagnosis -> Prescription -> Verdict -> Checkup

All values are frozen, and only other nouns are imported here. A ``_ms`` is milliseconds, a ``_bytes`` bytes, a
``_share`` 0 to 1. The nouns of other answers are in ``answers``: ``cure_proof`` (fix, verify, compare),
``linted_files`` (lint), ``doctor_sheet`` (doctor), ``batch_sizing`` (memory, batch), ``exhaustion`` (oom),
``crossover_result`` (crossover), ``live_frame`` (watch).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from slowtrain.model.report_charts import Band as Band
from slowtrain.model.report_charts import Bar as Bar
from slowtrain.model.report_charts import Chart as Chart
from slowtrain.model.report_charts import InputNode as InputNode
from slowtrain.model.report_charts import Pictures as Pictures
from slowtrain.model.signals import Signal as Signal
from slowtrain.model.signals import Text as Text
from slowtrain.model.source_place import Place as Place

EMPTY_NUMBERS: Mapping[str, float] = MappingProxyType({})


class Category(Text):
    """Where a moment of a steady step goes. Categories exclude each other and add up to the step."""

    INPUT = "input"  # waiting for the next batch, or making it on the main thread
    CONVERT = "convert"  # turning host data into tensors, on the host
    FEED = "h2d"  # copying to the device, where no kernel hides it
    READBACK = "d2h"  # copying to the device, unless a kernel runs at the same time
    COMPILE = "compile"  # tracing and compiling
    DISPATCH = "dispatch"  # the framework's Python, op launches, the executor
    HOST_OP = "host-op"  # an op of the step that the host computes while the device waits
    PYTHON = "python"  # the user's Python in the loop
    CALLBACK = "callback"
    GC = "gc"
    DEVICE = "device"  # ops computing
    COLLECTIVE = "collective"  # exchange between devices, unless a kernel runs at the same time
    COLLECTIVE_WAIT = "collective-wait"  # waiting for other processes of the same training
    OTHER_PROCESS = "other-process"  # another process computes on the same device
    UNATTRIBUTED = "unattributed"


# What a step does in that time, as a part of a sentence.
CATEGORY_PHRASES: Mapping[Category, str] = {
    Category.INPUT: "waiting for input",
    Category.CONVERT: "turning host data into tensors",
    Category.FEED: "copying to the device",
    Category.READBACK: "reading values back",
    Category.COMPILE: "tracing and compiling",
    Category.DISPATCH: "framework overhead",
    Category.HOST_OP: "ops that the host computes",
    Category.PYTHON: "Python of the script",
    Category.CALLBACK: "callbacks",
    Category.GC: "garbage collection",
    Category.DEVICE: "computing",
    Category.COLLECTIVE: "exchanging between devices",
    Category.COLLECTIVE_WAIT: "waiting for other processes",
    Category.OTHER_PROCESS: "waiting while another process uses the device",
    Category.UNATTRIBUTED: "unattributed",
}


class Phase(Text):
    """Where a moment of the whole run goes. Phases exclude each other and add up to the run."""

    LAUNCH = "launch"  # from process start to the script's first line
    IMPORT = "import"
    PREPARATION = "preparation"  # the user's Python before, between and after training
    BUILD = "build"  # model construction and compile()
    COMPILE = "compile"  # tracing, first executions
    WARMUP = "warmup"  # steps before the steady state
    STEPS = "steps"  # steady training steps
    VALIDATION = "validation"
    PREDICT = "predict"  # predict and evaluate outside fit
    CALLBACK = "callback"  # callbacks at epoch ends
    CHECKPOINT = "checkpoint"
    WINDOW = "window"  # steps under the profiler, and its own start and stop
    STOPPED = "stopped"  # the process did not run: Ctrl-Z, SIGSTOP, a frozen container
    EPOCH = "epoch"  # between epochs: creating iterators, filling buffers, resetting metrics
    END = "end"  # after the script's last line
    OUTSIDE = "outside"  # of a profile: before its first whole step and after its last


class VerdictKind(Text):
    """The one-word answer (``verdict`` of CHECKUP-JSON)."""

    INPUT = "input-bound"
    TRANSFER = "transfer-bound"
    HOST = "host-bound"
    LAUNCH = "launch-bound"
    COMPUTE = "compute-bound"
    MEMORY = "memory-bound"
    STARTUP = "startup-bound"
    SLOWING = "slowing-down"
    FAILED = "failed"
    INSUFFICIENT = "insufficient-data"


class Effect(Text):
    """How a prescription affects the numbers that training produces."""

    EXACT = "exact"  # the same numbers
    EQUIVALENT = "equivalent"  # the same up to rounding or order
    CHANGES_TRAINING = "changes training"


@dataclass(frozen=True)
class Evidence:
    """Why a cause is present: one sentence, its numbers (whose names carry their unit), and the lines to look at."""

    says: str
    numbers: Mapping[str, float] = field(
        default_factory=lambda: EMPTY_NUMBERS
    )  # Python 3.11: defaults must be hashable
    where: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Saving:
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


@dataclass(frozen=True)
class Edit:
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


@dataclass(frozen=True)
class Prescription:
    """What to do, of one of the ``CURE_KINDS``.

    ``edits`` belong together and make the change; they are empty if a person has to make it. ``diff`` is the change as
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


@dataclass(frozen=True)
class Spot:
    """A cause as it shows in a file's text, from ``start`` to ``end`` (places as in :class:`Edit`)."""

    start: tuple[int, int]
    end: tuple[int, int]
    says: str
    prescription: Prescription | None = None


@dataclass(frozen=True)
class Verdict:
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


@dataclass(frozen=True)
class Diagnosis:
    """A cause that was found. ``run_share`` is the share of the whole run that its cure would save."""

    cause: str
    title: str
    evidence: Evidence
    saving: Saving
    run_share: float
    prescriptions: tuple[Prescription, ...] = ()
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Unchecked:
    """A cause that could not be judged, with the signals that were not measured."""

    cause: str
    missing: tuple[str, ...]


@dataclass(frozen=True)
class SeenInSource:
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


@dataclass(frozen=True)
class Part:
    """A named piece of a whole; ``name`` is a category or a phase."""

    name: str
    ms: float
    share: float


@dataclass(frozen=True)
class Attribution:
    """A total and its ``parts``, which add up to ``total_ms``."""

    total_ms: float
    parts: tuple[Part, ...]

    def ms(self, name: str) -> float:
        return sum(p.ms for p in self.parts if p.name == name)

    def share(self, name: str) -> float:
        return self.ms(name) / self.total_ms if self.total_ms else 0.0


@dataclass(frozen=True)
class StepSummary:
    """Steady steps. ``warmup`` counts the steps left out at the start. None means not measured."""

    counted: int
    warmup: int
    median_ms: float | None
    p95_ms: float | None
    samples_per_second: float | None


@dataclass(frozen=True)
class Subject:
    """What was examined. ``computer``: how a profile's computer was judged, or why it was not."""

    kind: str
    path: str
    command: tuple[str, ...] = ()
    exit_code: int | None = None
    framework: Mapping[str, str | None] = field(default_factory=dict)
    device: Mapping[str, str | int | None] = field(default_factory=dict)
    computer: str | None = None


@dataclass(frozen=True)
class WindowCost:
    """The cost of a profiler window: duration of its steps relative to other steps (1.0 is no cost)."""

    steps: int
    inflation: float | None


@dataclass(frozen=True)
class Overhead:
    """The recorder's own share of the run's wall time, as it measured itself."""

    share: float | None
    windows: tuple[WindowCost, ...] = ()


@dataclass(frozen=True)
class IdleGap:
    """A stretch in which the device was idle. ``reason`` accounts for ``share`` of it; ``detail`` explains it."""

    start_ms: float  # from the start of the first step
    ms: float
    reason: str
    share: float
    detail: str


@dataclass(frozen=True)
class OpTime:
    """A device's op, kernel or copy, per step: ms, executions, bytes, and its share of the table."""

    name: str
    ms: float
    count: float
    share: float
    bytes: float | None = None


@dataclass(frozen=True)
class Reached:
    """Achieved rate of ops with known shapes: bytes of ``memory``, or operations in a number format, per second."""

    what: str
    ms: float  # per step, of these ops
    per_second: float
    peak: float | None  # of the device; None if unknown


@dataclass(frozen=True)
class DeviceUse:
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


@dataclass(frozen=True)
class Checkup:
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
