"""The general reason for the largest part of a step that is no computing and that no specific cause explains.

It is told under the cause of that part which comes nearest, with a title of its own, and with a price as wide as what
is not known: at the least nothing, at the most all of the part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from slowtrain.causes import general_input
from slowtrain.model import Category, Diagnosis, Effect, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.locations.own_python_lines import python_lines
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import kerascalls
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import step_bound
from slowtrain.trace.signals.host import user_loop
from slowtrain.trace.signals.host.host_work import LONE_CALL_MS, core_pace, distinct_places, step_places
from slowtrain.trace.signals.host.stalls import crowding_cores
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy, Stretch, Supply, held_up_ms

BUSY = 0.8  # of a step is the device's computing: then what is left holds no cure that is worth searching for
LEAST = 0.1  # of a step: a smaller part cannot give the tenth from which a cure of a step is reported
ALSO = 0.2  # of a step is another part, beside the largest, that is told of as well
COVERS = 0.5  # of a part is what a specific diagnosis takes away: then it is the reason for that part
EXPECTED = 0.5  # of a part of which only its length is known: the middle of all that a cure may give
# Assumed of what calls cost a processor that mostly computes: most of it goes on beside the computing.
BESIDE_OPS = 0.25
STAYS = 0.25  # with the executor, of what calls cost, however many steps a call runs (host/launch-bound)
MANY_OPS = 100  # in a step: fusing them spares more than running several steps in a call
MOST_PLACES = 3
CROWDED = 0.2  # processors that other processes take: less does not hold up a step
COMPUTING = frozenset({"device", "collective", "collective-wait"})  # what devices do, or wait for from each other


@dataclass(frozen=True)
class Reason:
    """``cause`` is the id under which it is told; ``gone_ms`` what a cure may be expected to take of the parts."""

    cause: str
    title: str
    says: str
    gone_ms: Mapping[Category, float]
    where: tuple[Place, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    prescriptions: tuple[Prescription, ...] = ()
    computes: bool = True  # whether the part is processor time of this process


def unexplained_parts(trace: Trace, found: Sequence[tuple[Diagnosis, Sequence[Remedy]]]) -> list[Category]:
    """Large parts of a step beside computing that no diagnosis is about, the largest first.

    None where computing is nearly all of it.
    """
    others = _others(trace)
    computing = sum(trace.mean(c) for c in trace.categories if c not in others)
    if not trace.step_ms or computing >= BUSY * trace.step_ms:
        return []
    most = largest_part(trace)
    large = [c for c in others if trace.mean(c) >= (LEAST if c is most else ALSO) * trace.step_ms]
    large.sort(key=trace.mean, reverse=True)
    return [c for c in large if not any(_covers(trace, c, one, remedies) for one, remedies in found)]


def largest_part(trace: Trace) -> Category | None:
    """Of what is no computing."""
    return max(_others(trace), key=trace.mean, default=None)


def _others(trace: Trace) -> list[Category]:
    """What is no computing."""
    return [c for c in trace.categories if str(c) not in COMPUTING]


def _covers(trace: Trace, part: Category, one: Diagnosis, remedies: Iterable[Remedy]) -> bool:
    """Whether a diagnosis takes most of a part away."""
    enough = COVERS * trace.mean(part)
    # Input that is made on the step's own cores takes time from the rest of the step as well: more than the wait.
    beyond = one.saving.ms - (0.0 if part is Category.INPUT else trace.mean(Category.INPUT))
    for remedy in remedies:
        if isinstance(remedy, Drop) and remedy.ms.get(part, 0.0) >= enough:
            return True
        if isinstance(remedy, Stretch | Supply) and one.saving.scope == "step" and beyond >= enough:
            return True
    return False


def general_reason(trace: Trace, part: Category) -> Reason | None:
    """None for what nothing is known of: calls that nobody looked into."""
    make = REASONS.get(str(part))
    return make(trace, part) if make is not None else None


def remedies(trace: Trace, reason: Reason) -> Sequence[Remedy]:
    """At the least nothing is gained, at the most all of the parts."""
    gone, most = sum(reason.gone_ms.values()), sum(map(trace.mean, reason.gone_ms))
    return [Drop(reason.gone_ms, float(reason.computes), spread=(0.0, most / gone))] if gone > 0 else []


def evidence(trace: Trace, part: Category, reason: Reason) -> Evidence:
    numbers = {"part_ms": trace.mean(part), "part_share": trace.share(part), **reason.numbers}
    return Evidence(reason.says, numbers, distinct_places(reason.where)[:MOST_PLACES])


def _of(trace: Trace, part: Category) -> str:
    return f"{format_number(trace.mean(part))} of each step's {format_number(trace.step_ms)} ms"


def _input(trace: Trace, part: Category) -> Reason:
    found = general_input.waited_for(trace)
    says = (
        f"each step waits {format_number(trace.mean(part))} of its {format_number(trace.step_ms)} ms for its "
        f"batch; {found.says}"
    )
    # A cure of the costliest stage spares no more than that stage takes; the rest is asking for a batch.
    gone = {part: min(EXPECTED * trace.mean(part), found.numbers.get("stage_ms", trace.mean(part)))}
    return Reason(found.cause, found.title, says, gone, found.where, found.numbers, found.prescriptions, found.computes)


def _python(trace: Trace, part: Category) -> Reason:
    lines = python_lines(trace)
    where = tuple(line.place for line in lines) or _places(trace)
    hot = f"; most of it in line {lines[0].place.line}" if lines else ""
    says = f"Python of the script takes {_of(trace, part)}{hot}"
    advice = "write loops over elements for whole arrays, and move what need not happen in each step out of the loop"
    cure = (Prescription("advice", Effect.EQUIVALENT, advice),)
    title = "Python of the script takes a large part of each step"
    return Reason("host/python-in-step", title, says, {part: EXPECTED * trace.mean(part)}, where, {}, cure)


def _starting(trace: Trace, part: Category) -> Reason:
    """What the host does to start operations: the call, the framework around it, the operations themselves."""
    if trace.eager:
        return _eager(trace, part)
    held = held_up_ms(trace)
    if held >= COVERS * trace.mean(part) and (crowded := general_input.on_the_same_cores(trace, held)) is not None:
        says = f"for {_of(trace, part)} no operation computes: {crowded.says}"
        gone = {part: EXPECTED * min(held, trace.mean(part)), Category.INPUT: EXPECTED * trace.mean(Category.INPUT)}
        return Reason(crowded.cause, crowded.title, says, gone, crowded.where, crowded.numbers, crowded.prescriptions)
    calls = max(user_loop.spans_per_step(trace, "function"), 1.0)
    spared = min((1 - STAYS) * trace.mean(part), calls * LONE_CALL_MS / core_pace(trace))
    # Where operations compute for longer than that, a part of it goes on beside them.
    beside = trace.mean(Category.DEVICE) >= trace.mean(part)
    expected = (BESIDE_OPS if step_bound.counts_dispatch_as_compute(trace) else EXPECTED) if beside else 1.0
    gone = {part: spared * expected}
    deep = trace.kernels
    counted = f"{deep.count:,.0f} operations" if deep is not None and deep.count else "its operations"
    starts = f"what it takes to call a step and to start {counted}"
    waiting = held >= COVERS * trace.mean(part)
    waits = (
        f"its threads wait {format_number(min(held, trace.mean(part)), 2)} ms for a core{_crowd(trace)}; the "
        f"rest is {starts}"
    )
    why = waits if waiting else f"that is {starts}"
    says = f"for {_of(trace, part)} no operation computes: {why}{_longest_op(trace)}"
    numbers = {"calls_per_step": calls, "ops": deep.count if deep is not None else 0.0}
    title = (
        "the step's threads wait for a core" if waiting else "starting the step's operations takes a large part of it"
    )
    where = () if trace.fact("profile") else step_places(trace)
    return Reason("host/launch-bound", title, says, gone, where, numbers, _together(trace, where))


def _crowd(trace: Trace) -> str:
    """That others took the cores for which the step's own threads waited."""
    taken = crowding_cores(trace)
    return f", as other processes take {format_number(taken, 2)} of them" if taken >= CROWDED else ""


def _longest_op(trace: Trace) -> str:
    deep = trace.kernels
    if deep is None or not deep.by_type:
        return ""
    kind, (ms, count) = max(deep.by_type.items(), key=lambda row: row[1][0])
    times = f" in {count:,.0f} calls" if count >= 2 else ""
    return f"; of the operations {kind} computes longest, {format_number(ms, 2)} ms{times}"


def _together(trace: Trace, where: Sequence[Place]) -> tuple[Prescription, ...]:
    """Several steps in a call; for many operations fusing them first."""
    found = []
    fused = trace.on_jax or any(e.data.get("jit_compile") is True for e in trace.events_of("loop"))
    if trace.kernels is not None and trace.kernels.count >= MANY_OPS and not fused:
        found.append(Prescription("advice", Effect.EQUIVALENT, "let XLA fuse the operations: jit_compile=True"))
    if trace.steps.source == "fit" and not trace.on_jax:
        edits = measured.first(trace, tuple(where), kerascalls.several_steps)
        says = "compile(..., steps_per_execution=50)"
        found.append(Prescription("edit", Effect.EXACT, says, edits=edits, treatment="several-steps"))
    else:
        many = "a jax.lax.scan over stacked batches" if trace.on_jax else "for _ in tf.range(50): step(next(iterator))"
        found.append(Prescription("advice", Effect.EXACT, f"run many steps in one call: {many}"))
    return tuple(found)


def _eager(trace: Trace, part: Category) -> Reason:
    says = f"the step runs eagerly: Python and the framework take {_of(trace, part)} to start its operations one by one"
    where = tuple(user_loop.ms_by_line(trace, "gradient")) or _places(trace)
    name = "jax.jit" if trace.on_jax else "tf.function"
    put = f"put @{name} on the function that takes the gradient and applies it"
    cure = (Prescription("edit", Effect.EQUIVALENT, put),)
    title = "the training step runs eagerly, op by op from Python"
    return Reason("host/eager-step", title, says, {part: EXPECTED * trace.mean(part)}, where, {}, cure)


def _host_op(trace: Trace, part: Category) -> Reason:
    says = f"operations that the host computes take {_of(trace, part)}"
    cure = (Prescription("advice", Effect.EQUIVALENT, "use operations that have a kernel for the device"),)
    title = "operations of the step run on the host"
    return Reason("compute/host-placed-ops", title, says, {part: EXPECTED * trace.mean(part)}, _places(trace), {}, cure)


def _lane(cause: str, lane: str, title: str, verb: str, advice: str) -> Callable[[Trace, Category], Reason]:
    """A reason of a part whose spans are recorded with their lines."""

    def make(trace: Trace, part: Category) -> Reason:
        where = tuple(user_loop.ms_by_line(trace, lane)) or _places(trace)
        says = f"{verb} {_of(trace, part)}"
        cure = (Prescription("advice", Effect.EQUIVALENT, advice),)
        return Reason(cause, title, says, {part: EXPECTED * trace.mean(part)}, where, {}, cure)

    return make


def _places(trace: Trace) -> tuple[Place, ...]:
    return (trace.steps.place,) if trace.steps.place is not None else ()


_FEED = _lane(
    "transfer/per-step-feed", "feed", "host data becomes tensors in each step", "turning host data into tensors takes",
    "convert the data once before the loop, or feed from a tf.data.Dataset that ends in .prefetch()",
)  # fmt: skip
_COPY = _lane(
    "transfer/small-copies", "feed", "copies to the device hold up each step", "copies to the device take",
    "copy the next batch while the step computes: tf.data's prefetch_to_device as the last stage",
)  # fmt: skip
REASONS: Mapping[str, Callable[[Trace, Category], Reason]] = {
    "input": _input,
    "python": _python,
    "dispatch": _starting,
    "host-op": _host_op,
    "convert": _FEED,
    "h2d": lambda trace, part: (_COPY if trace.on_accelerator and "convert" in map(str, Category) else _FEED)(
        trace, part
    ),
    "d2h": _lane(
        "transfer/per-step-readback", "readback", "values are read back in each step", "reading values back takes",
        "read values back every hundredth step, or all of them at once",
    ),
    "compile": _lane(
        "host/retracing", "trace", "functions are traced in the steps", "tracing and compiling takes",
        "call functions with the same shapes and types in each step, so that they are traced once",
    ),
    "callback": _lane(
        "host/heavy-callback", "callback", "callbacks take a large part of each step", "callbacks take",
        "do the work of callbacks every hundredth step, or once an epoch",
    ),
    "gc": _lane(
        "host/garbage-collection", "gc", "Python's garbage collector takes a large part of each step",
        "garbage collection takes", "collect rarely: gc.freeze() before training, and gc.collect() between epochs",
    ),
}  # fmt: skip
