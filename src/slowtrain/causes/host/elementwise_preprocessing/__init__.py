"""A Python loop over elements prepares the data."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import numpy as np
from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.arrays import Floats
from slowtrain.columns.spans import Spans
from slowtrain.model import Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.script.locations import line_roles
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import (
    is_in_keras,
    ms_of_samples,
    sampling_interval_ms,
    training_start_ms,
    unsampled_ms,
)
from slowtrain.trace.signals.host.source_lines import (
    called_name,
    calls_at,
    calls_of_names,
    function_around,
    last_name,
    loops_around,
    source_tree,
)
from slowtrain.whatif import Remedy, Skip

LineRuns = Callable[[Source, int], int | None]
MIN_SAMPLES = 8
# Either limit is enough to report a loop. Below both, the loop makes or sorts a little data.
MIN_LOOP_MS = 1000.0
MIN_LOOP_SHARE = 0.1
MIN_EAGER_OP_SHARE = 0.3  # of a line's samples inside Keras are in ops; the rest are in the Python around them
_EAGER_OP_FILE = re.compile(r"tensorflow/python/(?:ops/gen_\w+|eager/execute)\.py$")
SESSION_FILE = "tensorflow/python/client/session.py"  # a graph in TensorFlow 1, which is not work on elements
MIN_ONE_CALL_SHARE = 0.97  # of the samples at one instruction: one long call; a loop has samples at many instructions
MIN_LATE_FACTOR = 1.8  # mean time of a sample over the sampling interval: above it the sampler had to wait
MIN_ARRAY_ITERATION_MS = 0.1  # of a line in one iteration: some fifty NumPy calls; a longer line works on whole arrays
# What vectorising leaves of a Python loop. Measured with NumPy on two cores: square roots element by element 0.002,
# one-hot codes 0.04 to 0.15, images normalised one by one 0.23, numbers read from text 0.5, sums over rows of a
# hundred 0.5 to 0.9. The less an iteration does, the more is saved, hence the wide range.
LEFT_SHARE = 0.1
SPREAD = (0.45, 1.1)  # some loops are hardly quicker over arrays (strings, parsing), most nearly vanish
# The interpreter's own methods and functions on one number, text or list.
ELEMENT_FUNCTIONS = frozenset(
    "index count append extend insert remove get split strip lower upper replace join find startswith endswith items "
    "keys values add pop update int float str bool len range ord chr abs min max round enumerate zip set dict list "
    "tuple isinstance".split()
)
APPLYING_FUNCTIONS = frozenset("map vectorize apply_along_axis apply applymap fromiter frompyfunc".split())
JOINING_FUNCTIONS = frozenset("concatenate append vstack hstack row_stack column_stack dstack concat insert".split())
FILE_FUNCTIONS = frozenset(
    "open read_csv load imread read read_file imread_collection urlopen load_img glob write write_file save savez "
    "savez_compressed savetxt imwrite imsave dump to_csv tofile encode_png encode_jpeg TFRecordWriter".split()
)


class ElementLoopFinding(Struct, frozen=True):
    """Lines of loops before training, and the time in them."""

    places: tuple[Place, ...]
    ms: float
    samples: int


class ElementwisePreprocessing(Cause[ElementLoopFinding]):
    """A Python loop over single elements prepares the data before training."""

    title = "A Python loop over elements prepares the data"
    needs = frozenset({Signal.PHASES, Signal.LINES})
    scope = "run"
    words = (".fit", "GradientTape", "train_on_batch")

    def find(self, trace: Trace) -> ElementLoopFinding | None:
        finding = _element_loops(trace, self._line_runs)
        return finding if finding and finding.ms >= min(MIN_LOOP_MS, MIN_LOOP_SHARE * trace.run_ms) else None

    def _line_runs(self, source: Source, line: int) -> int | None:
        """How often a line runs; None if the text does not say it."""
        runs: int | None = self.folder_module("fix").line_runs(source, line)
        return runs

    def evidence(self, trace: Trace, finding: ElementLoopFinding) -> Evidence:
        return Evidence(
            f"Python loops over elements for {format_number(finding.ms / 1e3, 2)} s{_when_text(trace)}, "
            f"{finding.ms / trace.run_ms:.0%} of the run ({finding.samples} samples of the main thread)",
            {"loop_ms": finding.ms, "samples": float(finding.samples)},
            finding.places,
        )

    def remedies(self, trace: Trace, finding: ElementLoopFinding) -> Sequence[Remedy]:
        return [Skip((1 - LEFT_SHARE) * finding.ms, spread=SPREAD)]


def _when_text(trace: Trace) -> str:
    return " before the first step" if len(trace.steps) else " in a run without any recorded step"


def _element_loops(trace: Trace, line_runs: LineRuns) -> ElementLoopFinding | None:
    samples = _preparation_samples(trace)
    if len(samples) < MIN_SAMPLES:
        return None
    by_line: dict[Place, list[int]] = {}
    for i, number in enumerate(samples.name):
        place = trace.names[int(number)].place
        if place is not None:
            by_line.setdefault(place, []).append(i)
    each = ms_of_samples(trace, samples)
    looped = {p: rows for p, rows in by_line.items() if _runs_per_element(trace, p)}
    # Samples are taken where the interpreter releases its lock, so some samples of a loop are at lines around it.
    arrays = {p: rows for p, rows in looped.items() if _works_on_arrays(trace, p, each[rows], line_runs)}
    if sum(map(len, arrays.values())) > 0.5 * sum(map(len, looped.values())):
        looped = {p: rows for p, rows in looped.items() if p not in arrays}
    rows = [i for several in looped.values() for i in several]
    if len(rows) < MIN_SAMPLES or _is_one_call(trace, samples, rows):
        return None
    ordered = sorted(looped, key=lambda p: (-len(looped[p]), p.line))
    tree = source_tree(trace, ordered[0].file)
    outer = [Place(ordered[0].file, line) for line in _calling_lines(tree, ordered[0].line)] if tree is not None else []
    places = tuple(dict.fromkeys((*ordered[:3], *outer)))[:4]
    ms = float(each[rows].sum()) + unsampled_ms(trace, samples, {*looped, *outer})
    return ElementLoopFinding(places, ms, len(rows))


def _preparation_samples(trace: Trace) -> Spans:
    """Samples of the main thread before the first step, outside imports, building, tracing and fit."""
    stack = trace.lane("stack")
    keep = stack.start_ms < training_start_ms(trace)
    main = trace.main
    for lane in ("import", "build", "trace", "loop", "function", "iterator", "on_batch"):
        spans = trace.lane(lane)
        spans = spans.where(spans.thread == main)
        at = np.searchsorted(spans.start_ms, stack.start_ms, side="right") - 1
        reach = np.maximum.accumulate(spans.end_ms) if len(spans) else np.zeros(1)
        keep &= ~((at >= 0) & (stack.start_ms < reach[np.maximum(at, 0)]))
    stack = stack.where(keep)
    building = np.array([is_in_keras(n) for n in trace.names], dtype=bool)[stack.name]
    # A layer that is called on data runs ops. A layer that is called to build a model makes shapes and graphs.
    runs = np.array([bool(_EAGER_OP_FILE.search(str(n.detail.get("leaf_file")))) for n in trace.names], dtype=bool)[
        stack.name
    ]
    _, line = np.unique([str(trace.names[int(n)].place) for n in stack.name], return_inverse=True)
    part = np.bincount(line, runs & building) / np.maximum(np.bincount(line, building), 1) if len(line) else np.zeros(1)
    sessions = np.array([SESSION_FILE in str(n.detail.get("leaf_file")) for n in trace.names], dtype=bool)[stack.name]
    return stack.where((~building | (part[line] >= MIN_EAGER_OP_SHARE)) & ~sessions)


def _is_one_call(trace: Trace, samples: Spans, rows: list[int]) -> bool:
    """Whether nearly all samples were taken at one instruction (and in one library function under it).

    A loop's jump back is not a call, and the interpreter's own functions on one element are never long. Late samples
    next to a loop are not one long call either: a long call that releases the lock delays no sample.
    """
    where = Counter((int(samples.name[i]), int(samples.value[i])) for i in rows)
    (name, instruction), count = where.most_common(1)[0]
    if instruction < 0 or count < MIN_ONE_CALL_SHARE * len(rows):
        return False
    place = trace.names[name].place
    tree = source_tree(trace, place.file) if place is not None else None
    if tree is None or place is None:
        return True
    if (
        _are_samples_late(trace, ms_of_samples(trace, samples)[rows])
        and len(_line_and_inner_loops(tree, place.line)) > 1
    ):
        return False
    return not (
        set(map(called_name, calls_at(tree, place.line))) <= ELEMENT_FUNCTIONS or _copies_whole_array(tree, place.line)
    )


def _copies_whole_array(tree: ast.Module, line: int) -> bool:
    """Whether the line joins an array with more elements and assigns it to itself. Each iteration copies it."""
    for one in (
        n for n in syntax_tree.walk(tree) if isinstance(n, ast.Assign) and n.lineno <= line <= (n.end_lineno or 0)
    ):
        if isinstance(one.value, ast.Call) and called_name(one.value) in JOINING_FUNCTIONS:
            own = {ast.unparse(target) for target in one.targets}
            if own & {
                ast.unparse(n) for given in one.value.args for n in syntax_tree.walk(given) if isinstance(n, ast.expr)
            }:
                return True
    return False


def _runs_per_element(trace: Trace, place: Place) -> bool:
    """Whether the line runs for each element, in a loop or in a function that a loop calls, and is not file access."""
    tree = source_tree(trace, place.file)
    if tree is None or FILE_FUNCTIONS & set(map(called_name, calls_at(tree, place.line))):
        return False
    callers = _calling_lines(tree, place.line)
    loops = [loop for line in (place.line, *callers) for loop in loops_around(tree, line)]
    if line_roles.is_model_code(tree, place.line):
        return False
    if not len(trace.steps) and line_roles.calls_compiled_code(tree, (function_around(tree, place.line), *loops)):
        return False  # it may be the training itself
    return bool(loops or callers)


def _works_on_arrays(trace: Trace, place: Place, ms: Floats, line_runs: LineRuns) -> bool:
    """Whether a line takes too long in each iteration for one element, if the text gives the number of iterations.

    Late samples waited during many short calls and were taken at a longer one. Their time may belong to any line of
    the same function, so it counts for the line that runs most often.
    """
    source = recorded_source(trace, place.file)
    if source is None:
        return False
    lines = _line_and_inner_loops(source.tree, place.line) if _are_samples_late(trace, ms) else (place.line,)
    counts = [line_runs(source, line) for line in lines]
    known = [count for count in counts if count is not None]
    return len(known) == len(counts) and float(ms.sum()) >= MIN_ARRAY_ITERATION_MS * max(known)


def _are_samples_late(trace: Trace, ms: Floats) -> bool:
    return float(ms.mean()) >= MIN_LATE_FACTOR * sampling_interval_ms(trace)


def _calling_lines(tree: ast.Module, line: int) -> list[int]:
    """Lines of calls in loops of the function around ``line``, or of calls that apply it to each element."""
    return [call.lineno for call in looped_calls(tree, line)]


def _line_and_inner_loops(tree: ast.Module, line: int) -> Collection[int]:
    """A line, and the first lines of the loops in its function."""
    function = function_around(tree, line)
    nodes = syntax_tree.walk(function) if function is not None else ()
    return dict.fromkeys((line, *(loop.body[0].lineno for loop in nodes if isinstance(loop, ast.For | ast.While))))


def looped_calls(tree: ast.Module, line: int) -> list[ast.Call]:
    """Calls of the function around ``line`` in loops, and calls that apply it to each element."""
    function = function_around(tree, line)
    if function is None:
        return []
    found = []
    for call in calls_of_names(tree, {function.name, *APPLYING_FUNCTIONS}):
        in_loop = called_name(call) == function.name and loops_around(tree, call.lineno)
        applies = called_name(call) in APPLYING_FUNCTIONS and any(last_name(a) == function.name for a in call.args)
        if in_loop or applies:
            found.append(call)
    return found
