"""The words of the model, which all other nouns use: enumerations, and a line of the user's source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from types import MappingProxyType

UNUSED_IGNORE = "lint/unused-ignore"  # in place of a cause: an ignore comment that hides nothing
EMPTY_NUMBERS: Mapping[str, float] = MappingProxyType({})


class Text(str, Enum):
    """An enumeration whose members are their own text (``enum.StrEnum`` needs Python 3.11)."""

    def __str__(self) -> str:
        return str(self.value)


class Signal(Text):
    """Something that a trace may have measured; a cause names those that it needs."""

    STEPS = "steps"  # where each step begins and ends
    INPUT = "input"  # how long each step waited for its batch
    PIPELINE = "pipeline"  # the tf.data graph with each node's counters
    WRITTEN = "written"  # data sets as written: lines, ops of all functions, lengths, options
    PYTHON = "python"  # the user's Python between the framework's calls
    LINES = "lines"  # time by line of the user's source
    CALLS = "calls"  # calls of fit, evaluate, predict, compile with their arguments
    CALLBACKS = "callbacks"  # time by callback class and hook
    TRACES = "traces"  # functions traced, with their signatures
    READBACKS = "readbacks"  # tensors read back to the host
    FEEDS = "feeds"  # host data that the script converts to tensors
    KERNELS = "kernels"  # op executions (deep window)
    DEVICE = "device"  # an accelerator's own timeline
    MACHINE = "machine"  # processor, memory, disk over the run, limits of the host
    READS = "reads"  # bytes that the process read over the run
    ENDING = "ending"  # how the run ended
    PHASES = "phases"  # import, preparation, compile, steps, validation, …
    LOSS = "loss"  # the loss as the run reports it
    SUBNORMALS = "subnormals"  # the number of subnormal values in variables, and their cost
    GC = "gc"  # pauses by Python's collector
    MODEL = "model"  # layers, variables, their shapes and dtypes
    MEMORY = "memory"  # memory of the process and of devices, and what the user's names hold, over the steps
    DEVICE_MEMORY = "device_memory"  # memory that the framework's allocator had in use on each device
    ALLOCATOR = "allocator"  # the allocator's own reports: errors, fill level, number of pieces
    CROSSOVER = "crossover"  # the same script measured on two devices
    LINK = "pcie"  # generation and width of the PCIe link, read during steps
    FACTS = "facts"  # what the computer is and allows, as machine/ reads it
    CARD = "card"  # what the driver of a graphics card reports
    BUILD = "build"  # how the framework was built
    LOAD = "load"  # link and clocks of a card under load
    BATCHES = "batches"  # steps at several batch sizes, as measured by slowtrain batch
    RATES = "rates"  # losses at several learning rates, as measured by slowtrain rate


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
class Place:
    """A line of the user's source; ``code`` is its text, stripped."""

    file: str
    line: int
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """Without the folders: ``train.py:12``."""
        return f"{PurePath(self.file).name}:{self.line}"


@dataclass(frozen=True)
class Part:
    """A named piece of a whole; ``name`` is a category or a phase."""

    name: str
    ms: float
    share: float


@dataclass(frozen=True)
class Source:
    """The origin of a rule; ``date`` is the day on which it was read there."""

    key: str
    says: str
    where: str
    date: str


def is_loss(name: str) -> bool:
    """Return whether a result is a loss. Keras names it ``loss``; results of functions are all named ``result``."""
    return "loss" in name or name.startswith("result")
