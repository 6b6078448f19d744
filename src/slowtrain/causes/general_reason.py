"""The general reason for the largest part of a step that is not computing and that no specific cause explains.

It is reported under the nearest cause of that part, with its own title. Its saving has a wide range, from nothing to
the whole part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import cause_by_id, general_input_wait
from slowtrain.causes.general_input_wait import GeneralReason
from slowtrain.model import Category, Diagnosis, Effect, Evidence, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.locations.own_python_lines import python_lines
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import step_bound
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.host.host_work import LONE_CALL_MS, core_pace, distinct_places, step_places
from slowtrain.trace.signals.host.stalls import crowding_cores
from slowtrain.whatif import Drop, Remedy, Stretch, Supply, held_up_ms

MAX_COMPUTING_SHARE = 0.8  # of a step: with more, the rest is not worth a search
MIN_PART_SHARE = 0.1  # of a step: a smaller part cannot save the tenth that is reported
MIN_OTHER_PART_SHARE = 0.2  # of a step, for parts other than the largest
MIN_COVERED_SHARE = 0.5  # of a part that a specific diagnosis saves, to be the reason for the part
EXPECTED_SHARE = 0.5  # of a part of which only the length is known: the middle of what a cure may save
# Share of the cost of calls that a cure saves on a processor that mostly computes. It is assumed: most of the cost
# overlaps with computing.
OVERLAPPED_CALL_SHARE = 0.25
EXECUTOR_SHARE = 0.25  # of the cost of calls, which stays however many steps a call runs (host/launch-bound)
MIN_FUSED_OPS = 100  # in a step: fusing them saves more than running several steps in a call
MAX_PLACES = 3
FEWER_CALLS = "host/launch-bound"
MIN_CROWDING_CORES = 0.2  # used by other processes: fewer do not delay a step
COMPUTING = frozenset({"device", "collective", "collective-wait"})  # devices compute, or wait for each other


class GeneralFinding(Struct, frozen=True):
    """Time that no specific cause explains, of a step or of the run. ``cause``: the id under which it is reported."""

    cause: str
    title: str
    evidence: Evidence
    remedies: Sequence[Remedy]
    prescriptions: tuple[Prescription, ...]
    scope: str


def unexplained_parts(trace: Trace, found: Sequence[tuple[Diagnosis, Sequence[Remedy]]]) -> list[Category]:
    """Large parts of a step, other than computing, that no diagnosis explains, the largest first.

    Empty if computing is nearly all of the step.
    """
    others = _other_categories(trace)
    computing = sum(trace.mean(c) for c in trace.categories if c not in others)
    if not trace.step_ms or computing >= MAX_COMPUTING_SHARE * trace.step_ms:
        return []
    most = largest_part(trace)
    large = [
        c for c in others if trace.mean(c) >= (MIN_PART_SHARE if c is most else MIN_OTHER_PART_SHARE) * trace.step_ms
    ]
    large.sort(key=trace.mean, reverse=True)
    return [c for c in large if not any(_covers_part(trace, c, one, remedies) for one, remedies in found)]


def largest_part(trace: Trace) -> Category | None:
    """The largest part that is not computing."""
    return max(_other_categories(trace), key=trace.mean, default=None)


def _other_categories(trace: Trace) -> list[Category]:
    """The categories that are not computing."""
    return [c for c in trace.categories if str(c) not in COMPUTING]


def _covers_part(trace: Trace, part: Category, one: Diagnosis, remedies: Iterable[Remedy]) -> bool:
    """Whether a diagnosis saves most of a part."""
    enough = MIN_COVERED_SHARE * trace.mean(part)
    # Input that is made on the step's own cores also takes time from the rest of the step, beyond the wait.
    beyond = one.saving.ms - (0.0 if part is Category.INPUT else trace.mean(Category.INPUT))
    for remedy in remedies:
        if isinstance(remedy, Drop) and remedy.ms.get(part, 0.0) >= enough:
            return True
        if isinstance(remedy, Stretch | Supply) and one.saving.scope == "step" and beyond >= enough:
            return True
    return False


def general_reason(trace: Trace, part: Category) -> GeneralFinding | None:
    """None if nothing is known of the part: calls without measurements inside."""
    find_reason = REASONS.get(str(part))
    if find_reason is None:
        return None
    reason = find_reason(trace, part)
    removed, most = sum(reason.gone_ms.values()), sum(map(trace.mean, reason.gone_ms))
    # The range is from nothing to all of the parts.
    remedies = [Drop(reason.gone_ms, float(reason.computes), spread=(0.0, most / removed))] if removed > 0 else []
    numbers = {"part_ms": trace.mean(part), "part_share": trace.share(part), **reason.numbers}
    evidence = Evidence(reason.says, numbers, distinct_places(reason.where)[:MAX_PLACES])
    return GeneralFinding(reason.cause, reason.title, evidence, remedies, reason.prescriptions, "step")


def _half_of(trace: Trace, part: Category) -> Mapping[Category, float]:
    """What a cure is expected to save of a part of which only the length is known."""
    return {part: EXPECTED_SHARE * trace.mean(part)}


def _part_words(trace: Trace, part: Category) -> str:
    return f"{format_number(trace.mean(part))} of each step's {format_number(trace.step_ms)} ms"


def _input_reason(trace: Trace, part: Category) -> GeneralReason:
    found = general_input_wait.find_awaited_input(trace)
    wait = f"{format_number(trace.mean(part))} of its {format_number(trace.step_ms)} ms"
    # A cure of the slowest stage saves at most the time of that stage. The rest is fetching a batch.
    removed = {part: min(EXPECTED_SHARE * trace.mean(part), found.numbers.get("stage_ms", trace.mean(part)))}
    return replace(found, says=f"each step waits {wait} for its batch; {found.says}", gone_ms=removed)


def _python_reason(trace: Trace, part: Category) -> GeneralReason:
    lines = python_lines(trace)
    where = tuple(line.place for line in lines) or _step_place(trace)
    hot = f"; most of it in line {lines[0].place.line}" if lines else ""
    says = f"Python of the script takes {_part_words(trace, part)}{hot}"
    advice = "replace loops over elements by array operations, and move work out of the step that it does not need"
    cure = (Prescription("advice", Effect.EQUIVALENT, advice),)
    title = "Python of the script takes a large part of each step"
    return GeneralReason("host/python-in-step", title, says, where, {}, cure, _half_of(trace, part))


def _dispatch_reason(trace: Trace, part: Category) -> GeneralReason:
    """The work of the host to start operations: the call, the framework around it, the operations themselves."""
    if trace.eager:
        return _eager_reason(trace, part)
    waited_ms = held_up_ms(trace)
    if (
        waited_ms >= MIN_COVERED_SHARE * trace.mean(part)
        and (crowded := general_input_wait.find_core_contention(trace, waited_ms)) is not None
    ):
        says = f"for {_part_words(trace, part)} no operation computes: {crowded.says}"
        removed = {
            part: EXPECTED_SHARE * min(waited_ms, trace.mean(part)),
            Category.INPUT: EXPECTED_SHARE * trace.mean(Category.INPUT),
        }
        return replace(crowded, says=says, gone_ms=removed, computes=True)
    calls = max(host_work.spans_per_step(trace, "function"), 1.0)
    saved = min((1 - EXECUTOR_SHARE) * trace.mean(part), calls * LONE_CALL_MS / core_pace(trace))
    # If operations compute for longer than that, a part of it overlaps with them.
    overlaps = trace.mean(Category.DEVICE) >= trace.mean(part)
    expected = (
        (OVERLAPPED_CALL_SHARE if step_bound.counts_dispatch_as_compute(trace) else EXPECTED_SHARE) if overlaps else 1.0
    )
    removed = {part: saved * expected}
    deep = trace.kernels
    counted = f"{deep.count:,.0f} operations" if deep is not None and deep.count else "its operations"
    starts = f"what it takes to call a step and to start {counted}"
    waiting = waited_ms >= MIN_COVERED_SHARE * trace.mean(part)
    wait = f"its threads wait {format_number(min(waited_ms, trace.mean(part)), 2)} ms for a core"
    waits = f"{wait}{_crowding_words(trace)}; the rest is {starts}"
    why = waits if waiting else f"that is {starts}"
    says = f"for {_part_words(trace, part)} no operation computes: {why}{_longest_op_words(trace)}"
    numbers = {"calls_per_step": calls, "ops": deep.count if deep is not None else 0.0}
    title = "The step's threads wait for a core" if waiting else "Starting operations takes a large part of each step"
    where = () if trace.fact("profile") else step_places(trace)
    return GeneralReason(FEWER_CALLS, title, says, where, numbers, _fewer_call_cures(trace, where), removed)


def _crowding_words(trace: Trace) -> str:
    """Words for the cores that other processes use."""
    taken = crowding_cores(trace)
    return f", because other processes use {format_number(taken, 2)} of them" if taken >= MIN_CROWDING_CORES else ""


def _longest_op_words(trace: Trace) -> str:
    deep = trace.kernels
    if deep is None or not deep.by_type:
        return ""
    kind, (ms, count) = max(deep.by_type.items(), key=lambda row: row[1][0])
    times = f" in {count:,.0f} calls" if count >= 2 else ""
    return f"; of the operations {kind} computes longest, {format_number(ms, 2)} ms{times}"


def _fewer_call_cures(trace: Trace, where: Sequence[Place]) -> tuple[Prescription, ...]:
    """Several steps in a call; fusing comes first if there are many operations."""
    found = []
    fused = trace.on_jax or any(e.data.get("jit_compile") is True for e in trace.events_of("loop"))
    if trace.kernels is not None and trace.kernels.count >= MIN_FUSED_OPS and not fused:
        found.append(Prescription("advice", Effect.EQUIVALENT, "let XLA fuse the operations: jit_compile=True"))
    if trace.steps.source == "fit" and not trace.on_jax:
        found.append(cause_by_id(FEWER_CALLS).folder_module("fix").several_steps_cure(trace, tuple(where)))
    else:
        many = "a jax.lax.scan over stacked batches" if trace.on_jax else "for _ in tf.range(50): step(next(iterator))"
        found.append(Prescription("advice", Effect.EXACT, f"run many steps in one call: {many}"))
    return tuple(found)


def _eager_reason(trace: Trace, part: Category) -> GeneralReason:
    part_words = _part_words(trace, part)
    says = f"the step runs eagerly: Python and the framework take {part_words} to start its operations one by one"
    where = tuple(host_work.ms_by_line(trace, "gradient")) or _step_place(trace)
    name = "jax.jit" if trace.on_jax else "tf.function"
    put = f"put @{name} on the function that takes the gradient and applies it"
    cure = (Prescription("edit", Effect.EQUIVALENT, put),)
    title = "The training step runs eagerly, op by op from Python"
    return GeneralReason("host/eager-step", title, says, where, {}, cure, _half_of(trace, part))


def _host_op_reason(trace: Trace, part: Category) -> GeneralReason:
    says = f"operations on the host take {_part_words(trace, part)}"
    cure = (Prescription("advice", Effect.EQUIVALENT, "use operations that have a kernel for the device"),)
    title = "Ops of the step run on the host"
    return GeneralReason("compute/host-placed-ops", title, says, _step_place(trace), {}, cure, _half_of(trace, part))


def _lane_reason(
    cause: str, lane: str, title: str, verb: str, advice: str
) -> Callable[[Trace, Category], GeneralReason]:
    """A function that makes the reason of a part whose spans are recorded with their lines."""

    def make(trace: Trace, part: Category) -> GeneralReason:
        where = tuple(host_work.ms_by_line(trace, lane)) or _step_place(trace)
        says = f"{verb} {_part_words(trace, part)}"
        cure = (Prescription("advice", Effect.EQUIVALENT, advice),)
        return GeneralReason(cause, title, says, where, {}, cure, _half_of(trace, part))

    return make


def _step_place(trace: Trace) -> tuple[Place, ...]:
    return (trace.steps.place,) if trace.steps.place is not None else ()


_FEED = _lane_reason(
    "transfer/per-step-feed", "feed", "Host data becomes tensors in each step", "turning host data into tensors takes",
    "convert the data once before the loop, or feed from a tf.data.Dataset that ends in .prefetch()",
)  # fmt: skip
_COPY = _lane_reason(
    "transfer/small-copies", "feed", "Copies to the device delay each step", "copies to the device take",
    "copy the next batch while the step computes: tf.data's prefetch_to_device as the last stage",
)  # fmt: skip
REASONS: Mapping[str, Callable[[Trace, Category], GeneralReason]] = {
    "input": _input_reason,
    "python": _python_reason,
    "dispatch": _dispatch_reason,
    "host-op": _host_op_reason,
    "convert": _FEED,
    "h2d": lambda trace, part: (_COPY if trace.on_accelerator and "convert" in map(str, Category) else _FEED)(
        trace, part
    ),
    "d2h": _lane_reason(
        "transfer/per-step-readback", "readback", "Values are read back in each step", "reading values back takes",
        "read values back every hundredth step, or all of them at once",
    ),
    "compile": _lane_reason(
        "host/retracing", "trace", "Functions are traced during the steps", "tracing and compiling takes",
        "call functions with the same shapes and types in each step, so that they are traced once",
    ),
    "callback": _lane_reason(
        "host/heavy-callback", "callback", "Callbacks take a large part of each step", "callbacks take",
        "do the work of callbacks every hundredth step, or once an epoch",
    ),
    "gc": _lane_reason(
        "host/garbage-collection", "gc", "Python's garbage collector takes a large part of each step",
        "garbage collection takes", "collect rarely: gc.freeze() before training, and gc.collect() between epochs",
    ),
}  # fmt: skip
