"""The training step runs eagerly, op by op from Python."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from slowtrain.causes import Cause
from slowtrain.causes.host.eager_step import eager_code, eager_switches, fix
from slowtrain.columns.device import Kernels
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import first_names, format_number
from slowtrain.script.locations import recorded_sources, source_locations
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.navigation import call_index, node_lookup, setting_origins
from slowtrain.script.text.source_file import Source
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
MIN_GRADIENT_FREQUENCY = 0.1  # of the most frequent gradient: a less frequent one is not part of a step
MIN_EAGER_OPS = 10  # in a step
MAX_NAMED_STEPS = 4
MAX_SCALAR_BYTES = 256  # converted by an operation itself; data is larger
DECORATE_STEP = "put @tf.function on the function that takes the gradient and applies it"
REMOVE_RUN_EAGERLY = "remove run_eagerly=True from compile()"
REMOVE_SWITCH = "remove tf.config.run_functions_eagerly(True)"


class EagerReason(Enum):
    """Why the step is not a graph. The value is the text in the evidence."""

    NO_JIT = "without jax.jit"
    GLOBAL_SWITCH = "tf.config.run_functions_eagerly(True)"
    COMPILE_ARGUMENT = "run_eagerly=True"
    NO_FUNCTION = "the gradient is taken outside any tf.function"


@dataclass(frozen=True)
class EagerStepFinding:
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
    needs = frozenset({Signal.STEPS, Signal.KERNELS})
    words = ("GradientTape", "train_on_batch", "run_eagerly", *eager_switches.SWITCHES)

    def find(self, trace: Trace) -> EagerStepFinding | None:
        kernels = trace.kernels
        if not trace.eager or kernels is None or kernels.eager_ops < MIN_EAGER_OPS:
            return None
        reason, where = _eager_reason(trace)
        return EagerStepFinding(kernels, reason, where)

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

    def cures(self, trace: Trace, finding: EagerStepFinding) -> Iterable[Prescription]:
        if trace.on_jax:
            says = "put @jax.jit on the function that takes the gradient and applies it"
            yield Prescription("edit", Effect.EQUIVALENT, says)
        elif _has_eager_compile(trace):
            edits = recorded_edits.first_applicable(trace, finding.where, eager_switches.without_eager_compile)
            yield Prescription("edit", Effect.EQUIVALENT, REMOVE_RUN_EAGERLY, edits=edits, treatment="no-eager")
        elif finding.reason is EagerReason.GLOBAL_SWITCH:
            remove = eager_switches.without_eager_switch
            edits = recorded_edits.first_applicable(trace, finding.where, lambda source, _: remove(source))
            edits = edits or recorded_sources.edit_project(trace, remove)
            yield Prescription("edit", Effect.EQUIVALENT, REMOVE_SWITCH, edits=edits, treatment="no-eager")
        else:
            yield _compile_steps_cure(trace, finding.where)


def _compile_steps_cure(trace: Trace, where: Sequence[Place]) -> Prescription:
    edits, compiled, left = _compile_steps(trace)
    says = DECORATE_STEP
    if len(compiled) > 1:
        says = f"put @tf.function on the functions that take the gradients and apply them: {_joined_names(compiled)}"
    elif not edits:
        edits = recorded_edits.first_applicable(trace, where, fix.compiled_step)
    if edits and left:
        says += f"; {_joined_names(left)} as well, by hand: the text does not show that it may be a graph"
    return Prescription("edit", Effect.EQUIVALENT, says, edits=edits)


def _graph_step_ms(trace: Trace, kernels: Kernels, share: float) -> float:
    computing = share * (kernels.eager_work_ms or kernels.eager_ms) + kernels.busy_ms
    around = sum(map(trace.mean, (Category.PYTHON, Category.CALLBACK, Category.READBACK)))
    return graph_step_ms(trace, GRAPH_OPS_SHARE * kernels.eager_ops, computing, around)


def _constant_conversion_ms(trace: Trace) -> float:
    """Time in which operations of the step convert Python numbers to tensors. In a graph they are constants."""
    feeds = trace.lane("feed")
    return ms_per_step(trace, feeds.where(feeds.value <= MAX_SCALAR_BYTES)) if len(feeds) else 0.0


def _has_eager_compile(trace: Trace) -> bool:
    return any(e.data.get("run_eagerly") is True for e in trace.events if e.lane in ("loop", "compile"))


def _eager_reason(trace: Trace) -> tuple[EagerReason, tuple[Place, ...]]:
    """The reason and its places."""
    fits = [e.place for e in trace.events_of("loop") if e.name == "fit" and e.place is not None]
    if trace.on_jax:
        return EagerReason.NO_JIT, _gradient_places(trace)
    if trace.fact("functions_eager"):
        steps = _gradient_places(trace) or tuple(fits[:1])
        switches = source_locations.project_places(trace, _switch_lines)
        return EagerReason.GLOBAL_SWITCH, source_locations.merge_places(switches, steps)
    if _has_eager_compile(trace):
        places = [e.place for e in trace.events_of("compile") if e.data.get("run_eagerly") and e.place is not None]
        return EagerReason.COMPILE_ARGUMENT, tuple(dict.fromkeys((*places, *fits)))[:3]
    return EagerReason.NO_FUNCTION, source_locations.merge_places(_step_places(trace), _gradient_places(trace))


def _switch_lines(source: Source) -> Iterable[int]:
    """Lines that make all functions eager, each after the line of its True if that is elsewhere."""
    for call in call_index.index_of(source).called(*eager_switches.SWITCHES):
        given = node_lookup.argument_value(call, "run_eagerly", 0)
        if isinstance(given, ast.Constant) and not given.value:
            continue
        literal = setting_origins.literal_origin(source, given) if given is not None else None
        if given is not None and literal is not None and literal.value:  # else the command line turned it on
            yield from source_locations.literal_line(source, given)
        yield call.lineno


def _step_places(trace: Trace) -> tuple[Place, ...]:
    """Lines of the functions that took a gradient in this run; the decorator belongs there."""
    gradients = set(_gradient_places(trace))

    def function_lines(source: Source) -> Iterable[int]:
        within = [source.function_at(place.line) for place in gradients if place.file == source.file]
        for tape in eager_code.eager_tapes(source):
            function = node_lookup.enclosing_function(source, tape)
            if function is not None and function in within:
                yield eager_code.step_name_range(source, tape)[0][0]

    return source_locations.project_places(trace, function_lines)


def _compile_steps(trace: Trace) -> tuple[tuple[Edit, ...], list[str], list[str]]:
    """The edits that compile the steps that took gradients, the names of these steps, and those of the rest."""
    edited: list[Edit] = []
    compiled: list[str] = []
    left: list[str] = []
    lines: dict[str, list[int]] = {}
    for place in _frequent_gradient_places(trace):
        lines.setdefault(place.file, []).append(place.line)
    for file, several in lines.items():
        source = recorded_sources.recorded_source(trace, file)
        made = fix.compiled_steps(source, several) if source is not None else {}
        if source is None or not recorded_edits.are_valid_edits(source, (e for one in made.values() for e in one)):
            continue
        edited += dict.fromkeys(e for one in made.values() for e in one)
        for line in several:
            function = source.function_at(line)
            name = f"line {line}" if function is None else getattr(function, "name", "")
            whole = len(made.get(line, ())) < 2
            (compiled if line in made else left).append(name if whole else f"lines of {name}")
    return tuple(edited), [*dict.fromkeys(compiled)], [*dict.fromkeys(n for n in left if n not in compiled)]


def _frequent_gradient_places(trace: Trace) -> Iterator[Place]:
    """Where gradients are taken, without rare ones, the most frequent first."""
    times = Counter(trace.lane("gradient").name.tolist()).most_common()
    for name, count in times:
        place = trace.names[int(name)].place
        if place is not None and count >= MIN_GRADIENT_FREQUENCY * times[0][1]:
            yield place


def _joined_names(several: Sequence[str]) -> str:
    return ", ".join(first_names(several, MAX_NAMED_STEPS))


def _gradient_places(trace: Trace) -> tuple[Place, ...]:
    """Lines that take gradients, then the costliest lines of the step."""
    spans = trace.lane("gradient")
    places = [trace.names[int(n)].place for n in dict.fromkeys(spans.name.tolist())]
    lines = [line.place for line in trace.loop_lines if line.share > 0.1]
    found = [p for p in places if p is not None]
    return tuple(dict.fromkeys((*found, *lines)))[:4]
