"""Finds the cause host/elementwise-preprocessing in a script's text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.causes.host.elementwise_preprocessing import VECTORISE, scatter_loops
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.fixes.loops import array_comprehensions, vectorised_loops
from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.call_events import Loop
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.interpreter.library import framework_calls
from slowtrain.script.lint_rules import keras_names, spots, step_code
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, training_calls
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

# The simplest iteration takes 0.1 µs, one with a call of NumPy 1 µs or more. This many iterations, over all nested
# loops, take some tenths of a second or more.
MIN_TURNS = 100_000
MIN_SLOW_TURNS = 1_000_000  # if no equivalent over arrays is known
ASSUMED_ROWS = 1000  # assumed number of rows of training data
MIN_LAYER_CALLS = 1000  # of a layer, about 1 ms each
PREPARING_LAYERS = frozenset(
    "TextVectorization StringLookup IntegerLookup Hashing Normalization Discretization CategoryEncoding Resizing "
    "Rescaling CenterCrop".split()
)
NUMBER_BUILTINS = frozenset("min max abs float int round pow bool".split())
# NumPy has no equivalent over arrays of these.
EXCLUDED_NODES = (ast.For, ast.While, ast.Subscript, ast.Try, ast.Yield, ast.Global, ast.Nonlocal, ast.Starred)
_FOR = re.compile(r"\bfor\b")
TRANSFORM_METHODS = frozenset({".apply_transform", ".random_transform"})
TRANSFORM_TEXT = "a Python loop has SciPy transform one picture after the other"
TRANSFORM_PRESCRIPTION = Prescription(
    "edit",
    Effect.CHANGES_TRAINING,
    "let layers (RandomRotation, RandomBrightness) do it for whole batches, in the pipeline",
)
APPENDING_FUNCTIONS = frozenset({"numpy.append", "numpy.concatenate", "numpy.vstack", "numpy.hstack"})
MIN_APPENDED_ROWS = 1000


def find_spots(source: Source) -> Iterable[Spot]:
    """Loops over at least a hundred thousand elements that NumPy can do in one call."""
    stepping = {loop for loop, _ in step_code.loops_between_steps(source)}  # host/python-in-step
    for loop, turns, found in elementwise_loops(source):
        if loop not in stepping:
            says = f"a Python loop does work that NumPy can do for {'all' if turns is None else f'{turns:,}'} elements"
            effect = Effect.EXACT if found is not None and found.exact else Effect.EQUIVALENT
            made = found.edits if found is not None else ()
            yield spots.node_spot(loop, says, Prescription("edit", effect, VECTORISE, edits=made))
    yield from single_sample_calls(source)
    yield from vectorize_calls(source)
    for call in dict.fromkeys(transforms_in_loop(source)):
        yield spots.operation_spot(call, TRANSFORM_TEXT, TRANSFORM_PRESCRIPTION)
    for grown in growing_arrays(source):
        says = "each iteration of a long loop copies all rows of this array to add some"
        once = "collect the rows in a list or in an array of the full size, and join them once"
        yield spots.node_spot(grown, says, Prescription("edit", Effect.EXACT, once))


def elementwise_loops(
    source: Source,
) -> Iterator[tuple[step_code.ElementLoop, int | None, array_comprehensions.VectorisedCode | None]]:
    """Find outermost loops and array-building calls of a training file, with iterations and the rewritten code.

    The iterations are None for a loop over all elements of an array of unknown size.
    """
    if "numpy" not in source.text or not training_calls.takes_training_steps(source):
        return
    for loop in _outermost_loops(source):
        own = _loop_turns(source, loop)
        turns = own * _calls_in_loops(source, loop) if own is not None else 0
        fills = turns < MIN_SLOW_TURNS and _fills_elements(source, loop)
        turns = max(turns, _interpreted_turns(source, loop)) if fills else turns
        if turns < MIN_TURNS:
            if isinstance(loop, ast.For) and fills and _covers_all_rows(source, loop, own):
                yield loop, None, vectorised_loops.vectorise_loop(source, loop.lineno)
            continue
        found = vectorised_loops.vectorise_loop(source, loop.lineno)
        if found is not None or (turns >= MIN_SLOW_TURNS and (fills or _fills_elements(source, loop))):
            yield loop, turns, found


def single_sample_calls(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find Keras layers that are called for each sample: ``[vectorize([text]) for text in texts]``."""
    if not any(name in source.text for name in PREPARING_LAYERS) or not training_calls.takes_training_steps(source):
        return
    for made in call_index.nodes_matching(source, _FOR, ast.ListComp):
        if not isinstance(made, ast.ListComp) or len(made.generators) != 1:
            continue
        one = made.generators[0]
        turns = queries.loop_turns(source, one)
        if not isinstance(one.target, ast.Name) or isinstance(one.iter, (ast.List, ast.Tuple)):
            continue
        if turns is not None and turns < MIN_LAYER_CALLS:
            continue
        for call in syntax_tree.nodes_inside(made.elt, ast.Call):
            if _passes_one_sample(call, one.target.id) and _has_preparing_layer(source, call.func):
                yield (
                    call,
                    f"{ast.unparse(call.func)} is called for each sample by itself, and takes a whole list at once",
                )


def _passes_one_sample(call: ast.Call, name: str) -> bool:
    """Whether the call is ``f([x])`` or ``f(x[None])``."""
    given = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if isinstance(given, ast.List) and len(given.elts) == 1:
        return isinstance(given.elts[0], ast.Name) and given.elts[0].id == name
    new = isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Constant) and given.slice.value is None
    return new and isinstance(given.value, ast.Name) and given.value.id == name  # type: ignore[union-attr]


def _has_preparing_layer(source: Source, node: ast.expr) -> bool:
    """Whether it holds a preprocessing layer."""
    made = setting_origins.written_value(source, node)
    name = name_bindings.qualified_name(source, made.func) if isinstance(made, ast.Call) else ""
    return name.startswith("keras.layers.") and name.rpartition(".")[2] in PREPARING_LAYERS


def vectorize_calls(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Find calls of ``np.vectorize`` functions for very many numbers. They call the function for each number."""
    if "vectorize" not in source.text or not training_calls.takes_training_steps(source):
        return
    seen: set[ast.AST] = set()
    for event in interpreter.file_events(source):
        on = event.on
        if (
            on is None
            or event.name != framework_calls.VECTORIZED_NAME
            or event.graph
            or event.producer
            or event.node in seen
        ):
            continue
        function = on.of.node if on.of is not None else None
        sure = (
            one.turns or operators.minimum_length(one.items) or 1 for one in event.loops if one.number not in event.rare
        )
        elements = prod(n or 1 for n in event.result.shape or ()) * prod(sure)
        if elements >= MIN_TURNS and function is not None and _is_arithmetic(source, function):
            seen.add(event.node)
            yield event.node, f"np.vectorize calls a Python function for each of {elements:,} elements, or more"


def _is_arithmetic(source: Source, function: ast.AST) -> bool:
    """Whether a function only contains arithmetic and branches, which NumPy has for whole arrays."""
    body = [
        one
        for one in scope_names.scope_body(function)
        if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    inside = [n for one in body for n in syntax_tree.walk(one)]
    if any(isinstance(n, EXCLUDED_NODES) or isinstance(getattr(n, "value", None), str) for n in inside):
        return False
    calls = [n.func for n in inside if isinstance(n, ast.Call)]
    whole = (
        name_bindings.qualified_name(source, f)
        for f in calls
        if not (isinstance(f, ast.Name) and f.id in NUMBER_BUILTINS)
    )
    return all(name.startswith(("math.", "numpy.")) for name in whole)


def _outermost_loops(source: Source) -> Iterator[step_code.ElementLoop]:
    for loop in call_index.nodes_of_class(source, ast.For):
        if not scope_names.enclosing_loops(source, loop) and step_code.only_stores_results(source, loop):
            yield loop
    for call in call_index.index_of(source).called("array", "asarray", "stack"):
        listed = call.args and isinstance(call.args[0], (ast.ListComp, ast.GeneratorExp))
        if listed and name_bindings.qualified_name(source, call.func).startswith("numpy."):
            yield call


def _loop_turns(source: Source, loop: step_code.ElementLoop, depth: int = 3) -> int | None:
    """Return the iterations of a loop times those of inner loops, also in called functions; None if not visible."""
    body: list[ast.AST]
    if isinstance(loop, ast.Call):
        made = loop.args[0]
        assert isinstance(made, (ast.ListComp, ast.GeneratorExp))
        own, body = queries.loop_turns(source, made.generators[0]), [made.elt]
    else:
        own, body = queries.loop_turns(source, loop) or _filled_rows(source, loop), list(loop.body)
    parts = [p for one in body for p in source.called(one)[: depth + 1]]
    inner = syntax_tree.nodes_inside(parts, ast.For)
    outer = [n for n in inner if not any(n is not o and n in syntax_tree.walk(o) for o in inner)]
    factors = [_loop_turns(source, n, depth - 1) for n in outer] if depth else []
    inside = max([f for f in factors if f is not None], default=None)
    return inside if own is None else own * (inside or 1)  # at least one iteration of a loop of unknown length


def _interpreted_turns(source: Source, loop: step_code.ElementLoop) -> int:
    """Return the known iterations of a loop times those of inner loops and of loops around its calls."""
    of = loop if isinstance(loop, ast.For) else loop.args[0].generators[0]  # type: ignore[attr-defined]
    most = 0
    for event in interpreter.file_events(source):
        if event.begun is None or event.graph or event.producer or all(one.node is not of for one in event.loops):
            continue
        sure = (one for one in event.loops if one.number not in event.rare)
        most = max(most, prod(one.turns or operators.minimum_length(one.items) or 1 for one in sure))
    return most


def _calls_in_loops(source: Source, loop: step_code.ElementLoop, depth: int = 3) -> int:
    """Return how often loops call the function that contains the loop, as far as visible."""
    function = node_lookup.enclosing_function(source, loop)
    if function is None or not depth:
        return 1
    most = 1
    for call in call_index.index_of(source).called(function.name):
        times = (
            _calls_in_loops(source, call, depth - 1)
            if node_lookup.enclosing_function(source, call) is not function
            else 1
        )
        for outer in scope_names.loops_and_comprehensions(source, call):
            times *= queries.loop_turns(source, outer) or 1
        most = max(most, times)
    return most


def _covers_all_rows(source: Source, loop: ast.For, own: int | None) -> bool:
    """Whether the loop covers all rows of an array of unknown size, with a loop over each row.

    ``own``: the known iterations, or those of one row if the number of rows is unknown.
    """
    if not _queries_length(source, loop.iter) or queries.loop_turns(source, loop) is not None:
        return False
    if own is not None and own < MIN_TURNS // ASSUMED_ROWS:
        return False
    function = node_lookup.enclosing_function(source, loop)
    return function is None or bool(call_index.index_of(source).called(function.name))


def _queries_length(source: Source, over: ast.expr) -> bool:
    """Whether it is ``range(len(x) - 1)`` or ``range(x.shape[0])``, also through a name."""
    if not isinstance(over, ast.Call) or node_lookup.called_name(over) != "range" or not over.args:
        return False
    bound: ast.expr | None = over.args[min(len(over.args), 2) - 1]
    if isinstance(bound, ast.Name):
        bound = name_bindings.single_assignment(source, bound)
    return bound is not None and any(node_lookup.length_queries(bound))


def _filled_rows(source: Source, loop: ast.For) -> int | None:
    """Return the rows of the array that a loop fills by its index."""
    first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and loop.target.elts else loop.target
    counted = isinstance(loop.iter, ast.Call) and node_lookup.called_name(loop.iter) == "enumerate"
    if not counted or not isinstance(first, ast.Name):
        return None
    stored = syntax_tree.nodes_inside(loop.body, ast.Subscript)
    stored = [n for n in stored if isinstance(n.ctx, ast.Store) and first.id in _index_names(n)]
    sizes = {queries.row_count_at(source, n.value) for n in stored}
    return sizes.pop() if len(sizes) == 1 else None


def _index_names(stored: ast.Subscript) -> list[str]:
    at = stored.slice.elts[0] if isinstance(stored.slice, ast.Tuple) and stored.slice.elts else stored.slice
    return [at.id] if isinstance(at, ast.Name) else []


def _fills_elements(source: Source, loop: step_code.ElementLoop) -> bool:
    """Whether nested loops set single elements of an array by their indices.

    Also a loop in a function that a loop calls for each sample, and a loop that adds each element to a place that the
    element names.
    """
    if isinstance(loop, ast.Call) and isinstance(loop.args[0], (ast.ListComp, ast.GeneratorExp)):
        made = (n for part in source.called(loop.args[0].elt)[1:] for n in syntax_tree.walk(part))
        return any(isinstance(n, ast.For) and _filled_rows(source, n) is not None for n in made)
    if isinstance(loop, ast.For) and scatter_loops.is_scatter_loop(source, loop):
        return True
    inner = syntax_tree.nodes_inside(loop, ast.For)
    counted = {n.id for one in inner for n in syntax_tree.nodes_inside(one.target, ast.Name)}
    stored = [n.slice for n in syntax_tree.nodes_inside(loop, ast.Subscript) if isinstance(n.ctx, ast.Store)]
    by = [{e.id for e in at.elts if isinstance(e, ast.Name)} & counted for at in stored if isinstance(at, ast.Tuple)]
    return len(inner) > 1 and any(len(names) > 1 for names in by)


def transforms_in_loop(source: Source) -> Iterator[ast.Call]:
    """Find loops of the script that transform single images."""
    for event in (
        interpreter.file_events(source) if not source.words.isdisjoint(n[1:] for n in TRANSFORM_METHODS) else ()
    ):
        looped = event.regular_loops() and not event.producer and isinstance(event.node, ast.Call)
        if (
            event.name in TRANSFORM_METHODS
            and queries.is_keras_object(event.on, keras_names.GENERATOR_CLASS)
            and looped
        ):
            yield event.node  # type: ignore[misc]


def growing_arrays(source: Source) -> Iterator[ast.expr]:
    """Find arrays that a long loop extends by a row, which copies the array in each iteration."""
    for event in file_events(source):
        if (
            event.name not in APPENDING_FUNCTIONS
            or not event.loops
            or event.producer
            or event.graph
            or not event.given.args
        ):
            continue
        statement = node_lookup.enclosing_statement(source, event.node)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        names = {scope_names.dotted_name(one) for one in targets} - {""}
        read = (
            {scope_names.dotted_name(n) for a in event.node.args for n in syntax_tree.walk(a)}
            if isinstance(event.node, ast.Call)
            else set()
        )
        if _is_rebound_first(event.loops[-1].node, names & read):
            continue
        if names & read and (
            (event.loops[-1].turns or 0) >= MIN_APPENDED_ROWS or _loops_over_all_rows(event.loops[-1])
        ):
            yield event.node


def _is_rebound_first(loop: ast.AST, names: set[str]) -> bool:
    """Whether each iteration of a loop first rebinds one of these names."""
    for one in scope_names.nodes_in_scope(list(getattr(loop, "body", []))):
        if (
            isinstance(one, ast.Assign)
            and names & scope_names.bound_names(one)
            and not names & scope_names.read_names(one.value)
        ):
            return True
    return False


def _loops_over_all_rows(loop: Loop) -> bool:
    """Whether a loop like ``for i in range(len(x) - 24)`` has an iteration for each of an unknown number of rows."""
    over = loop.node.iter if isinstance(loop.node, ast.For) else None
    if loop.turns is not None or loop.items.kind != "range" or over is None:
        return False
    return any(node_lookup.length_queries(over))
