"""A Python loop over elements prepares the data."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from slowtrain.causes import Cause
from slowtrain.columns.arrays import Floats
from slowtrain.columns.spans import Spans
from slowtrain.model import Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import call_roles, line_run_counts
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.text import syntax_tree
from slowtrain.source.cures.host import vectorising
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import (
    is_in_keras,
    main_thread,
    ms_of_samples,
    sampling_interval_ms,
    source_tree,
    training_start_ms,
    unsampled_ms,
)
from slowtrain.trace.signals.host.source_lines import called_name, calls_at, function_around, loops_around
from slowtrain.values import dataclass
from slowtrain.whatif import Remedy, Skip

LEAST_SAMPLES = 8
# Shorter than starting TensorFlow itself, and a small part of the run: making up or sorting a little data.
LEAST_MS = 1000.0
LEAST_SHARE = 0.1
RUNS_OPS = 0.3  # of a line's samples inside Keras, at the ops themselves: the rest is on the way there and back
_EAGER_OP = re.compile(r"tensorflow/python/(?:ops/gen_\w+|eager/execute)\.py$")
SESSION = "tensorflow/python/client/session.py"  # a graph at work, as TensorFlow 1 ran them: no element of anything
ONE_CALL = 0.97  # of the samples at one instruction: one long call; a loop over elements is met at all of its own
LATE = 1.8  # times what lies between two samples, on average: something kept them waiting
LONG_TURN_MS = 0.1  # of a line in one turn: some fifty calls of NumPy's; what takes longer works on whole arrays
# What vectorising leaves of a Python loop. Measured with NumPy on two cores: square roots element by element 0.002,
# one-hot codes 0.04 to 0.15, images normalised one by one 0.23, numbers read from text 0.5, sums over rows of a
# hundred 0.5 to 0.9: the less a turn of the loop does, the more is gained, hence the wide range.
LEFT = 0.1
# Methods and functions of the interpreter's own on one number, text or list.
OF_ELEMENTS = frozenset(
    "index count append extend insert remove get split strip lower upper replace join find startswith endswith items "
    "keys values add pop update int float str bool len range ord chr abs min max round enumerate zip set dict list "
    "tuple isinstance".split()
)
JOINING = frozenset("concatenate append vstack hstack row_stack column_stack dstack concat insert".split())
FILES = frozenset(
    "open read_csv load imread read read_file imread_collection urlopen load_img glob write write_file save savez "
    "savez_compressed savetxt imwrite imsave dump to_csv tofile encode_png encode_jpeg TFRecordWriter".split()
)


@dataclass(frozen=True)
class Hot:
    """Lines of one loop before training, with the time in them."""

    places: tuple[Place, ...]
    ms: float
    samples: int


class ElementwisePreprocessing(Cause[Evidence]):
    """A Python loop over single elements prepares the data before training."""

    title = "a Python loop over elements prepares the data"
    needs = frozenset({Signal.PHASES, Signal.LINES})
    scope = "run"
    words = (".fit", "GradientTape", "train_on_batch")

    def find(self, trace: Trace) -> Evidence | None:
        hot = _hot(trace)
        if hot is None or hot.ms < min(LEAST_MS, LEAST_SHARE * trace.run_ms):
            return None
        return Evidence(
            f"Python loops over elements for {format_number(hot.ms / 1e3, 2)} s{_when(trace)}, "
            f"{hot.ms / trace.run_ms:.0%} of the run ({hot.samples} samples of the main thread)",
            {"loop_ms": hot.ms, "samples": float(hot.samples)},
            hot.places,
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        # Some loops have a form over arrays that is hardly quicker (strings, parsing), most nearly vanish.
        return [Skip((1 - LEFT) * evidence.numbers["loop_ms"], spread=(0.45, 1.1))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        says = "write the loop over whole NumPy arrays, or save its result and load it"
        for place in evidence.where:
            source = recorded_source(trace, place.file)
            found = vectorising.vectorised(source, place.line) if source is not None else None
            if found is not None:
                yield Prescription("edit", Effect.EXACT if found.exact else Effect.EQUIVALENT, says, edits=found.edits)
                return
        yield Prescription("edit", Effect.EQUIVALENT, says)


def _when(trace: Trace) -> str:
    return " before the first step" if len(trace.steps) else " of a run in which no step was seen"


def _hot(trace: Trace) -> Hot | None:
    samples = _samples(trace)
    if len(samples) < LEAST_SAMPLES:
        return None
    by_line: dict[Place, list[int]] = {}
    for i, number in enumerate(samples.name):
        place = trace.names[int(number)].place
        if place is not None:
            by_line.setdefault(place, []).append(i)
    each = ms_of_samples(trace, samples)
    looped = {p: rows for p, rows in by_line.items() if _loops(trace, p)}
    # Samples come where the interpreter lets go of its lock: some of a loop over elements, at the lines around it.
    arrays = {p: rows for p, rows in looped.items() if _of_arrays(trace, p, each[rows])}
    if sum(map(len, arrays.values())) > 0.5 * sum(map(len, looped.values())):
        looped = {p: rows for p, rows in looped.items() if p not in arrays}
    rows = [i for several in looped.values() for i in several]
    if len(rows) < LEAST_SAMPLES or _one_call(trace, samples, rows):
        return None
    ordered = sorted(looped, key=lambda p: (-len(looped[p]), p.line))
    tree = source_tree(trace, ordered[0].file)
    outer = (
        [Place(ordered[0].file, line) for line in line_run_counts.calling_lines(tree, ordered[0].line)]
        if tree is not None
        else []
    )
    places = tuple(dict.fromkeys((*ordered[:3], *outer)))[:4]
    ms = float(each[rows].sum()) + unsampled_ms(trace, samples, {*looped, *outer})
    return Hot(places, ms, len(rows))


def _samples(trace: Trace) -> Spans:
    """Samples of the main thread before the first step, outside imports, building, tracing and fit."""
    stack = trace.lane("stack")
    keep = stack.start_ms < training_start_ms(trace)
    main = main_thread(trace)
    for lane in ("import", "build", "trace", "loop", "function", "iterator", "on_batch"):
        spans = trace.lane(lane)
        spans = spans.where(spans.thread == main)
        at = np.searchsorted(spans.start_ms, stack.start_ms, side="right") - 1
        reach = np.maximum.accumulate(spans.end_ms) if len(spans) else np.zeros(1)
        keep &= ~((at >= 0) & (stack.start_ms < reach[np.maximum(at, 0)]))
    stack = stack.where(keep)
    building = np.array([is_in_keras(n) for n in trace.names], dtype=bool)[stack.name]
    # A layer that is called on data runs ops; one that a model is built of makes shapes and graphs.
    runs = np.array([bool(_EAGER_OP.search(str(n.detail.get("leaf_file")))) for n in trace.names], dtype=bool)[
        stack.name
    ]
    _, line = np.unique([str(trace.names[int(n)].place) for n in stack.name], return_inverse=True)
    part = np.bincount(line, runs & building) / np.maximum(np.bincount(line, building), 1) if len(line) else np.zeros(1)
    sessions = np.array([SESSION in str(n.detail.get("leaf_file")) for n in trace.names], dtype=bool)[stack.name]
    return stack.where((~building | (part[line] >= RUNS_OPS)) & ~sessions)


def _one_call(trace: Trace, samples: Spans, rows: list[int]) -> bool:
    """Whether nearly all samples were taken at one instruction (and in one library function under it).

    A loop's jump back is no call, and what the interpreter itself does to one element is never long. Nor is it one call
    that samples are late to meet beside a loop: during a long call that lets go of the lock none has to wait.
    """
    where = Counter((int(samples.name[i]), int(samples.value[i])) for i in rows)
    (name, instruction), count = where.most_common(1)[0]
    if instruction < 0 or count < ONE_CALL * len(rows):
        return False
    place = trace.names[name].place
    tree = source_tree(trace, place.file) if place is not None else None
    if tree is None or place is None:
        return True
    if (
        _late(trace, ms_of_samples(trace, samples)[rows])
        and len(line_run_counts.line_and_inner_loops(tree, place.line)) > 1
    ):
        return False
    return not (set(map(called_name, calls_at(tree, place.line))) <= OF_ELEMENTS or _copies_all(tree, place.line))


def _copies_all(tree: ast.Module, line: int) -> bool:
    """Whether an array is joined with one more element and takes its own place: each turn copies all that there is."""
    for one in (
        n for n in syntax_tree.walk(tree) if isinstance(n, ast.Assign) and n.lineno <= line <= (n.end_lineno or 0)
    ):
        if isinstance(one.value, ast.Call) and called_name(one.value) in JOINING:
            own = {ast.unparse(target) for target in one.targets}
            if own & {
                ast.unparse(n) for given in one.value.args for n in syntax_tree.walk(given) if isinstance(n, ast.expr)
            }:
                return True
    return False


def _loops(trace: Trace, place: Place) -> bool:
    """Whether the line runs once an element: in a loop, or in a function that a loop calls; work on files apart."""
    tree = source_tree(trace, place.file)
    if tree is None or FILES & set(map(called_name, calls_at(tree, place.line))):
        return False
    callers = line_run_counts.calling_lines(tree, place.line)
    loops = [loop for line in (place.line, *callers) for loop in loops_around(tree, line)]
    if call_roles.is_model_code(tree, place.line):
        return False
    if not len(trace.steps) and call_roles.calls_compiled_code(tree, (function_around(tree, place.line), *loops)):
        return False  # it may be the training itself
    return bool(loops or callers)


def _of_arrays(trace: Trace, place: Place, ms: Floats) -> bool:
    """Whether a line takes so long in each turn, of which the text says how many there are, that it is no element's.

    Samples that come late were kept waiting by many short calls, and were let in wherever a longer one came: then
    the time may lie in any line of the same function, and counts for the one that runs most often.
    """
    source = recorded_source(trace, place.file)
    if source is None:
        return False
    lines = line_run_counts.line_and_inner_loops(source.tree, place.line) if _late(trace, ms) else (place.line,)
    every = [line_run_counts.line_runs(source, line) for line in lines]
    turns = None if None in every else max(n for n in every if n is not None)
    return turns is not None and float(ms.sum()) >= LONG_TURN_MS * turns


def _late(trace: Trace, ms: Floats) -> bool:
    return float(ms.mean()) >= LATE * sampling_interval_ms(trace)
