"""Lint rules on the interpreter's events about copies between Python, NumPy and TensorFlow in each step.

They supplement the lint rules that search the text of the loop.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from slowtrain.script.fixes.input import hoisted_conversions
from slowtrain.script.interpreter.domain import operators, shape_rules
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import interpreter, queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules.input.hand_fed_batches import MIN_COPIED_NUMBERS
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

MIN_CONVERTED_NUMBERS = 16_384  # numbers (64 KB). Fewer are copied in about 20 µs.
MIN_READ_VALUES = 4  # values. Each read takes about 20 µs, after the first one has waited for the device.
# TensorFlow converts a list at about 0.4 µs per number, NumPy 5 to 8 times faster.
MIN_LISTED_NUMBERS = 2048  # nearly 1 ms
NUMPY_SPEEDUP = 8  # times
ASSUMED_BATCH = 8  # samples, if their number is unknown
NUMPY_CONVERTING = frozenset({"numpy.array", "numpy.asarray", "numpy.stack"})
MIN_SMALL_COPIES = 16  # conversions, about 10 µs each
READ_CALLS = frozenset({"float", "int", "bool", ".numpy", ".item", ".tolist", "numpy.asarray", "numpy.array"})
TENSOR_KINDS = ("tensor", "variable")
CONVERSION_FUNCTIONS = frozenset(hoisted_conversions.CONVERSION_FUNCTIONS)
# Methods that change an array in place.
MUTATING_FUNCTIONS = (
    "shuffle",
    "fill",
    "sort",
    "copyto",
    "put",
    "partition",
    "readinto",
    "setfield",
    "resize",
    "put_along_axis",
)


@dataclass(frozen=True)
class StepCopy:
    node: ast.expr
    says: str
    cure: str


def step_reads(source: Source) -> Iterator[StepCopy]:
    """Find tensor values that each step reads one by one, and weights that it copies completely."""
    if not step_loops.step_events(source):
        return
    busy = {one.number for e in file_events(source) if _runs_model(e) for one in e.loops}
    seen: set[int] = set()  # one cure for all that a loop reads
    for event in file_events(source):
        if event.name not in READ_CALLS and event.name != ".get_weights":
            continue
        loop = step_loops.step_loop_of(source, event)
        if loop is None or loop.number in seen:
            continue
        inner = event.loops[event.loops.index(loop) + 1 :]
        if event.name in (".numpy", "numpy.asarray", "numpy.array", ".get_weights"):
            what = _weights_text(event)
            if what and not any(one.number in busy for one in inner):
                seen.add(loop.number)
                yield StepCopy(event.node, f"each step copies {what} to NumPy", "read it every hundredth step")
                continue
        read, (_, every) = _read_tensor(event), step_loops.loop_and_period(source, event) or (loop, 1)
        long = [one for one in inner if one.turns is None or one.turns >= MIN_READ_VALUES * every]
        if read is None or not long or any(one.number in busy for one in inner):
            continue
        if long[-1].number in read.varies and event.name != ".get_weights" and long[-1].number not in event.rare:
            seen.add(loop.number)
            says = "each step reads values of a tensor back one by one"
            yield StepCopy(event.node, says, "read all of them at once: .numpy() before this loop")


def separate_reads(source: Source) -> Iterator[StepCopy]:
    """Find several values that each step reads back by separate calls."""
    found: dict[int, list[Event]] = {}
    for event in file_events(source) if step_loops.step_events(source) else ():
        loop = step_loops.step_loop_of(source, event) if event.name in READ_CALLS else None
        if loop is not None and event.loops[-1] is loop and _read_tensor(event) is not None:
            found.setdefault(loop.number, []).append(event)
    for every in found.values():
        count = len({id(event.node) for event in every})
        if count >= MIN_READ_VALUES:
            says = f"each step waits for {count} values and reads them back one by one"
            cure = "add them up in keras.metrics.Mean inside the step, and read these once an epoch"
            yield StepCopy(every[0].node, says, cure)


def _runs_model(event: Event) -> bool:
    """Whether a model or graph runs in the event, so that each iteration has a new result."""
    return event.name == "taken" or (event.on is not None and event.on.kind in ("graph", "keras", "dataset"))


def _read_tensor(event: Event) -> Value | None:
    """Return the tensor that is converted to Python numbers."""
    given = event.on if event.name.startswith(".") else event.given.get("", 0)
    return given if given is not None and given.kind in TENSOR_KINDS else None


def _weights_text(event: Event) -> str:
    """Return a description of the weights that are read completely, if they are certainly large."""
    if event.name == ".get_weights":
        return "all weights" if event.on is not None and event.on.kind in ("keras", "object") else ""
    read = _read_tensor(event)
    if read is None or read.kind != "variable" or not read.shape:
        return ""
    count = prod(n or 1 for n in read.shape)
    return f"all {count} numbers of a variable" if count >= MIN_CONVERTED_NUMBERS else ""


def step_conversions(source: Source) -> Iterator[StepCopy]:
    """Find large constant arrays that are copied in each step, and lists that TensorFlow converts."""
    if not step_loops.step_events(source):
        return
    changed = _mutated_names(source)
    for event in file_events(source):
        graph = event.on is not None and event.on.kind == "graph"
        keras = event.name == ".train_on_batch"
        if not graph and not keras and event.name not in CONVERSION_FUNCTIONS | NUMPY_CONVERTING:
            continue
        loop = step_loops.step_loop_of(source, event)
        if loop is None or not isinstance(event.node, ast.Call):
            continue
        for place, given in zip(event.node.args, event.given.args, strict=False):
            again = [one.number for one in event.loops[event.loops.index(loop) :]]
            if event.name in NUMPY_CONVERTING or given.kind != "array" or _last_names(place) & changed:
                continue
            least = MIN_COPIED_NUMBERS if keras else MIN_CONVERTED_NUMBERS  # Keras has a fixed cost per call
            if not given.varies & set(again) and prod(n or 1 for n in given.shape or (0,)) >= least:
                says = "the same array is converted to a tensor again in every step"
                yield StepCopy(place, says, "make it a tensor once, before the loop: tf.constant()")
            elif _is_row_copy(source, place, given, again, changed):
                says = "rows of an array that stays as it is are copied to a tensor between two steps"
                cure = "make it a tensor once and tf.gather() the rows, or feed from a tf.data.Dataset with .prefetch()"
                yield StepCopy(place, says, cure)
        held = event.given.get("value", 0)
        loose = graph or keras or queries.is_lengthened(source, held, [loop])
        count = 0 if loose else _list_numbers(held, arrays=event.name in CONVERSION_FUNCTIONS)
        if count >= MIN_LISTED_NUMBERS * (NUMPY_SPEEDUP if event.name in NUMPY_CONVERTING else 1):
            says = f"{node_lookup.called_name(event.node)} goes through lists number by number, {count} in each step"
            yield StepCopy(event.node, says, "make one array of all samples, before the loop, and take its rows")


def session_feeds(source: Source) -> Iterator[StepCopy]:
    """Find large arrays that each iteration feeds to a session."""
    for event in file_events(source) if "Session" in source.words else ():
        given_to = event.given.keywords.get("feed_dict")
        if event.name != ".run" or given_to is None or not event.regular_loops(step_loops.MIN_LOOP_TURNS) or event.rare:
            continue
        for given in given_to.items.values():
            many = given.kind == "array" and given.shape and None not in given.shape
            if many and prod(n or 0 for n in given.shape or ()) >= MIN_COPIED_NUMBERS:
                says = "each turn copies a large array into the session before it can begin"
                cure = "keep the data in a variable and tf.gather() the rows, or feed from a tf.data.Dataset"
                yield StepCopy(event.node, says, cure)
                break


def _is_row_copy(source: Source, place: ast.expr, given: Value, again: list[int], changed: set[str]) -> bool:
    """Whether it is a large part of a constant array, which differs in each iteration."""
    if not given.shape or None in given.shape or not given.varies & set(again):
        return False
    if prod(n for n in given.shape if n is not None) < MIN_COPIED_NUMBERS:
        return False
    made = place if isinstance(place, ast.Subscript) else interpreter.producing_expression(source, given)
    if not isinstance(made, ast.Subscript) or _last_names(made) & changed:
        return False
    whole = interpreter.value_at(source, made.value)
    return whole.kind == "array" and not whole.varies & set(again)


def _list_numbers(given: Value, *, arrays: bool) -> int:
    """Return the minimum count of numbers in a list of lists, or of arrays if ``arrays`` is set."""
    if given.kind != "list" or not given.items:
        return 0
    inside = next(iter(given.items.values()))
    count = operators.minimum_length(given) or ASSUMED_BATCH
    if inside.kind == "array" and arrays and inside.shape:
        return count * prod(n or 1 for n in inside.shape)
    held = next(iter(inside.items.values())) if inside.kind == "list" and inside.items else None
    wide = shape_rules.shape_of(inside) or (operators.minimum_length(inside) or 1,)
    return count * prod(n or 1 for n in wide) if held is not None and held.kind in ("number", "list") else 0


def small_conversions(source: Source) -> Iterator[StepCopy]:
    """Find separate conversions of many columns to tensors in every step."""
    seen: set[int] = set()
    for event in file_events(source) if step_loops.step_events(source) else ():
        loop = (
            step_loops.step_loop_of(source, event)
            if event.name in CONVERSION_FUNCTIONS and event.name != "tensorflow.cast"
            else None
        )
        if loop is None or event.loops[-1] is loop or not _is_not_tensor(event):
            continue
        # A turn of a generator's loop is a turn of the loop that it feeds.
        inner = [one for one in event.loops[event.loops.index(loop) + 1 :] if not _yields(one.node)]
        copies = prod(one.turns or operators.minimum_length(one.items) or 1 for one in inner)
        if copies >= MIN_SMALL_COPIES and loop.number not in seen and not event.rare & {one.number for one in inner}:
            seen.add(loop.number)
            says = f"each step makes {copies} small tensors, with a copy of its own for each"
            yield StepCopy(event.node, says, "put the columns together in one array, and convert its rows once a step")


def _yields(loop: ast.AST) -> bool:
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in syntax_tree.walk(loop))


def _is_not_tensor(event: Event) -> bool:
    """Whether the converted value is certainly not a tensor yet."""
    kind = event.given.get("value", 0).kind
    return kind in ("array", "number", "list") or (kind == "unknown" and event.name == "tensorflow.constant")


def copies_not_known(known: Iterable[ast.AST], found: Iterable[StepCopy]) -> Iterator[StepCopy]:
    """Yield findings outside the spans of ``known`` and of each other."""
    lines = [(edits.node_start(one), edits.node_end(one)) for one in known]  # type: ignore[arg-type]
    for one in found:
        if not any(low <= edits.node_start(one.node) <= high for low, high in lines):
            lines.append((edits.node_start(one.node), edits.node_end(one.node)))
            yield one


def _last_names(node: ast.expr) -> set[str]:
    """Return the last names of all names that an expression reads."""
    inside = [n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))]
    return {n.id if isinstance(n, ast.Name) else n.attr for n in inside}


def _mutated_names(source: Source) -> set[str]:
    """Return names that the script changes in place: by ``x[i] = ...`` or ``np.copyto(x, ...)``."""
    found = {name for n in call_index.nodes_of_kind(source, ast.Subscript) if not isinstance(n.ctx, ast.Load)  # type: ignore[attr-defined]
             for name in _last_names(n.value)}  # type: ignore[attr-defined]  # fmt: skip
    found |= {name for n in call_index.nodes_of_kind(source, ast.AugAssign) for name in _last_names(n.target)}  # type: ignore[attr-defined]
    for call in call_index.index_of(source).called(*MUTATING_FUNCTIONS):
        for given in [*call.args[:1], *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]:
            found |= _last_names(given)
    return found - {"self", *scope_names.import_aliases(source)}
