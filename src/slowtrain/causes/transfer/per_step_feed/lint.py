"""Where the cause transfer/per-step-feed shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.causes.transfer.per_step_feed import conversions
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import hoisted_conversions
from slowtrain.script.interpreter.domain import operators, shape_rules
from slowtrain.script.interpreter.domain.abstract_values import UNKNOWN, Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import interpreter, queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import element_sizes, whole_pipelines
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent

MIN_DRAWN_NUMBERS = 16_384  # numbers. NumPy draws a normal number in 10 to 20 ns, thus 0.2 ms in total.
# Numbers (1 MiB). Gathering and copying them takes about 0.5 ms, while the device is idle.
MIN_COPIED_NUMBERS = 2**18
# TensorFlow converts a list at about 0.4 µs per number, NumPy 5 to 8 times faster.
MIN_LISTED_NUMBERS = 2048  # nearly 1 ms
NUMPY_SPEEDUP = 8  # times
ASSUMED_BATCH = 8  # samples, if their number is unknown
NUMPY_CONVERTING = frozenset({"numpy.array", "numpy.asarray", "numpy.stack"})
MIN_CONVERTED_NUMBERS = 16_384  # numbers (64 KB). Fewer are copied in about 20 µs.
MIN_SMALL_COPIES = 16  # conversions, about 10 µs each
CONVERSION_FUNCTIONS = frozenset(hoisted_conversions.CONVERSION_FUNCTIONS)
GATHER_ROWS = "tf.gather() the rows, or feed from a tf.data.Dataset"
# Methods that change an array in place.
MUTATING_FUNCTIONS = "shuffle fill sort copyto put partition readinto setfield resize put_along_axis".split()


def find_spots(source: Source) -> Iterable[Spot]:
    """Conversions between the steps of a loop: of unchanged data, of data that NumPy draws there, of lists."""
    known = {(spot.start, spot.end): spot for spot in (*needless_conversions(source), *step_conversions(source))}
    yield from known.values()
    reached = (*reached_conversions(source), *small_conversions(source), *session_feeds(source))
    yield from spots.spots_outside(known.values(), reached)


def needless_conversions(source: Source) -> Iterator[Spot]:
    for one in conversions.find_needless_conversions(source):
        made = tuple(hoisted_conversions.hoist_repeated_work(source, one.call.lineno)) if one.same else ()
        cure = Prescription("edit" if made else "advice", Effect.EXACT, one.cure, edits=made)
        yield spots.node_spot(one.call, one.says, cure)


def step_conversions(source: Source) -> Iterator[Spot]:
    """Find conversions in every step, of constant data and of numbers that NumPy has just drawn."""
    for steps in step_loops.step_loops_of(source):
        for call in _conversion_calls(source, steps):
            made = tuple(hoisted_conversions.convert_before_loop(source, call.lineno))
            name = node_lookup.called_name(call)
            if made and scope_names.enclosing_loops(source, steps.loop) and _is_long_conversion(source, call):
                cure = Prescription("edit", Effect.EXACT, "convert once before the loop", edits=made)
                says = f"{name} converts the same rows anew in every epoch, between two steps"
                yield spots.node_spot(call, says, cure)
            elif _converts_drawn_numbers(source, steps, call):
                fed = "feed from a tf.data.Dataset that ends in .prefetch()"
                says = f"NumPy draws this batch and {name} copies it between two steps, while nothing computes"
                yield spots.node_spot(call, says, Prescription("edit", Effect.CHANGES_TRAINING, fed))


def _is_long_conversion(source: Source, call: ast.Call) -> bool:
    """Whether it converts a list or many rows. Few rows are converted while the previous step computes."""
    given = interpreter.value_at(source, call.args[0]) if call.args else UNKNOWN
    known = given.shape is not None and None not in given.shape
    return given.kind == "list" or (known and prod(n or 0 for n in given.shape or ()) >= MIN_COPIED_NUMBERS)


def _conversion_calls(source: Source, steps: step_loops.StepLoop) -> Iterator[ast.Call]:
    for one in step_loops.statements_per_turn(steps.loop):
        for call in whole_pipelines.calls_in([one]):
            known = scope_names.resolved_name(source, call.func) in hoisted_conversions.CONVERSION_FUNCTIONS
            if (
                known
                and node_lookup.called_name(call) != "cast"
                and scope_names.enclosing_loops(source, call)[:1] == [steps.loop]
            ):
                yield call


def _converts_drawn_numbers(source: Source, steps: step_loops.StepLoop, call: ast.Call) -> bool:
    """Whether it converts many numbers that NumPy drew in the same iteration."""
    value = call.args[0] if call.args else None
    if isinstance(value, ast.Name):
        made = [s for s in step_loops.statements_per_turn(steps.loop) if value.id in scope_names.bound_names(s)]
        value = made[0].value if len(made) == 1 and isinstance(made[0], ast.Assign) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "astype":
        value = value.func.value
    if not isinstance(value, ast.Call) or node_lookup.called_name(value) not in element_sizes.FLOAT_DRAWS:
        return False
    shape = queries.shape_at(source, value)
    known = bool(shape) and None not in (shape or ())
    drawn = name_bindings.qualified_name(source, value.func).startswith("numpy.random.")
    return drawn and known and prod(n or 0 for n in shape or ()) >= MIN_DRAWN_NUMBERS


def reached_conversions(source: Source) -> Iterator[Spot]:
    """Find large constant arrays that are copied in each step, and lists that TensorFlow converts."""
    if not step_loops.step_events(source):
        return
    for event in file_events(source):
        graph = event.on is not None and event.on.kind == "graph"
        keras = event.name == ".train_on_batch"
        if not graph and not keras and event.name not in CONVERSION_FUNCTIONS and event.name not in NUMPY_CONVERTING:
            continue
        loop = step_loops.step_loop_of(source, event)
        if loop is None or not isinstance(event.node, ast.Call):
            continue
        again = {one.number for one in event.loops[event.loops.index(loop) :]}
        for place, given in zip(event.node.args, event.given.args, strict=False):
            if event.name in NUMPY_CONVERTING or given.kind != "array" or _is_mutated(source, place):
                continue
            least = MIN_COPIED_NUMBERS if keras else MIN_CONVERTED_NUMBERS  # Keras has a fixed cost per call
            if not given.varies & again and prod(n or 1 for n in given.shape or (0,)) >= least:
                says = "the same array is converted to a tensor again in every step"
                yield _advice_spot(place, says, "make it a tensor once, before the loop: tf.constant()")
            elif _is_row_copy(source, place, given, again):
                says = "rows of an array that stays as it is are copied to a tensor between two steps"
                yield _advice_spot(place, says, f"make it a tensor once and {GATHER_ROWS} with .prefetch()")
        held = event.given.get("value", 0)
        loose = graph or keras or queries.is_lengthened(source, held, [loop])
        count = 0 if loose else _list_numbers(held, arrays=event.name in CONVERSION_FUNCTIONS)
        if count >= MIN_LISTED_NUMBERS * (NUMPY_SPEEDUP if event.name in NUMPY_CONVERTING else 1):
            says = f"{node_lookup.called_name(event.node)} goes through lists number by number, {count} in each step"
            yield _advice_spot(event.node, says, "make one array of all samples, before the loop, and take its rows")


def _advice_spot(node: ast.expr, says: str, cure: str) -> Spot:
    return spots.node_spot(node, says, Prescription("advice", Effect.EXACT, cure))


def session_feeds(source: Source) -> Iterator[Spot]:
    """Find large arrays that each iteration feeds to a session."""
    for event in file_events(source) if "Session" in source.words else ():
        fed = event.given.keywords.get("feed_dict")
        if event.name != ".run" or fed is None or not event.regular_loops(step_loops.MIN_LOOP_TURNS) or event.rare:
            continue
        arrays = [one.shape for one in fed.items.values() if one.kind == "array" and one.shape]
        if any(None not in shape and prod(n or 0 for n in shape) >= MIN_COPIED_NUMBERS for shape in arrays):
            says = "each turn copies a large array into the session before it can begin"
            yield _advice_spot(event.node, says, f"keep the data in a variable and {GATHER_ROWS}")


def _is_row_copy(source: Source, place: ast.expr, given: Value, again: set[int]) -> bool:
    """Whether it is a large part of a constant array, which differs in each iteration."""
    if not given.shape or None in given.shape or not given.varies & again:
        return False
    if prod(n for n in given.shape if n is not None) < MIN_COPIED_NUMBERS:
        return False
    made = place if isinstance(place, ast.Subscript) else interpreter.producing_expression(source, given)
    if not isinstance(made, ast.Subscript) or _is_mutated(source, made):
        return False
    whole = interpreter.value_at(source, made.value)
    return whole.kind == "array" and not whole.varies & again


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


def small_conversions(source: Source) -> Iterator[Spot]:
    """Find separate conversions of many columns to tensors in every step."""
    seen: set[int] = set()
    for event in file_events(source) if step_loops.step_events(source) else ():
        if event.name not in CONVERSION_FUNCTIONS or event.name == "tensorflow.cast":
            continue
        loop = step_loops.step_loop_of(source, event)
        if loop is None or event.loops[-1] is loop or loop.number in seen or not _is_not_tensor(event):
            continue
        # A turn of a generator's loop is a turn of the loop that it feeds.
        inner = [one for one in event.loops[event.loops.index(loop) + 1 :] if not _yields(one.node)]
        copies = queries.least_turns(inner)
        if copies >= MIN_SMALL_COPIES and not event.rare & {one.number for one in inner}:
            seen.add(loop.number)
            says = f"each step makes {copies} small tensors, with a copy of its own for each"
            yield _advice_spot(
                event.node, says, "put the columns together in one array, and convert its rows once a step"
            )


def _yields(loop: ast.AST) -> bool:
    return bool(syntax_tree.nodes_inside(loop, ast.Yield, ast.YieldFrom))


def _is_not_tensor(event: Event) -> bool:
    """Whether the converted value is certainly not a tensor yet."""
    kind = event.given.get("value", 0).kind
    return kind in ("array", "number", "list") or (kind == "unknown" and event.name == "tensorflow.constant")


def _last_names(node: ast.expr) -> set[str]:
    """Return the last names of all names that an expression reads."""
    inside = [n for n in syntax_tree.walk(node) if isinstance(n, (ast.Name, ast.Attribute))]
    return {n.id if isinstance(n, ast.Name) else n.attr for n in inside}


def _is_mutated(source: Source, node: ast.expr) -> bool:
    """Whether the script changes something that an expression reads."""
    return not _mutated_names(source).isdisjoint(_last_names(node))


@cache_recent(4)
def _mutated_names(source: Source) -> set[str]:
    """Return names that the script changes in place: by ``x[i] = ...`` or ``np.copyto(x, ...)``."""
    changed = [n.value for n in call_index.nodes_of_class(source, ast.Subscript) if not isinstance(n.ctx, ast.Load)]
    changed += [n.target for n in call_index.nodes_of_class(source, ast.AugAssign)]
    for call in call_index.index_of(source).calls_of(*MUTATING_FUNCTIONS):
        changed += [*call.args[:1], *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
    names = {name for one in changed for name in _last_names(one)}
    return names - {"self", *scope_names.import_aliases(source)}
