"""The training step runs eagerly, op by op from Python."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.columns.device import Kernels
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_places
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import graph_step_ms, ms_per_step
from slowtrain.whatif import Drop, Remedy

# Time of the same ops in a graph over their time in eager mode: the executor runs independent ops on several cores,
# TensorFlow's optimiser fuses and drops some, and results are computed in place. Measured over pairs of steps (2 to
# 1,700 eager ops: dense, convolution, attention, recurrent; custom loops and fit; two cores): 0.23 to 0.85 on one
# machine, 0.21 to 0.46 on another.
GRAPH_TIME_SHARE = 0.35
GRAPH_TIME_SHARE_RANGE = (0.25, 0.85)
GRAPH_OPS_SHARE = 0.7  # eager ops that have a node in the executed graph: 603 of 864 in the Adam step of a dense model
MIN_EAGER_OPS = 10  # in a step
MAX_SCALAR_BYTES = 256  # converted by an operation itself; data is larger
SWITCHES = ("run_functions_eagerly", "experimental_run_functions_eagerly")


class EagerReason(Enum):
    """Why the step is not a graph. The value is the text in the evidence."""

    NO_JIT = "without jax.jit"
    GLOBAL_SWITCH = "tf.config.run_functions_eagerly(True)"
    COMPILE_ARGUMENT = "run_eagerly=True"
    NO_FUNCTION = "the gradient is taken outside any tf.function"


class EagerStepFinding(Struct, frozen=True):
    kernels: Kernels
    reason: EagerReason
    where: tuple[Place, ...]

    @property
    def computing_ms(self) -> float:
        """Computing in a step: the part of each eager op beyond the usual op, and ops of graphs that the step calls."""
        return (self.kernels.eager_work_ms or self.kernels.eager_ms) + self.kernels.busy_ms


class EagerStep(Cause[EagerStepFinding]):
    """The training step runs op by op from Python instead of as one graph."""

    title = "The training step runs eagerly, op by op from Python"
    usual_ms_per_step = 10.0  # some hundred operations of 50 to 100 µs
    needs = frozenset({Signal.STEPS, Signal.KERNELS})
    words = ("GradientTape", "train_on_batch", "run_eagerly", *SWITCHES)

    def find(self, trace: Trace) -> EagerStepFinding | None:
        kernels = trace.kernels
        if not trace.eager or kernels is None or kernels.eager_ops < MIN_EAGER_OPS:
            return None
        reason = _eager_reason(trace)
        found = EagerStepFinding(kernels, reason, _measured_places(trace, reason))
        if reason in (EagerReason.GLOBAL_SWITCH, EagerReason.NO_FUNCTION):
            return replace(found, where=source_places.merge_places(self.lines_to_change(trace, found), found.where))
        return found

    def evidence(self, trace: Trace, finding: EagerStepFinding) -> Evidence:
        eager_ops = finding.kernels.eager_ops
        return Evidence(
            f"Python starts {eager_ops:.0f} operations in each step of {format_number(trace.step_ms)} ms, "
            f"which compute for {format_number(finding.computing_ms, 2)} ms ({finding.reason.value})",
            {
                "eager_ops": eager_ops,
                "work_ms": finding.computing_ms,
                "graph_step_ms": _graph_step_ms(trace, finding.kernels, GRAPH_TIME_SHARE),
            },
            finding.where,
        )

    def remedies(self, trace: Trace, finding: EagerStepFinding) -> Sequence[Remedy]:
        kernels = finding.kernels
        pool = {c: trace.mean(c) for c in (Category.DISPATCH, Category.DEVICE, Category.UNATTRIBUTED)}
        pool[Category.CONVERT] = min(_constant_conversion_ms(trace), trace.mean(Category.CONVERT))
        if trace.fact("profile"):
            # A profile does not separate the framework's Python from the script's between ops. At most as much time
            # as the framework's own is counted.
            pool[Category.PYTHON] = min(trace.mean(Category.PYTHON), trace.mean(Category.DISPATCH))
        now = sum(pool.values())
        after, best, worst = (
            _graph_step_ms(trace, kernels, share) for share in (GRAPH_TIME_SHARE, *GRAPH_TIME_SHARE_RANGE)
        )
        saved = now - after
        if saved <= 0:
            return []
        spread = (max((now - worst) / saved, 0.0), (now - best) / saved)
        return [Drop({c: ms * saved / now for c, ms in pool.items()}, spread=spread)]


def _graph_step_ms(trace: Trace, kernels: Kernels, share: float) -> float:
    computing = share * (kernels.eager_work_ms or kernels.eager_ms) + kernels.busy_ms
    around = sum(map(trace.mean, (Category.PYTHON, Category.CALLBACK, Category.READBACK)))
    return graph_step_ms(trace, GRAPH_OPS_SHARE * kernels.eager_ops, computing, around)


def _constant_conversion_ms(trace: Trace) -> float:
    """Time in which operations of the step convert Python numbers to tensors. In a graph they are constants."""
    feeds = trace.lane("feed")
    return ms_per_step(trace, feeds.where(feeds.value <= MAX_SCALAR_BYTES)) if len(feeds) else 0.0


def has_eager_compile(trace: Trace) -> bool:
    return any(e.data.get("run_eagerly") is True for e in trace.events if e.lane in ("loop", "compile"))


def _eager_reason(trace: Trace) -> EagerReason:
    if trace.on_jax:
        return EagerReason.NO_JIT
    if trace.fact("functions_eager"):
        return EagerReason.GLOBAL_SWITCH
    return EagerReason.COMPILE_ARGUMENT if has_eager_compile(trace) else EagerReason.NO_FUNCTION


def _measured_places(trace: Trace, reason: EagerReason) -> tuple[Place, ...]:
    fits = [e.place for e in trace.events_of("loop") if e.name == "fit" and e.place is not None]
    if reason is EagerReason.COMPILE_ARGUMENT:
        places = [e.place for e in trace.events_of("compile") if e.data.get("run_eagerly") and e.place is not None]
        return tuple(dict.fromkeys((*places, *fits)))[:3]
    found = gradient_places(trace)
    return found or tuple(fits[:1]) if reason is EagerReason.GLOBAL_SWITCH else found


def gradient_places(trace: Trace) -> tuple[Place, ...]:
    """Lines that take gradients, then the costliest lines of the step."""
    spans = trace.lane("gradient")
    places = [trace.names[int(n)].place for n in dict.fromkeys(spans.name.tolist())]
    lines = [line.place for line in trace.loop_lines if line.share > 0.1]
    found = [p for p in places if p is not None]
    return tuple(dict.fromkeys((*found, *lines)))[:4]
